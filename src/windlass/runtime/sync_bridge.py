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


class SyncBridge(Generic[A]):
    """Runs calls on an object that belongs to the background loop.

    Connections belong to one event loop, so `make` creates a second object for the background loop, on first use.
    """

    def __init__(self, make: Callable[[], A]) -> None:
        self._make = make
        self._opened: tuple[asyncio.AbstractEventLoop, threading.Thread, A] | None = None
        self._opening = threading.Lock()  # several threads may make the first call at the same time

    def run(self, call: Callable[[A], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the background loop, wait for it, and return its result or raise its exception."""
        with self._opening:
            if self._opened is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=loop.run_forever, name="windlass-sync", daemon=True)
                thread.start()
                self._opened = loop, thread, self._make()
                atexit.register(self.close)
            loop, _, twin = self._opened
        return asyncio.run_coroutine_threadsafe(call(twin), loop).result()

    def close(self) -> None:
        """Close the object and stop the thread. Called automatically at exit."""
        if self._opened is not None:
            loop, thread, twin = self._opened
            self._opened = None
            asyncio.run_coroutine_threadsafe(twin.close(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
