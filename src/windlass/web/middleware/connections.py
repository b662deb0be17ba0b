"""Gives connections deadlines, and limits their number to the available file descriptors.

uvicorn closes a connection that is idle after a response (KEEP_ALIVE); but it waits forever for the first request, for
the rest of a head that arrives slowly, and for a client that does not read its response. This module adds those
deadlines.

When the limit is reached, the connection that has been idle longest is closed, so that idle connections cannot block
new ones.
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

HEAD_WITHIN = 10.0  # seconds for the head of a request, from the connection or its first byte
# Seconds between two requests: longer than the 5 to 60 for which clients keep idle connections. If the server closed
# one just as a client sends a request, the client could not know whether the request was processed.
KEEP_ALIVE = 75
WRITE_WITHIN = 60.0  # seconds in which a client must read a response
MOST = 10_000  # connections
FREE_SHARE = 4  # a fourth of the file descriptors is kept for the database, HTTP steps and files
QUIET = 60.0  # seconds between two log lines about too many connections
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE)
_log = logging.getLogger("windlass.web")


class Connections(ServerState):
    """The connections of a server, their limit, and those that wait for a request."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.most = most_connections() if most is None else most
        self.idle: OrderedDict[Connection, None] = OrderedDict()  # longest idle first
        self._logged = float("-inf")

    def has_room(self) -> bool:
        """Return whether a new connection may stay; if the limit is reached, close an idle connection instead."""
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
                "connection limit reached (%d are open): closing idle ones; raise the limit of open files "
                "(ulimit -n) to allow more",
                len(self.connections),
            )


class ListeningSocket(socket.socket):
    """A listening socket that handles the lack of file descriptors.

    asyncio would log a line and start a timer for every waiting connection, and the connections would keep waiting.
    Instead, an idle connection is closed; if there is none, the waiting connection is accepted with a reserved
    descriptor and closed.
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
        raise BlockingIOError  # asyncio accepts again after it has closed the aborted connection

    def close(self) -> None:
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1
        super().close()


class Connection(H11Protocol):
    """uvicorn's protocol with deadlines for request heads and unread responses."""

    server_state: Connections
    _head_deadline: asyncio.TimerHandle | None = None
    _between_requests = False
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
            self._stop_waiting()  # a request is in progress: `rate_limit` has a deadline for its body
        elif self._between_requests:
            self._wait_for_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()  # starts the next request if it has arrived already
        if self.cycle.response_complete and not self.transport.is_closing():
            self._stop_waiting()
            self.server_state.idle[self] = None
            self._between_requests = True  # uvicorn closes the connection after KEEP_ALIVE

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
        self._between_requests = False
        self.server_state.idle.pop(self, None)
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None


def most_connections() -> int:
    """Return the number of connections that the limit of open files allows, at most MOST."""
    if resource is None:
        return MOST
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST if limit == resource.RLIM_INFINITY else max(1, min(MOST, limit - limit // FREE_SHARE))
