"""A semaphore for jobs; waiters get slots in order. Safe across threads and loops: several schedulers may share it."""

import threading
from collections import deque

from windlass.cron.executions.context import Nap, here


class Semaphore:
    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def try_take(self) -> bool:
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            return False

    async def take(self) -> bool:
        """Wait for a slot; return False if the job was cancelled meanwhile."""
        if self.try_take():
            return True
        waiter = _Waiter(Nap(here()))
        with self._lock:
            self._queue.append(waiter)
        self._hand_on()  # a slot may have been released after `try_take`, before this waiter was queued
        came = False
        try:
            came = await waiter.nap.over()
        finally:
            if not came:
                self._leave(waiter)
        return came

    def give(self) -> None:
        with self._lock:
            self._free += 1
        self._hand_on()

    def _hand_on(self) -> None:
        with self._lock:
            if not self._free or not self._queue:
                return
            self._free -= 1
            waiter = self._queue.popleft()
            waiter.granted = True
        waiter.nap.end()

    def _leave(self, waiter: "_Waiter") -> None:
        """Leave the queue; if a slot was granted after the wait had ended, release it to the next waiter."""
        with self._lock:
            if not waiter.granted:
                self._queue.remove(waiter)
                return
        self.give()


class _Waiter:
    __slots__ = ("granted", "nap")

    def __init__(self, nap: Nap) -> None:
        self.nap, self.granted = nap, False
