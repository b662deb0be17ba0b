"""The database host becomes unreachable: connections stay open, and nothing is received on them."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.runtime.conftest import Working
from windlass import Windlass
from windlass.engine.database import Tenant
from windlass.settings import Settings
from windlass.store.postgres.pool import KEEPALIVE, DatabaseOptions


class Proxy:
    """A TCP address of a database on a Unix socket, whose present connections can be made silent."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._silent, self._over = asyncio.Event(), asyncio.Event()
        self._connections: set[asyncio.Task[None] | None] = set()

    def go_silent(self) -> None:
        """Stop forwarding data on all present connections; later connections are served."""
        self._silent.set()
        self._silent = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.current_task())
        silent = self._silent
        there, back = await asyncio.open_unix_connection(self._path)

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    if silent.is_set():
                        await asyncio.Event().wait()
                    target.write(data)
                    await target.drain()

        tasks = [asyncio.create_task(work) for work in (pump(reader, back), pump(there, writer), self._end())]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (writer, back):
            stream.close()

    async def close(self) -> None:
        """End all connections, also the silent ones."""
        self._over.set()
        await asyncio.gather(*(task for task in self._connections if task is not None))

    async def _end(self) -> None:
        await self._over.wait()


@asynccontextmanager
async def proxied(database: str) -> AsyncIterator[tuple[Proxy, str]]:
    parts = urlsplit(database)
    host = parse_qs(parts.query).get("host")
    if host is None:
        pytest.skip("the server is not on a Unix socket")
    proxy = Proxy(f"{host[0]}/.s.PGSQL.5432")
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield proxy, f"postgresql://{parts.username}@127.0.0.1:{port}{parts.path}?sslmode=disable"
    finally:
        server.close()
        await proxy.close()


async def test_a_worker_replaces_connections_that_went_silent(database: str, working: Working) -> None:
    done: asyncio.Queue[int] = asyncio.Queue()
    async with (
        proxied(database) as (proxy, url),
        Windlass(url, settings=Settings(command_timeout=1.0)) as app,
        Windlass(database, settings=Settings()) as producer,
    ):

        @app.job("hole.test.v1")
        async def handler(n: int) -> None:
            done.put_nowait(n)

        async with working(app), asyncio.timeout(30):
            await producer.submit("hole.test.v1", {"n": 1})
            assert await done.get() == 1
            proxy.go_silent()
            await producer.submit("hole.test.v1", {"n": 2})
            assert await done.get() == 2


async def test_every_connection_has_tcp_keepalive_and_a_user_timeout(database: str) -> None:
    async with proxied(database) as (_, url):
        db = await Tenant.open(DatabaseOptions(url=url, notify=False))
        async with db.once() as conn:
            found = conn._con._transport.get_extra_info("socket")  # type: ignore[union-attr]
            assert found.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == KEEPALIVE["TCP_USER_TIMEOUT"]
        await db.close()
