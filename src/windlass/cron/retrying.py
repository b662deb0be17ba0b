"""Try again, with growing pauses."""

import logging
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from windlass.cron.context import here, pause
from windlass.cron.job import Call, Skip, Wrapper, tell

logger = logging.getLogger("windlass.cron")
SPREAD = 0.1  # of each pause, up or down
OnRetry = Callable[[int, timedelta, BaseException], object]


def retry_with_backoff(
    max_retries: int,
    *,
    initial: timedelta = timedelta(seconds=1),
    longest: timedelta = timedelta(minutes=1),
    multiplier: float = 2.0,
    on_retry: OnRetry | None = None,
) -> Wrapper:
    """Up to `max_retries` more tries after a failure; -1: without end. The last failure is the job's.

    The pause before retry k is `initial * multiplier ** (k - 1)`, at most `longest`, give or take 10 %. `on_retry` is
    told the number of the retry, the pause and the error. A job that is cancelled meanwhile is not tried again.
    """

    def delay(retry: int) -> timedelta:
        base = min(initial.total_seconds() * multiplier ** min(retry - 1, 1000), longest.total_seconds())
        return timedelta(seconds=base * (1 + random.uniform(-SPREAD, SPREAD)))

    def wrapper(call: Call) -> Call:
        async def trying() -> Any:
            failed: Exception | None = None
            retry = 0
            while True:
                try:
                    return await call()
                except Skip:
                    if failed is None:
                        raise
                    raise failed from None  # it did run, and failed
                except Exception as error:
                    failed = error
                retry += 1
                if retry > max_retries >= 0 or not await _wait(retry, delay(retry), failed, on_retry):
                    raise failed

        return trying

    return wrapper


async def _wait(retry: int, delay: timedelta, error: Exception, on_retry: OnRetry | None) -> bool:
    logger.info("job %s failed, retry %d in %s: %s", here().name, retry, delay, error)
    tell(on_retry, retry, delay, error)
    return await pause(delay.total_seconds())
