"""Connections: each has deadlines, and there are never more than the process has file descriptors for.

uvicorn ends a connection that stays silent after an answer; but it waits for ever for the first request, for the rest
of a head that trickles in, and for a client that does not read its answer. Those deadlines are here.

When there is no room for another connection, the one that has been idle longest is closed: silent connections cannot
keep others out.
"""

import asyncio
import errno
import logging
import os
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

try:
    import resource
except ImportError:  # Windows has no such limit
    resource = None  # type: ignore[assignment]

HEAD_WITHIN = 10.0  # seconds for the head of a request, from the connection or from the answer before it
WRITE_WITHIN = 60.0  # seconds for which a client may leave an answer unread
MOST = 10_000  # connections
FREE_SHARE = 4  # one in so many file descriptors stays free for the database, HTTP steps, files
QUIET = 60.0  # seconds between two lines of the log about full tables
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_log = logging.getLogger("windlass.web")


class Connections(ServerState):
    """The connections of a server: how many there may be, and which of them wait for a request."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most = most_connections() if most is None else most
        self.idle: OrderedDict[Connection, None] = OrderedDict()  # the longest first
        self._logged = float("-inf")

    def has_room(self) -> bool:
        """Whether a connection just made may stay; closes an idle one if there is no room otherwise."""
        return len(self.connections) <= self.most or self.close_idle()

    def close_idle(self) -> bool:
        """Close the connection that has been idle longest, if there is one."""
        self._log_full()
        if not self.idle:
            return False
        self.idle.popitem(last=False)[0].transport.abort()
        return True

    def _log_full(self) -> None:
        if time.monotonic() - self._logged > QUIET:
            self._logged = time.monotonic()
            _log.warning(
                "%d connections are open and there is no room for more: idle ones are closed; raise the limit of open "
                "files (ulimit -n) if they are wanted",
                len(self.connections),
            )


class ListeningSocket(socket.socket):
    """A listening socket that survives being out of file descriptors.

    asyncio would write a line to its log and start a timer for every connection that waits, and the connections would
    go on waiting. Here an idle connection is closed; if there is none, the waiting one is accepted with a descriptor
    that was kept for this, and closed.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.make_room: Callable[[], bool] = lambda: False
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in OUT_OF_FILES:
                raise
        if not self.make_room():
            os.close(self._spare)
            try:
                super().accept()[0].close()
            finally:
                self._spare = os.open(os.devnull, os.O_RDONLY)
        raise BlockingIOError  # asyncio looks again when it has closed what is to be closed

    def close(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()


class Connection(H11Protocol):
    """uvicorn's protocol with deadlines for heads and for unread answers."""

    server_state: Connections
    _head_deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.server_state.has_room():
            self._wait_for_head()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        self.resume_writing()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()  # a request is under way: `rates` has a deadline for its body

    def on_response_complete(self) -> None:
        super().on_response_complete()  # begins with the next request if that came already
        if self.cycle.response_complete and not self.transport.is_closing():
            self._wait_for_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._write_deadline is None:
            self._write_deadline = self.loop.call_later(WRITE_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self.server_state.idle[self] = None
        self._head_deadline = self.loop.call_later(HEAD_WITHIN, self.transport.abort)

    def _stop_waiting(self) -> None:
        self.server_state.idle.pop(self, None)
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None


def most_connections() -> int:
    """As many as the limit of open files allows, and not more than any process should have."""
    if resource is None:
        return MOST
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if limit == resource.RLIM_INFINITY else max(1, min(MOST, limit - limit // FREE_SHARE))
