"""The quarantine table: items set aside after an unexpected error, with the reason and the time of the next retry."""

from collections.abc import Sequence
from datetime import timedelta

from windlass.schemas.monitoring import Quarantined
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, mapping, statements

_SQL = statements("quarantine")


async def put(conn: Connection, kind: str, key: str, *, error_type: str, reason: str, retry: bool) -> int:
    """Record a failure; return how often the item has failed."""
    failures: int = await conn.fetchval(_SQL["put"], kind, key, error_type, reason, retry)
    return failures


async def release(conn: Connection, kind: str, key: str) -> None:
    await conn.execute(_SQL["release"], kind, key)


async def keys(conn: Connection, kind: str) -> set[str]:
    return set(column(await conn.fetch(_SQL["keys"], kind)))


async def take_due(conn: Connection, kinds: Sequence[str], limit: int) -> list[tuple[str, str]]:
    """Claim entries of these kinds that are due for a retry by postponing it; return their (kind, key)."""
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["take_due"], kinds, limit)]


async def retry_now(conn: Connection, kind: str, key: str, *, org: str) -> Quarantined | None:
    row = await conn.fetchrow(_SQL["retry_now"], kind, key, org)
    return Quarantined(**row) if row else None


async def list_(conn: Connection, *, org: str | None = None, limit: int) -> list[Quarantined]:
    """List the entries of an org, or of all orgs."""
    return [Quarantined(**row) for row in await conn.fetch(_SQL["list"], limit, org)]


async def count(conn: Connection) -> dict[str, int]:
    return mapping(await conn.fetch(_SQL["count"]))


async def forget(conn: Connection, *, age: timedelta) -> None:
    await conn.execute(_SQL["forget"], age)
