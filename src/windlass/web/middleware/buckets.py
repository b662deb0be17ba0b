"""Token buckets: each caller may make `count` requests at once, and the bucket fills again evenly."""

import time
from collections import OrderedDict
from collections.abc import Callable

from windlass.settings import Rate

MOST_CALLERS = 10_000  # remembered; who is forgotten begins with a full bucket


class Buckets:
    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def take(self, caller: bytes) -> float:
        """Return what is left in the bucket after this request; below zero: it was one too many."""
        now = self._clock()
        tokens, then = self._buckets.pop(caller, (float(self.rate.count), now))
        left = min(self.rate.count, tokens + (now - then) * self.rate.per_second) - 1
        self._buckets[caller] = (left if left >= 0 else left + 1, now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return left
