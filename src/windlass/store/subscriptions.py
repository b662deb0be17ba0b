"""Webhook subscriptions, and the cursor up to which events were delivered to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("subscriptions")


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as it is displayed, without its secret."""

    id: UUID
    url: str
    events: list[str]
    queues: list[str]
    types: list[str]
    metadata: dict[str, Any] | None
    active: bool
    rotation: int
    rotated_at: datetime | None
    delivered_at: datetime | None
    off_reason: str | None
    created_at: datetime
    updated_at: datetime


class Change(NamedTuple):
    """Changes to a subscription: None keeps the old value; `metadata` is JSON."""

    url: str | None = None
    events: Sequence[str] | None = None
    queues: Sequence[str] | None = None
    types: Sequence[str] | None = None
    metadata: str | None = None
    active: bool | None = None


class TargetRow(NamedTuple):
    org: str
    url: str
    rotation: int
    overlaps: bool  # the secret of the previous rotation is still used
    now: datetime


class Interest(NamedTuple):
    id: UUID
    org: str
    events: list[str]
    queues: list[str]
    types: list[str]
    since: datetime


async def insert(conn: Connection, id_: UUID, new: Change, *, org: str) -> Subscription:
    row = await conn.fetchrow(_SQL["insert"], id_, org, *new)
    assert row is not None
    return _subscription(row)


async def list_(conn: Connection, *, org: str, limit: int, offset: int) -> list[Subscription]:
    return [_subscription(row) for row in await conn.fetch(_SQL["list"], org, limit, offset)]


async def count(conn: Connection, *, org: str) -> int:
    number: int = await conn.fetchval(_SQL["count"], org)
    return number


async def get(conn: Connection, id_: UUID, *, org: str) -> Subscription | None:
    row = await conn.fetchrow(_SQL["get"], id_, org)
    return _subscription(row) if row else None


async def change(conn: Connection, id_: UUID, changes: Change, *, org: str) -> Subscription | None:
    row = await conn.fetchrow(_SQL["change"], id_, org, *changes)
    return _subscription(row) if row else None


async def rotate(conn: Connection, id_: UUID, *, org: str) -> Subscription | None:
    row = await conn.fetchrow(_SQL["rotate"], id_, org)
    return _subscription(row) if row else None


async def remove(conn: Connection, id_: UUID, *, org: str) -> bool:
    return await conn.fetchval(_SQL["remove"], id_, org) is True


async def target(conn: Connection, id_: UUID, job: UUID | None, *, overlap: timedelta) -> TargetRow | None:
    row = await conn.fetchrow(_SQL["target"], id_, overlap, job)
    return TargetRow._make(row) if row else None


async def delivered(conn: Connection, id_: UUID) -> None:
    await conn.execute(_SQL["delivered"], id_)


async def delivery_failed(conn: Connection, id_: UUID, *, most: int, reason: str | None) -> None:
    await conn.execute(_SQL["delivery_failed"], id_, most, reason)


async def place(conn: Connection) -> str | None:
    """Return the cursor; None if there are no active subscriptions."""
    cursor: str | None = await conn.fetchval(_SQL["place"])
    return cursor


async def interests(conn: Connection) -> list[Interest]:
    return [Interest._make(row) for row in await conn.fetch(_SQL["interests"])]


async def begin_at(conn: Connection, at: str, *, but: UUID) -> None:
    await conn.execute(_SQL["begin_at"], at, but)


async def lock_cursor(conn: Connection) -> str | None:
    """Lock and return the cursor; None if another process has locked it."""
    cursor: str | None = await conn.fetchval(_SQL["lock_cursor"])
    return cursor


async def save_cursor(conn: Connection, at: str) -> None:
    await conn.execute(_SQL["save_cursor"], at)


def _subscription(row: asyncpg.Record) -> Subscription:
    return Subscription(**{**dict(row.items()), "metadata": decode(row["metadata"])})
