"""Keys of the API. Only keyed hashes of their secrets are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import asyncpg

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("keys")


@dataclass(frozen=True, slots=True)
class KeyRow:
    id: str
    org: str
    name: str
    role: str | None
    scopes: list[str]
    label: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    old_until: datetime | None  # the secret before the last rotation is valid until then


@dataclass(frozen=True, slots=True)
class StoredKey:
    """The data needed to verify a key, as of `now`."""

    id: str
    org: str
    hash: bytes
    name: str
    scopes: list[str]
    label: str | None
    expires_at: datetime | None
    revoked: bool
    old_hash: bytes | None
    old_until: datetime | None
    disabled: bool  # the org is disabled
    now: datetime

    def __repr__(self) -> str:
        return f"StoredKey({self.id})"  # hashes must not reach a log


async def insert(
    conn: Connection,
    *,
    id_: str,
    org: str,
    hash_: bytes,
    name: str,
    role: str | None,
    scopes: Sequence[str],
    label: str | None,
    created_by: str,
    expires: timedelta | None,
) -> KeyRow | None:
    """Insert a key; return None if the org has a valid key of this name."""
    values = (id_, org, hash_, name, role, list(scopes), label, created_by, expires)
    return _read(await conn.fetchrow(_SQL["insert"], *values))


async def list_(conn: Connection, *, org: str, limit: int, before: str | None) -> list[KeyRow]:
    return [KeyRow(**row) for row in await conn.fetch(_SQL["list"], org, limit, before)]


async def lock(conn: Connection, *, org: str, ref: str) -> KeyRow | None:
    """Lock a key that is given by its id, or by its name if it is valid."""
    return _read(await conn.fetchrow(_SQL["lock"], org, ref))


async def revoke(conn: Connection, id_: str) -> KeyRow:
    row = _read(await conn.fetchrow(_SQL["revoke"], id_))
    assert row is not None
    return row


async def rotate(conn: Connection, id_: str, *, hash_: bytes, grace: timedelta | None) -> KeyRow:
    row = _read(await conn.fetchrow(_SQL["rotate"], id_, hash_, grace))
    assert row is not None
    return row


async def find(conn: Connection, id_: str) -> StoredKey | None:
    row = await conn.fetchrow(_SQL["find"], id_)
    return None if row is None else StoredKey(**row)


async def used(conn: Connection, ids: Sequence[str]) -> None:
    await conn.execute(_SQL["used"], list(ids))


def _read(row: asyncpg.Record | None) -> KeyRow | None:
    return None if row is None else KeyRow(**row)
