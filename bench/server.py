"""The Postgres of a benchmark: an embedded server in a temporary folder, durable, with fresh databases."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from windlass.embedded.server import Embedded, EmbeddedOptions

DURABLE = ("fsync", "synchronous_commit", "full_page_writes")
# The benchmark takes checkpoints between measurements, so that none falls into the measurement of one contestant only.
SETTINGS = {"max_wal_size": "8GB", "checkpoint_timeout": "1h"}


class NotDurable(Exception):
    """Raised if the settings of the server do not make commits durable."""


class NoSpace(Exception):
    """Raised if the disk has too little free space."""


class Server:
    def __init__(self, url: str, home: Path) -> None:
        self._url, self._home = url, home

    async def version(self) -> str:
        """Return the version of the server; raise NotDurable if its commits are not durable."""
        async with self._connected(self._url) as conn:
            for name in DURABLE:
                value = await conn.fetchval("select current_setting($1)", name)
                if value != "on":
                    raise NotDurable(f"{name} is {value}: only durable writes are measured here")
            return str(await conn.fetchval("select current_setting('server_version')"))

    async def fresh(self, name: str) -> str:
        """Create an empty database for a contestant in place of its last one; return its URL."""
        name = f"bench_{name}"
        async with self._connected(self._url) as conn:
            await conn.execute(f'drop database if exists "{name}" with (force)')
            await conn.execute(f'create database "{name}"')
        return urlunsplit(urlsplit(self._url)._replace(path=f"/{name}"))

    async def settle(self, url: str) -> None:
        """Vacuum, analyze and take a checkpoint, so that every measurement starts from the same state."""
        async with self._connected(url) as conn:
            await conn.execute("vacuum analyze")
            await conn.execute("checkpoint")

    def ensure_space(self, needed: int) -> None:
        free = shutil.disk_usage(self._home).free
        if free < needed * 1.5:
            raise NoSpace(f"{needed / 2**30:.0f} GB and half as much again are needed, {free / 2**30:.0f} GB are free")

    async def size(self, url: str) -> int:
        async with self._connected(url) as conn:
            return int(await conn.fetchval("select pg_database_size(current_database())"))

    @asynccontextmanager
    async def old_snapshot(self, url: str, *, held: bool) -> AsyncIterator[None]:
        """If `held`, keep an idle transaction with a snapshot open: vacuum cannot remove rows that died since."""
        async with self._connected(url) as conn:
            if not held:
                yield
                return
            async with conn.transaction(isolation="repeatable_read"):
                await conn.fetchval("select count(*) from pg_class")
                yield

    @asynccontextmanager
    async def _connected(self, url: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
        conn = await asyncpg.connect(url)
        try:
            yield conn
        finally:
            await conn.close()


@contextmanager
def own_server(settings: Mapping[str, str] = SETTINGS) -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="windlass-bench-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        home.chmod(
            0o711
        )  # as root, the server runs as another user, who must be able to enter; else its data is stored elsewhere
        with Embedded.start(EmbeddedOptions(home=home, settings=settings)) as embedded:
            yield Server(embedded.url, home)
