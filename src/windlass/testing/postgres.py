"""A database for each test, copied from a migrated template: real, empty and quick to have."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg

from windlass.embedded.server import Embedded, EmbeddedOptions
from windlass.engine.database import prepare
from windlass.store.postgres.pool import DatabaseOptions


@contextmanager
def embedded_server() -> Iterator[str]:
    """The URL of a server in a temporary folder, stopped and removed in the end.

    It does not write through to the disk, which would take most of the time: what it holds is gone in the end anyway.
    """
    with TemporaryDirectory(prefix="windlass-test-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # as root, the server's own user must be able to come in
        options = EmbeddedOptions(home=Path(folder), settings={"max_connections": "200"}, durable=False)
        with Embedded.start(options) as server:
            yield server.url


class Databases:
    """`server_url` names any database of a server on which databases may be created."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._template: str | None = None
        self._strategy = "wal_log"
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[str]:
        """The URL of an empty, migrated database that is dropped in the end."""
        template = await self._ready_template()
        name = f"windlass_test_{uuid4().hex[:12]}"
        await self._administer(f'create database "{name}" template "{template}" strategy {self._strategy}')
        await self._administer(f"alter database \"{name}\" set timezone = 'UTC'")  # settings are not copied
        try:
            yield self._url_of(name)
        finally:
            await self._administer(f'drop database if exists "{name}" with (force)')

    async def close(self) -> None:
        if self._template is not None:
            await self._administer(f'drop database if exists "{self._template}" with (force)')
            self._template = None

    async def _ready_template(self) -> str:
        async with self._making:
            if self._template is None:
                name = f"windlass_template_{uuid4().hex[:12]}"
                await self._administer(f'create database "{name}"')
                await prepare(DatabaseOptions(url=self._url_of(name)))
                # Copying files takes two checkpoints. They are cheap on a server that does not wait for the disk.
                if await self._administer("show fsync") == "off":
                    self._strategy = "file_copy"
                self._template = name
            return self._template

    async def _administer(self, statement: str) -> object:
        conn = await asyncpg.connect(self._server_url)
        try:
            return await conn.fetchval(statement)
        finally:
            await conn.close()

    def _url_of(self, name: str) -> str:
        return urlunsplit(urlsplit(self._server_url)._replace(path=f"/{name}"))
