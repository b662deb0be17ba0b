"""A door for plain scripts: an event loop in a thread of its own, with an app that lives there."""

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")


class Portal:
    def __init__(self, app: "Windlass") -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="windlass-portal", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def call(self, use: "Callable[[Windlass], Awaitable[T]]") -> T:
        async def inside() -> T:
            return await use(self._app)

        return asyncio.run_coroutine_threadsafe(inside(), self._loop).result()

    def close(self) -> None:
        if not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._app.close(), self._loop).result(timeout=10)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)
            self._loop.close()
