"""Serializes calls to the scheduler across threads.

While a loop is attached, all calls run on its thread; other threads queue theirs and block until the result is there.
Without a loop, before the start and after the stop, a call runs in the caller's thread under the lock.

A call is queued under the same lock that `detach` holds while it empties the queue, so no call is left behind.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class ThreadGate:
    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._lock = threading.RLock()
        self._handed_in: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def attach(self) -> None:
        with self._lock:
            self.loop = asyncio.get_running_loop()
            self._thread = threading.get_ident()

    def detach(self) -> None:
        """Run the calls that are still queued, then release the loop."""
        with self._lock:
            self._serve()
            self.loop = self._thread = None

    @property
    def here(self) -> bool:
        """Whether the caller is on the attached loop's thread."""
        return self._thread == threading.get_ident()

    def __call__(self, work: Callable[[], T]) -> T:
        if self.here:
            return work()
        with self._lock:
            if self.loop is None:
                return work()
            answer: Future[T] = Future()
            self._handed_in.append((work, answer))
            self.loop.call_soon_threadsafe(self._serve)
        return answer.result()

    def _serve(self) -> None:
        while self._handed_in:
            work, answer = self._handed_in.popleft()
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)
