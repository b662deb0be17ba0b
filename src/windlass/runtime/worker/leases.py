"""The set of leases that a worker keeps alive, shared by its event loop and its heartbeat thread.

A lease is in the set from the moment its claim returns until the job's report is recorded (or its attempt ends without
a report): while the job waits to start, while it runs, and while its report waits for a turn or is part of one. Whole
batches are added and removed under the lock, so the event loop takes it once a turn rather than once a job.
"""

import threading
import time
from collections.abc import Iterable

from windlass.core.jobs.job import Fence


class Leases:
    def __init__(self) -> None:
        self._claimed_at: dict[Fence, float] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._claimed_at)

    def add(self, fences: Iterable[Fence]) -> None:
        claimed = dict.fromkeys(fences, time.monotonic())
        with self._lock:
            self._claimed_at.update(claimed)

    def remove(self, fences: Iterable[Fence]) -> None:
        with self._lock:
            for fence in fences:
                self._claimed_at.pop(fence, None)

    def fences(self, *, older_than: float = 0.0) -> list[Fence]:
        """Return the fences of the leases claimed at least `older_than` seconds ago."""
        limit = time.monotonic() - older_than
        with self._lock:
            return [fence for fence, claimed_at in self._claimed_at.items() if claimed_at <= limit]
