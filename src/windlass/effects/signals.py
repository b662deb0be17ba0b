"""Handles SIGINT and SIGTERM: the first starts a drain, the second cuts it short, the third exits immediately."""

import asyncio
import os
import signal
import threading
from types import FrameType
from typing import Any, Self

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Create it inside the running event loop. `exit_code` is 0 unless a second signal cut the drain short.

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
        # Not loop.add_signal_handler: while a job handler blocks the loop, the third signal must still end the process.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._received) for number in HANDLED}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _received(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1:
            self._loop.call_soon_threadsafe(self.stop.set)
            return
        self.exit_code = 128 + number
        if self._count > 2:
            os._exit(self.exit_code)
        self._loop.call_soon_threadsafe(self.at_once.set)
