"""Counters for limits: token buckets for requests over time, slots for requests and body bytes in progress."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from windlass.settings import Rate

MOST_CALLERS = 10_000  # remembered; a forgotten caller starts with a full bucket
UNCOUNTED = 65_536  # bytes of each body: ordinary requests are never refused because of large ones


class Buckets:
    """Token buckets: each caller may make a burst of `count` requests, and its bucket refills evenly."""

    def __init__(self, rate: Rate, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()  # tokens, and when they were counted

    def take(self, caller: bytes) -> float:
        """Take a token and return how many are left; a negative number means that there was none."""
        now = self._clock()
        tokens, then = self._buckets.pop(caller, (float(self.rate.count), now))
        left = min(self.rate.count, tokens + (now - then) * self.rate.per_second) - 1
        self._buckets[caller] = (left if left >= 0 else left + 1, now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return left


@dataclass(frozen=True, slots=True)
class SlotOptions:
    requests: int
    body_bytes: int
    per_address: int | None = None  # requests


class Slots:
    """Limits the number of concurrent requests, and the total size of their bodies."""

    def __init__(self, options: SlotOptions) -> None:
        self._options = options
        self._requests = 0
        self._bytes = 0
        self._of_address: Counter[str] = Counter()

    def take(self, address: str) -> "Slot | None":
        """Return a slot, or None if all slots, or those of this address, are taken."""
        most = self._options.per_address
        if self._requests >= self._options.requests or (most is not None and self._of_address[address] >= most):
            return None
        self._requests += 1
        self._of_address[address] += 1
        return Slot(self, address)

    def _add_bytes(self, count: int) -> bool:
        if self._bytes + count > self._options.body_bytes:
            return False
        self._bytes += count
        return True

    def _release(self, address: str, count: int) -> None:
        self._requests -= 1
        self._bytes -= count
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]


class Slot:
    """A slot, which a request holds until it has ended."""

    def __init__(self, slots: Slots, address: str) -> None:
        self._slots: Slots | None = slots
        self._address = address
        self._size = 0
        self._counted = 0

    def has_room(self, count: int) -> bool:
        """Count these bytes of the body; return False if the limit for all bodies is reached."""
        self._size += count
        more = max(0, self._size - UNCOUNTED) - self._counted
        if self._slots is None or more <= 0:
            return True
        if not self._slots._add_bytes(more):
            return False
        self._counted += more
        return True

    def release(self) -> None:
        if self._slots is not None:
            self._slots._release(self._address, self._counted)
            self._slots = None
