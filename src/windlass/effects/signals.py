"""SIGINT and SIGTERM: the first drains, the second ends at once, the third does not wait for anybody."""

import asyncio
import os
import signal
import threading
from types import FrameType
from typing import Any, Self

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Used inside the running loop. `exit_code` is 0 unless a second signal cut the drain short.

    Only the main thread can handle signals; in another thread nothing is installed.
    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.at_once = asyncio.Event()
        self.exit_code = 0
        self._count = 0
        self._before: dict[int, Any] = {}
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        # Not loop.add_signal_handler: a handler that blocks the loop would keep the third signal from being heard.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._heard) for number in HANDLED}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1:
            self._loop.call_soon_threadsafe(self.stop.set)
            return
        self.exit_code = 128 + number
        if self._count > 2:
            os._exit(self.exit_code)
        self._loop.call_soon_threadsafe(self.at_once.set)
