"""The URLs under which the servers of this installation are reachable from outside."""

from datetime import timedelta
from typing import NamedTuple

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("public_urls")


class RecordedUrl(NamedTuple):
    url: str
    configured: bool  # by WINDLASS_PUBLIC_URL; otherwise it is where a server listens
    live: bool  # a server has recorded it recently


async def record(conn: Connection, url: str, *, configured: bool) -> None:
    await conn.execute(_SQL["record"], url, configured)


async def list_(conn: Connection, *, live_within: timedelta) -> list[RecordedUrl]:
    """Return at most ten recorded URLs, the best first."""
    return list(map(RecordedUrl._make, await conn.fetch(_SQL["list"], live_within)))


async def hooks_in_use(conn: Connection) -> bool:
    return bool(await conn.fetchval(_SQL["hooks_in_use"]))
