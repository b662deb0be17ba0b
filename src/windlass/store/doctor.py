"""Queries of `windlass doctor`: the server, the waiting jobs, the sessions. engine/doctor.py interprets the results."""

from dataclasses import dataclass
from datetime import timedelta

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("doctor")


@dataclass(frozen=True, slots=True)
class Server:
    version: int  # as server_version_num: 150004
    name: str
    size: int  # of the database, in bytes
    fsync: str
    synchronous_commit: str
    full_page_writes: str
    timezone: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The longest time for which the first job of a lane of a queue and type has been claimable."""

    queue: str
    type: str
    waits: timedelta
    paused: bool = False  # the queue is paused


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session that holds an old snapshot."""

    pid: int
    user: str
    application: str
    state: str
    age: timedelta


async def server(conn: Connection) -> Server:
    row = await conn.fetchrow(_SQL["server"])
    assert row is not None  # it selects from no table
    return Server(*row)


async def waiting(conn: Connection) -> list[Waiting]:
    return [Waiting(*row) for row in await conn.fetch(_SQL["waiting"])]


async def types(conn: Connection) -> list[str]:
    return column(await conn.fetch(_SQL["types"]))


async def snapshots(conn: Connection, *, older_than: timedelta) -> list[Snapshot]:
    return [Snapshot(*row) for row in await conn.fetch(_SQL["snapshots"], older_than)]
