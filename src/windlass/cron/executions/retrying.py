"""Retries with growing delays."""

import logging
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.cron.executions.context import here, pause
from windlass.cron.job import Call, Skip, Wrapper, tell
from windlass.errors import Invalid

logger = logging.getLogger("windlass.cron")
SPREAD = 0.1  # the share of each pause that is added or subtracted at random
OnRetry = Callable[[int, timedelta, BaseException], object]


def retry_with_backoff(
    max_retries: int,
    *,
    initial: Duration = 1,
    longest: Duration = 60,
    multiplier: float = 2.0,
    on_retry: OnRetry | None = None,
) -> Wrapper:
    """Retry a failed job up to `max_retries` times; -1 means no limit. The last failure is the job's result.

    The pause before retry k is `initial * multiplier ** (k - 1)`, at most `longest`, plus or minus 10 %. `on_retry` is
    called with the number of the retry, the pause and the error. A job that is cancelled meanwhile is not retried.
    """
    _check(max_retries, multiplier)
    first = _seconds(initial, "initial")
    most = _seconds(longest, "longest")

    def delay(retry: int) -> timedelta:
        base = min(first * multiplier ** min(retry - 1, 1000), most)
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
                    raise failed from None  # an earlier attempt ran and failed
                except Exception as error:
                    failed = error
                retry += 1
                if retry > max_retries >= 0 or not await _wait(retry, delay(retry), failed, on_retry):
                    raise failed

        return trying

    return wrapper


def _check(max_retries: int, multiplier: float) -> None:
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < -1:
        raise Invalid(
            f"max_retries is {max_retries!r}; it must be a whole number, or -1 for no limit", field="max_retries"
        )
    if isinstance(multiplier, bool) or not isinstance(multiplier, int | float) or not multiplier > 0:
        raise Invalid(f"multiplier is {multiplier!r}; it must be a positive number", field="multiplier")


def _seconds(value: Duration, field: str) -> float:
    seconds = duration.read(value, field=field).total_seconds()
    if seconds < 0:
        raise Invalid(f"{field} is {value!r}; it must not be negative", field=field)
    return seconds


async def _wait(retry: int, delay: timedelta, error: Exception, on_retry: OnRetry | None) -> bool:
    logger.info("job %s failed, retry %d in %s: %s", here().name, retry, delay, error)
    tell(on_retry, retry, delay, error)
    return await pause(delay.total_seconds())
