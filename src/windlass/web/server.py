"""Listens and serves inside the running event loop; signals stay with the process that asked for it."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from windlass.errors import Invalid, Unavailable
from windlass.web.middleware.connections import Connection, Connections, ListeningSocket
from windlass.web.middleware.guard import check_binding, check_test_mode

GRACE = 5  # seconds that requests under way get when the server stops


@dataclass(frozen=True, slots=True)
class Listener:
    """A bound socket. Port 0 became a real one."""

    socket: ListeningSocket
    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"


def listen(
    host: str, port: int, *, keys: tuple[str, ...] = (), option: str = "--port", test_mode: bool = False
) -> Listener:
    """Bind before anything else is started, so that a refusal costs nothing. `option` is named in the error."""
    family, address = _resolve(host, port, keys)
    if test_mode:
        check_test_mode(host, address[0])
    try:
        bound = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise Unavailable(_refused(host, port, error, option)) from None
    # Connections inherit it. asyncio sets it only where a socket says that it is TCP, and this one does not. Head and
    # body of an answer are two packets: the second would wait 40 ms for the first to be acknowledged.
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listening = ListeningSocket(fileno=bound.detach())
    return Listener(listening, host, listening.getsockname()[1])


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, listener: Listener) -> AsyncIterator[None]:
    """Serve for as long as the block lasts; requests under way get a few seconds to end, streams end at once."""
    stopping = asyncio.Event()

    async def told(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("state", {})["stopping"] = stopping
        await app(scope, receive, send)

    server = _Server(
        uvicorn.Config(
            told,
            http=Connection,
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[listener.socket]), name="windlass-http")
    listener.socket.make_room = server.connections.close_idle
    try:
        await server.up.wait()
        yield
    finally:
        stopping.set()
        server.should_exit = True
        await task


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state = self.connections = Connections()
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Not ours: the command that runs us drains its worker first."""
        yield


def _resolve(host: str, port: int, keys: tuple[str, ...]) -> tuple[int, tuple[str, int]]:
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise Invalid(f"host {host!r} is not an address of this machine: {error}", field="host") from None
    addresses = [(family, str(address[0])) for family, _, _, _, address in found]
    check_binding(host or "all addresses", [address for _, address in addresses], keys)
    # localhost is often both; programs try 127.0.0.1 first or at least next.
    family, address = next((one for one in addresses if one[0] == socket.AF_INET), addresses[0])
    return family, (address, port)


def _refused(host: str, port: int, error: OSError, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is taken: stop the program that has it, or give {option} another (0 picks one)"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this user has: choose one above 1023 with {option}"
    return f"cannot listen on {host}, port {port}: {error.strerror or error}"
