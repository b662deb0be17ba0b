"""Members of an org: people who log in with OpenID Connect, each with a role, identified by a verified address."""

import re

from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.orgs import Role, check_role
from windlass.engine.database import Tenant
from windlass.engine.orgs import audit, keys
from windlass.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.store.orgs import members as store
from windlass.store.orgs.members import MemberRow, Membership

__all__ = ["MemberRow", "Membership"]
MAX_EMAIL = 254
_is_email = re.compile(r"[^@\s\x00-\x1f\x7f]{1,64}@[^@\s\x00-\x1f\x7f]{1,189}").fullmatch


async def put(db: Tenant, email: str, *, role: str) -> MemberRow:
    """Add a member, or change the role of one; the caller must have all scopes of the role."""
    address, chosen = check_email(email), check_role(role)
    missing = chosen.scopes - db.scopes
    if missing:
        scope = min(missing)
        raise Forbidden(f"{db.actor} lacks the scope {scope} and cannot give it to a member", scope=scope)
    async with db.begin() as conn:
        rows = {row.email: row for row in await store.lock(conn, org=db.org, email=address)}
        before = rows.get(address)
        if chosen is not Role.ADMIN:
            _keep_an_admin(db, rows, address)
        row = await store.put(conn, org=db.org, email=address, role=chosen, created_by=db.actor)
        action = "member.add" if before is None else "member.change"
        await audit.record(conn, db, action, address, role=chosen, **({"before": before.role} if before else {}))
    db.poke(keys.TOPIC)
    return row


async def list_(db: Tenant, *, after: str = "", limit: int = 100) -> Page[MemberRow]:
    encode(after, field="after")
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.once() as conn:
        rows = await store.list_(conn, org=db.org, limit=limit, after=after)
    return Page(rows, rows[-1].email if len(rows) == limit else None)


async def remove(db: Tenant, email: str) -> None:
    """Remove a member; the sessions of this person lose access to the org at once."""
    address = check_email(email)
    async with db.begin() as conn:
        rows = {row.email: row for row in await store.lock(conn, org=db.org, email=address)}
        if address not in rows:
            raise NotFound("member", address)
        _keep_an_admin(db, rows, address)
        await store.remove(conn, org=db.org, email=address)
        await audit.record(conn, db, "member.remove", address, role=rows[address].role)
    db.poke(keys.TOPIC)


def check_email(email: object) -> str:
    """Return an address in lower case, or raise `Invalid`."""
    if not isinstance(email, str) or len(email) > MAX_EMAIL or not _is_email(email):
        raise Invalid(f"email is {str(email)[:MAX_EMAIL]!a}: it must look like alice@example.com", field="email")
    encode(email, field="email")
    return email.lower()


def _keep_an_admin(db: Tenant, rows: dict[str, MemberRow], address: str) -> None:
    """Raise `Conflict` if the caller is the only admin and would lose that role: no member could restore it."""
    admins = {email for email, row in rows.items() if row.role == Role.ADMIN}
    if admins == {address} and db.actor == f"user:{address}":
        raise Conflict(f"{address} is the only admin of org {db.org}: make another member an admin first")
