"""Sealed values: secrets of orgs, the data keys they are sealed with, and the keys of the installation."""

from collections.abc import Collection, Sequence
from typing import NamedTuple
from uuid import UUID

import asyncpg

from windlass.schemas.secrets import Secret
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, statements

_SQL = statements("secrets")
REWRITE_SECONDS = 5.0


class DataKey(NamedTuple):
    id: UUID
    org: str
    wrapped: bytes
    master_key: str  # the id of the master key that it is wrapped with


class SealedSecret(NamedTuple):
    org: str
    name: str
    version: int
    ciphertext: bytes
    data_key: DataKey


class ServerKey(NamedTuple):
    name: str
    value: bytes | None  # stored by an earlier version
    sealed: bytes | None
    master_key: str | None


class PlainSubscription(NamedTuple):
    id: UUID
    org: str
    rotation: int
    secret: str | None
    old_secret: str | None


# Secrets


async def lock(conn: Connection, org: str) -> None:
    """Lock the secrets of this org against other changes until the transaction ends."""
    await conn.execute(_SQL["lock"], org)


async def find(conn: Connection, names: Collection[tuple[str, str]]) -> list[SealedSecret]:
    """Return the sealed values of these names, given as (org, name); names without a secret are left out."""
    orgs, unqualified = [org for org, _ in names], [name for _, name in names]
    return [_sealed(*row) for row in await conn.fetch(_SQL["find"], orgs, unqualified)]


async def of_org(conn: Connection, org: str) -> list[SealedSecret]:
    return [_sealed(*row) for row in await conn.fetch(_SQL["of_org"], org)]


async def version(conn: Connection, org: str, name: str) -> int:
    """Return the version of a secret; 0 if there is none."""
    return await conn.fetchval(_SQL["version"], org, name) or 0


async def put(conn: Connection, sealed: SealedSecret, *, by: str) -> Secret:
    row = await conn.fetchrow(_SQL["put"], *sealed[:4], sealed.data_key.id, by)
    assert row is not None
    return Secret(**row)


async def reseal(conn: Connection, sealed: SealedSecret) -> None:
    await conn.execute(_SQL["reseal"], sealed.org, sealed.name, sealed.ciphertext, sealed.data_key.id)


async def list_(conn: Connection, org: str, *, after: str, limit: int) -> list[Secret]:
    return [Secret(**row) for row in await conn.fetch(_SQL["list"], org, after, limit)]


async def count(conn: Connection, org: str) -> int:
    number: int = await conn.fetchval(_SQL["count"], org)
    return number


async def names(conn: Connection, org: str, among: Collection[str]) -> set[str]:
    """Return which of these names are secrets of the org."""
    return set(column(await conn.fetch(_SQL["names"], org, list(among))))


async def delete(conn: Connection, org: str, name: str) -> bool:
    return await conn.fetchval(_SQL["delete"], org, name) is True


async def delete_below(conn: Connection, org: str, prefix: str, *, keep: Sequence[str] = ()) -> None:
    await conn.execute(_SQL["delete_below"], org, prefix, list(keep))


# Data keys


async def data_key(conn: Connection, org: str) -> DataKey | None:
    row = await conn.fetchrow(_SQL["data_key"], org)
    return DataKey._make(row) if row else None


async def add_data_key(conn: Connection, key: DataKey) -> None:
    await conn.execute(_SQL["add_data_key"], *key)


async def drop_data_keys(conn: Connection, org: str, *, keep: UUID) -> None:
    await conn.execute(_SQL["drop_data_keys"], org, keep)


async def data_keys_to_wrap(conn: Connection, master_key: str, limit: int) -> list[DataKey]:
    return list(map(DataKey._make, await conn.fetch(_SQL["data_keys_to_wrap"], master_key, limit)))


async def wrap_data_key(conn: Connection, key: DataKey) -> None:
    await conn.execute(_SQL["wrap_data_key"], key.id, key.wrapped, key.master_key)


# Keys of the installation


async def server_key(conn: Connection, name: str) -> ServerKey | None:
    row = await conn.fetchrow(_SQL["server_key"], name)
    return ServerKey._make(row) if row else None


async def add_server_key(conn: Connection, name: str, sealed: bytes, master_key: str) -> None:
    await conn.execute(_SQL["add_server_key"], name, sealed, master_key)


async def server_keys_to_seal(conn: Connection, master_key: str) -> list[ServerKey]:
    return list(map(ServerKey._make, await conn.fetch(_SQL["server_keys_to_seal"], master_key)))


async def seal_server_key(conn: Connection, name: str, sealed: bytes, master_key: str) -> None:
    await conn.execute(_SQL["seal_server_key"], name, sealed, master_key)


# Values that earlier versions stored in plain text


async def has_plain(conn: Connection) -> bool:
    return bool(await conn.fetchval(_SQL["has_plain"]))


async def subscriptions_to_seal(conn: Connection) -> list[PlainSubscription]:
    return list(map(PlainSubscription._make, await conn.fetch(_SQL["subscriptions_to_seal"])))


async def clear_subscription(conn: Connection, id_: UUID) -> None:
    await conn.execute(_SQL["clear_subscription"], id_)


async def rewrite(conn: Connection) -> bool:
    """Rewrite the tables that had plain text, to remove it from their files; return False if that fails."""
    try:
        await conn.execute(_SQL["rewrite"], timeout=REWRITE_SECONDS)
    except (TimeoutError, asyncpg.PostgresError):
        return False
    return True


# Checks at the start of a process


async def master_keys(conn: Connection) -> list[str]:
    return column(await conn.fetch(_SQL["master_keys"]))


async def in_use(conn: Connection) -> bool:
    return bool(await conn.fetchval(_SQL["in_use"]))


def _sealed(
    org: str, name: str, version: int, ciphertext: bytes, key: UUID, wrapped: bytes, master_key: str
) -> SealedSecret:
    return SealedSecret(org, name, version, ciphertext, DataKey(key, org, wrapped, master_key))
