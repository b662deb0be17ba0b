"""Sessions of browsers: begin, find, extend and end them.

A session belongs to a key, to a person, or to the operator. Its access is looked up at each use: revoking a key,
removing a member or disabling an org takes effect at once. The hash of an operator's session includes the operator's
key, so that the session ends when that key is replaced.
"""

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from windlass.core.orgs import ALL_SCOPES, DEFAULT_ORG, Access, LoginRefusal, Person, Role, scopes_of
from windlass.engine.database import Database, new_ids
from windlass.engine.orgs import audit, keys
from windlass.errors import Conflict, Forbidden, LoginRefused
from windlass.store.orgs import members, orgs
from windlass.store.orgs import sessions as store

LENGTH = timedelta(hours=12)  # after the last use
COOKIE_BYTES = 32
MAX_COOKIE = 100
MAX_TEXT = 1000
MOST_ORGS = 1000


@dataclass(frozen=True, slots=True)
class Session:
    """A session that has not ended, with its access and the orgs that it may act for."""

    access: Access
    orgs: tuple[str, ...]  # that it may act for; empty for the operator, who may act for all
    role: str | None
    disabled: bool  # its org is disabled
    stale: bool
    hash: bytes

    def __repr__(self) -> str:
        return f"Session({self.access.actor})"


async def begin_with_key(db: Database, key_id: str, org: str, actor: str) -> str:
    """Begin a session of a key, which the caller has checked; return the cookie."""
    cookie = secrets.token_urlsafe(COOKIE_BYTES)
    async with db.begin() as conn:
        await store.insert(conn, hash_of(cookie), identity_id=None, key_id=key_id, org=org, length=LENGTH)
        await audit.record(conn, db.tenant(org, actor=actor), "session.begin", actor)
    return cookie


async def begin_as_operator(db: Database, operator_key: bytes) -> str:
    """Begin a session of the operator, who logged in with the key of this digest; return the cookie."""
    cookie = secrets.token_urlsafe(COOKIE_BYTES)
    async with db.begin() as conn:
        hash_ = hash_of(cookie, operator_key)
        await store.insert(conn, hash_, identity_id=None, key_id=None, org=DEFAULT_ORG, length=LENGTH)
        await audit.record(conn, db.tenant(actor="operator"), "session.begin", "operator")
    return cookie


async def begin_as_person(db: Database, person: Person, *, admins: Collection[str]) -> str:
    """Begin a session of a person who is a member of an org or an operator; return the cookie."""
    cookie, email = secrets.token_urlsafe(COOKIE_BYTES), person.email
    if email is None:
        raise LoginRefused("the provider returned no verified email address", reason=LoginRefusal.UNVERIFIED)
    async with db.begin() as conn:
        joined = await members.of_email(conn, email)
        if not joined and email not in admins:
            raise LoginRefused(f"{email} is not a member of any org", reason=LoginRefusal.NO_MEMBERSHIP, email=email)
        org = DEFAULT_ORG if email in admins else next((one.org for one in joined if not one.disabled), joined[0].org)
        name = person.name[:MAX_TEXT] if person.name is not None else None
        identity = await store.identify(
            conn, id_=new_ids(1)[0], issuer=person.issuer, subject=person.subject, email=email, name=name
        )
        await store.insert(conn, hash_of(cookie), identity_id=identity, key_id=None, org=org, length=LENGTH)
        await audit.record(conn, db.tenant(org, actor=f"user:{email}"), "session.begin", email)
    return cookie


async def find(db: Database, cookie: str, *, operator_keys: Sequence[bytes], admins: Collection[str]) -> Session | None:
    """Return the session of a cookie; None if it has ended, or if its owner may not act for any org."""
    if len(cookie) > MAX_COOKIE:
        return None
    plain = hash_of(cookie)
    async with db.begin() as conn:
        row = await store.find(conn, [plain, *(hash_of(cookie, key) for key in operator_keys)])
        if row is None:
            return None
        isolated = not await orgs.is_alone(conn)
        joined = await members.of_email(conn, row.email) if row.email is not None else []
    org = row.org or DEFAULT_ORG
    if row.key_id is not None:
        if row.invalid:
            return None
        scopes = scopes_of(row.scopes or ())
        access = Access(org, f"key:{row.key_name}", scopes, row.label, isolated)
        return Session(access, (org,), row.role, bool(row.disabled), row.stale, row.hash)
    if row.identity_id is None:
        if row.hash == plain:
            return None
        return _operators(row, org, "operator")
    if row.email is not None and row.email in admins:
        return _operators(row, org, f"user:{row.email}")
    if not joined:
        return None
    current = next((one for one in joined if one.org == org), joined[0])
    access = Access(current.org, f"user:{row.email}", Role(current.role).scopes, None, isolated)
    names = tuple(one.org for one in joined)
    return Session(access, names, current.role, current.disabled, row.stale, row.hash)


async def choose_org(db: Database, session: Session, org: str) -> None:
    """Switch a session to another org: one that its person is a member of; for the operator, any org."""
    if org not in session.orgs and not session.access.operates:
        raise Forbidden(f"{session.access.actor} is not a member of org {org[:100]!a}")
    async with db.begin() as conn:
        if await orgs.get(conn, org) is None:
            raise Conflict(f"no org {org[:100]!a}")
        await store.choose_org(conn, session.hash, org)
    db.poke(keys.TOPIC)


async def extend(db: Database, hash_: bytes) -> None:
    """Extend a session: it ends LENGTH from now."""
    async with db.once() as conn:
        await store.extend(conn, hash_, LENGTH)


async def end(db: Database, cookie: str, *, operator_keys: Sequence[bytes]) -> None:
    """End the session of a cookie, if there is one."""
    hashes = [hash_of(cookie[:MAX_COOKIE]), *(hash_of(cookie[:MAX_COOKIE], key) for key in operator_keys)]
    async with db.once() as conn:
        await store.remove(conn, hashes)
    db.poke(keys.TOPIC)


async def names_of_all(db: Database) -> list[str]:
    """Return the names of the first MOST_ORGS orgs, which the operator may switch to."""
    async with db.once() as conn:
        return [row.name for row in await orgs.list_(conn, after="", limit=MOST_ORGS)]


def hash_of(cookie: str, operator_key: bytes = b"") -> bytes:
    """Return the hash under which a session is stored. The cookie is as random as a key: no slow hash is needed."""
    return hashlib.sha256(operator_key + cookie.encode("utf-8", "replace")).digest()


def _operators(row: store.SessionRow, org: str, actor: str) -> Session:
    access = Access(org, actor, ALL_SCOPES, None, isolated=org != DEFAULT_ORG, operates=True)
    return Session(access, (), None, False, row.stale, row.hash)
