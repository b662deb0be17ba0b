"""How many requests, and how many bytes of their bodies, are under way at a time.

Callers with a key and strangers (`/wh/`, `/in/`) have slots of their own: whatever strangers do, the others are served.
"""

from collections import Counter
from dataclasses import dataclass

UNCOUNTED = 65_536  # bytes of each body: ordinary requests are never refused for the sake of large ones


@dataclass(frozen=True, slots=True)
class SlotOptions:
    requests: int
    body_bytes: int
    per_address: int | None = None  # requests


class Slots:
    def __init__(self, options: SlotOptions) -> None:
        self._options = options
        self._requests = 0
        self._bytes = 0
        self._of_address: Counter[str] = Counter()

    def take(self, address: str) -> "Slot | None":
        """Return a slot, or None if there is none left, for this address or at all."""
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
    """Held by a request until it has ended."""

    def __init__(self, slots: Slots, address: str) -> None:
        self._slots: Slots | None = slots
        self._address = address
        self._size = 0
        self._counted = 0

    def has_room(self, count: int) -> bool:
        """Count these bytes of the body; False if all bodies together would be too many."""
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
