"""Members of orgs."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import statements

_SQL = statements("members")


@dataclass(frozen=True, slots=True)
class MemberRow:
    org: str
    email: str
    role: str
    created_at: datetime
    created_by: str


class Membership(NamedTuple):
    org: str
    role: str
    disabled: bool  # the org is disabled


async def put(conn: Connection, *, org: str, email: str, role: str, created_by: str) -> MemberRow:
    row = await conn.fetchrow(_SQL["put"], org, email, role, created_by)
    assert row is not None
    return MemberRow(**row)


async def list_(conn: Connection, *, org: str, limit: int, after: str) -> list[MemberRow]:
    return [MemberRow(**row) for row in await conn.fetch(_SQL["list"], org, limit, after)]


async def lock(conn: Connection, *, org: str, email: str) -> list[MemberRow]:
    """Lock and return the admins of an org and this member."""
    return [MemberRow(**row) for row in await conn.fetch(_SQL["lock"], org, email)]


async def remove(conn: Connection, *, org: str, email: str) -> None:
    await conn.execute(_SQL["remove"], org, email)


async def of_email(conn: Connection, email: str) -> list[Membership]:
    return list(map(Membership._make, await conn.fetch(_SQL["of_email"], email)))
