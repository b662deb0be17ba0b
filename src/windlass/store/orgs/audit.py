"""The audit log: who did what to which object of an org."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from windlass.core.json_value import decode_object, encode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("audit")


class AuditCursor(NamedTuple):
    """The position of an entry, before which the next page continues."""

    at: datetime
    id: int


@dataclass(frozen=True, slots=True)
class AuditEntry:
    id: int
    at: datetime
    org: str
    actor: str
    action: str  # such as key.create
    object: str | None
    data: dict[str, Any]


async def insert(
    conn: Connection,
    entries: Sequence[tuple[str | None, Mapping[str, Any]]],
    *,
    org: str,
    actor: str,
    action: str,
) -> None:
    """Insert an entry for each object, with its data."""
    objects = [object_ for object_, _ in entries]
    documents = [encode(data, field="data") if data else None for _, data in entries]
    await conn.execute(_SQL["insert"], org, actor, action, objects, documents)


async def make_partition(conn: Connection, *, month: int) -> str | None:
    """Create the partition of this month (0) or of a later one; return its name, or None if it existed."""
    name: str | None = await conn.fetchval(_SQL["make_partition"], month)
    return name


async def old_partitions(conn: Connection, *, age: timedelta) -> list[str]:
    return column(await conn.fetch(_SQL["old_partitions"], age))


async def drop_partition(conn: Connection, name: str) -> None:
    await conn.execute(f'drop table windlass."{name}"')


async def list_(
    conn: Connection,
    *,
    org: str,
    actor: str | None = None,
    action: str | None = None,
    object_: str | None = None,
    before: AuditCursor | None = None,
    limit: int = 50,
) -> list[AuditEntry]:
    at, id_ = before or (None, None)
    rows = await conn.fetch(_SQL["list"], org, actor, action, object_, at, id_, limit)
    return [AuditEntry(**{**row, "data": decode_object(row["data"]) or {}}) for row in rows]
