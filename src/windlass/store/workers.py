"""Workers' signs of life, and the registry that says which runtime serves a type."""

from collections.abc import Sequence
from datetime import timedelta

from windlass.store.pool import Connection
from windlass.store.queries import load
from windlass.store.rows import WorkerRow

_SQL = {name: query.sql for name, query in load("workers").items()}


async def register(
    conn: Connection, *, id_: str, host: str, pid: int, queues: Sequence[str], types: Sequence[str], concurrency: int
) -> None:
    await conn.execute(_SQL["register"], id_, host, pid, list(queues), list(types), concurrency)


async def seen(conn: Connection, *, id_: str, state: str, active: int) -> str | None:
    directive: str | None = await conn.fetchval(_SQL["seen"], id_, state, active)
    return directive


async def list_(conn: Connection, *, alive_within: timedelta, id_: str | None = None) -> list[WorkerRow]:
    return [WorkerRow(*row) for row in await conn.fetch(_SQL["list"], alive_within, id_)]


async def forget(conn: Connection, *, silent_for: timedelta) -> None:
    await conn.execute(_SQL["forget"], silent_for)


async def direct(conn: Connection, id_: str, directive: str | None) -> bool:
    return await conn.fetchval(_SQL["direct"], id_, directive) is True


async def remove(conn: Connection, id_: str) -> None:
    await conn.execute(_SQL["remove"], id_)


async def registry(conn: Connection) -> list[tuple[str, str, bool]]:
    return [(row[0], row[1], row[2]) for row in await conn.fetch(_SQL["registry"])]
