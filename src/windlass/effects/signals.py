"""Handles SIGINT and SIGTERM: the first starts a drain, the second cuts it short, the third exits immediately."""

import asyncio
import os
import signal
import socket
import threading
from types import FrameType
from typing import Any, Self

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Must be created inside the running event loop. `exit_code` is 0 unless a second signal cut the drain short.

    Only the main thread can handle signals; in another thread nothing is installed.
    """

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.at_once = asyncio.Event()
        self.exit_code = 0
        self._count = 0
        self._before: dict[int, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._sockets: tuple[socket.socket, socket.socket] | None = None

    def __enter__(self) -> Self:
        # Not loop.add_signal_handler: while a job handler blocks the loop, the third signal must still end the process.
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._received) for number in HANDLED}
            self._wake_on_signals()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._sockets is not None:
            signal.set_wakeup_fd(-1)
            self._loop.remove_reader(self._sockets[0])
            for end in self._sockets:
                end.close()

    def _wake_on_signals(self) -> None:
        """Make every signal wake the event loop. The kernel may deliver it to any thread: then the loop in the main
        thread, which must run the handler, would continue to wait until its next event."""
        known = signal.set_wakeup_fd(-1)
        if known != -1:  # uvloop has its own
            signal.set_wakeup_fd(known, warn_on_full_buffer=False)
            return
        self._sockets = receiver, sender = socket.socketpair()
        for end in self._sockets:
            end.setblocking(False)
        self._loop.add_reader(receiver, receiver.recv, 4096)
        signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)

    def _received(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        if self._count == 1:
            self._loop.call_soon_threadsafe(self.stop.set)
            return
        self.exit_code = 128 + number
        if self._count > 2:
            os._exit(self.exit_code)
        self._loop.call_soon_threadsafe(self.at_once.set)
