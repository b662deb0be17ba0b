"""Postgres roles for the producers and workers of an org that use plain SQL.

A role belongs to one org. Policies in the database restrict it to the jobs, events and schedules of that org: see
0024_row_security.sql.
"""

import re

from windlass.core.orgs import check_org
from windlass.engine.database import Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, Invalid, NotFound
from windlass.schemas.orgs import SqlRole
from windlass.store.orgs import orgs
from windlass.store.orgs import sql_roles as store

_is_role = re.compile(r"[a-z_][a-z0-9_]{0,62}").fullmatch


async def grant(db: Tenant, org: str, role: str, *, is_worker: bool = False) -> SqlRole:
    """Assign a role to an org, with the privileges of a producer or a worker; create the role unless it exists."""
    if not _is_role(role):
        raise Invalid(f"role is {role!r}: use lower-case letters, digits and _, beginning with a letter", field="role")
    async with db.begin() as conn:
        if await orgs.get(conn, check_org(org)) is None:
            raise NotFound("org", org)
        owner = await store.get(conn, role)
        if owner is not None and owner.org != org:
            raise Conflict(f"role {role} belongs to org {owner.org}: revoke it first, or choose another one")
        if owner is None and await store.may_act_for_all(conn, role):
            raise Conflict(
                f"role {role} has privileges on the schema windlass and acts for all orgs: choose another one"
            )
        await store.grant(conn, role, org=org, is_worker=is_worker)
        await audit.record(conn, db, "sql_role.grant", role, org=org, kind="worker" if is_worker else "producer")
        return SqlRole(role=role, org=org)


async def revoke(db: Tenant, role: str) -> None:
    """Revoke the privileges of a role and its assignment to an org. The role itself is kept."""
    async with db.begin() as conn:
        if not await store.revoke(conn, role):
            raise NotFound("SQL role", ascii(role[:63]))
        await audit.record(conn, db, "sql_role.revoke", role)


async def list_(db: Tenant) -> list[SqlRole]:
    async with db.once() as conn:
        return await store.list_(conn)
