"""Browser sessions, and the identities of people who log in with OpenID Connect."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("sessions")


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of a person, of a key, or (if neither is set) of the operator."""

    hash: bytes
    org: str | None
    identity_id: UUID | None
    email: str | None  # verified
    key_id: str | None
    key_name: str | None
    scopes: list[str] | None  # of the key
    role: str | None
    label: str | None
    invalid: bool | None  # the key is revoked or expired
    disabled: bool | None  # the org is disabled
    stale: bool  # its last use was recorded a minute ago or earlier

    def __repr__(self) -> str:
        return "SessionRow(...)"  # hashes must not reach a log


async def identify(
    conn: Connection, *, id_: UUID, issuer: str, subject: str, email: str | None, name: str | None
) -> UUID:
    known: UUID = await conn.fetchval(_SQL["identify"], id_, issuer, subject, email, name)
    return known


async def insert(
    conn: Connection, hash_: bytes, *, identity_id: UUID | None, key_id: str | None, org: str | None, length: timedelta
) -> None:
    await conn.execute(_SQL["insert"], hash_, identity_id, key_id, org, length)


async def find(conn: Connection, hashes: Sequence[bytes]) -> SessionRow | None:
    row = await conn.fetchrow(_SQL["find"], list(hashes))
    return None if row is None else SessionRow(**row)


async def extend(conn: Connection, hash_: bytes, length: timedelta) -> None:
    await conn.execute(_SQL["extend"], hash_, length)


async def choose_org(conn: Connection, hash_: bytes, org: str) -> None:
    await conn.execute(_SQL["choose_org"], hash_, org)


async def remove(conn: Connection, hashes: Sequence[bytes]) -> None:
    await conn.execute(_SQL["remove"], list(hashes))


async def prune(conn: Connection) -> None:
    await conn.execute(_SQL["prune"])
