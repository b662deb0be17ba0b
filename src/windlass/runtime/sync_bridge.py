"""Runs an event loop in a background thread so that synchronous code can call the async API."""

import asyncio
import atexit
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar


class Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T")
A = TypeVar("A", bound=Closable)


class Door(Generic[A]):
    """Runs calls on an object that belongs to the background loop.

    Connections belong to one event loop, so `make` creates a second object for the background loop, on first use.
    """

    def __init__(self, make: Callable[[], A]) -> None:
        self._make = make
        self._open: tuple[SyncBridge, A] | None = None
        self._opening = threading.Lock()  # two threads may come first

    def run(self, work: Callable[[A], Coroutine[Any, Any, T]]) -> T:
        with self._opening:
            if self._open is None:
                self._open = SyncBridge(), self._make()
                atexit.register(self.close)
            portal, twin = self._open
        return portal.run(work(twin))

    def close(self) -> None:
        """Close the object and stop the thread. Called automatically at exit."""
        if self._open is not None:
            portal, twin = self._open
            self._open = None
            portal.run(twin.close())
            portal.close()


class SyncBridge:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass-portal", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the background loop, wait for it, and return its result or raise its exception."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
