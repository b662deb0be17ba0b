"""A circuit breaker: after `threshold` failures in a row it skips starts for `cooldown`, then lets one through.

closed -> open         `threshold` failures in a row
open -> half-open      the first start after the cooldown: it runs as a probe, other starts are skipped
half-open -> closed    the probe succeeded
half-open -> open      the probe failed
"""

import logging
from asyncio import CancelledError
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.cron.executions.context import here
from windlass.cron.job import Call, LocalWrapper, Skip, Wrapper, tell
from windlass.errors import Invalid

logger = logging.getLogger("windlass.cron")


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
        if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 1:
            raise Invalid(f"threshold is {threshold!r}; it must be a whole number, at least 1", field="threshold")
        self.threshold, self.cooldown = threshold, duration.read(cooldown, field="cooldown")
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
        tell(self._on_change, old, state)
