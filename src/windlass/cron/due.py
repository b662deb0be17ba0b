"""Who is next: a heap of moments. An entry has at most one; older ones of it are dropped when they come up."""

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
        """Those whose moment has come, in order. What is put back meanwhile must lie in the future."""
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
