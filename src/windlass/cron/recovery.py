"""Wrappers against failures: retries with growing delays, and a circuit breaker.

The breaker skips starts for `cooldown` after `threshold` failures in a row, then lets one through:

closed -> open         `threshold` failures in a row
open -> half-open      the first start after the cooldown: it runs as a probe, other starts are skipped
half-open -> closed    the probe succeeded
half-open -> open      the probe failed
"""

import logging
import random
from asyncio import CancelledError
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.cron.context import here, pause
from windlass.cron.job import Call, LocalWrapper, Skip, Wrapper, notify
from windlass.cron.wrappers import positive_integer
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
    _check_retries(max_retries, multiplier)
    first = _pause_seconds(initial, "initial")
    most = _pause_seconds(longest, "longest")

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


def _check_retries(max_retries: int, multiplier: float) -> None:
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < -1:
        raise Invalid(f"max_retries is {max_retries!r}; it must be an integer, or -1 for no limit", field="max_retries")
    if isinstance(multiplier, bool) or not isinstance(multiplier, int | float) or not multiplier > 0:
        raise Invalid(f"multiplier is {multiplier!r}; it must be a positive number", field="multiplier")


def _pause_seconds(value: Duration, field: str) -> float:
    seconds = duration.read(value, field=field).total_seconds()
    if seconds < 0:
        raise Invalid(f"{field} is {value!r}; it must not be negative", field=field)
    return seconds


async def _wait(retry: int, delay: timedelta, error: Exception, on_retry: OnRetry | None) -> bool:
    logger.info("job %s failed, retry %d in %s: %s", here().name, retry, delay, error)
    notify(on_retry, retry, delay, error)
    return await pause(delay.total_seconds())


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


OnChange = Callable[[BreakerState, BreakerState], object]


def circuit_breaker(threshold: int, cooldown: Duration, *, on_change: OnChange | None = None) -> Wrapper:
    """Return a wrapper with a separate breaker for each entry. To inspect or share one, use a `CircuitBreaker`."""
    CircuitBreaker(threshold, cooldown)  # validate the arguments now, not when the first entry is added
    return LocalWrapper("circuit_breaker", lambda call: CircuitBreaker(threshold, cooldown, on_change=on_change)(call))


class CircuitBreaker:
    """A circuit breaker whose state can be inspected. All jobs wrapped by the same object share its state."""

    def __init__(self, threshold: int, cooldown: Duration, *, on_change: OnChange | None = None) -> None:
        self.threshold = positive_integer(threshold, "threshold")
        self.cooldown = duration.read(cooldown, field="cooldown")
        if self.cooldown <= timedelta():
            raise Invalid(f"cooldown is {cooldown!r}; it must be positive", field="cooldown")
        self.state = BreakerState.CLOSED
        self.failures = 0  # consecutive
        self.last_failure: datetime | None = None
        self._on_change = on_change
        self._probing = False

    @property
    def cooldown_ends(self) -> datetime | None:
        """The time from which the next start runs as a probe; None while closed."""
        if self.state is BreakerState.CLOSED or self.last_failure is None:
            return None
        return self.last_failure + self.cooldown

    def __call__(self, call: Call) -> Call:
        async def guarded() -> Any:
            probe = self._admit(here().host.clock.now())
            try:
                value = await call()
            except Skip:
                raise  # the job did not run: neither a success nor a failure
            except (Exception, CancelledError):  # CancelledError: cut off by an outer timeout
                self._failed(here().host.clock.now())
                raise
            else:
                self._succeeded()
                return value
            finally:
                if probe:
                    self._probing = False

        return guarded

    def _admit(self, now: datetime) -> bool:
        """Return whether this start is the probe of an open breaker; raise `Skip` if the job must not run."""
        if self.state is BreakerState.CLOSED:
            return False
        ends = self.cooldown_ends
        if self._probing or (ends is not None and now < ends):
            raise Skip(f"its circuit breaker is {self.state} after {self.failures} failures")
        self._change(BreakerState.HALF_OPEN)
        self._probing = True
        return True

    def _failed(self, now: datetime) -> None:
        self.failures += 1
        self.last_failure = now
        if self.state is BreakerState.HALF_OPEN or self.failures >= self.threshold:
            self._change(BreakerState.OPEN)

    def _succeeded(self) -> None:
        self.failures = 0
        self._change(BreakerState.CLOSED)

    def _change(self, state: BreakerState) -> None:
        if state is self.state:
            return
        old, self.state = self.state, state
        logger.info("circuit breaker: %s -> %s after %d failures", old, state, self.failures)
        notify(self._on_change, old, state)
