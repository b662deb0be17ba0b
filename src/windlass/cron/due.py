"""The queue of due entries: a heap of times.

An entry has at most one current time; superseded times stay in the heap until they are popped or swept.
"""

import heapq
from collections.abc import Iterator
from datetime import datetime
from itertools import count

from windlass.cron.executions.context import EntryId

Moment = tuple[float, int, EntryId, datetime]  # seconds first: aware datetimes are slow to compare


class Due:
    def __init__(self) -> None:
        self._heap: list[Moment] = []
        self._current: dict[EntryId, int] = {}
        self._order = count()

    def put(self, entry: EntryId, at: datetime) -> None:
        order = next(self._order)
        self._current[entry] = order
        heapq.heappush(self._heap, (at.timestamp(), order, entry, at))
        if len(self._heap) > 2 * len(self._current) + 64:
            self._sweep()

    def drop(self, entry: EntryId) -> None:
        self._current.pop(entry, None)

    def first(self) -> datetime | None:
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else None

    def pop(self, now: datetime) -> Iterator[tuple[EntryId, datetime]]:
        """Yield the entries that are due, in order. Times put during the iteration must be later than `now`."""
        limit = now.timestamp()
        while self._heap and self._heap[0][0] <= limit:
            moment = heapq.heappop(self._heap)
            if self._is_current(moment):
                del self._current[moment[2]]
                yield moment[2], moment[3]

    def clear(self) -> None:
        self._heap.clear()
        self._current.clear()

    def __len__(self) -> int:
        return len(self._current)

    def _is_current(self, moment: Moment) -> bool:
        return self._current.get(moment[2]) == moment[1]

    def _sweep(self) -> None:
        self._heap = [moment for moment in self._heap if self._is_current(moment)]
        heapq.heapify(self._heap)
