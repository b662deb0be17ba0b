"""Keys of the API: create, list, rotate, revoke and check them.

A key is shown once, when it is created or rotated. Only HMAC-SHA256(pepper, secret) is stored: the secret has 256
random bits, so a slow hash would add nothing, and a guess cannot be verified with the database alone.
"""

import hashlib
import hmac
import secrets
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from windlass.core.jobs.spec import check_name, check_range
from windlass.core.json_value import encode
from windlass.core.orgs import KEY_ID_LENGTH, KEY_SECRET_LENGTH, ApiKey, Role, check_role, check_scopes
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.store.orgs import keys as store
from windlass.store.orgs.keys import KeyRow, StoredKey
from windlass.store.postgres.pool import Connection

__all__ = ["KeyRow", "StoredKey"]
GRACE = timedelta(hours=24)  # how long the previous secret stays valid after a rotation
MAX_NAME = 100
MAX_LABEL = 255
TOPIC = "keys"  # of the notification after each change
_ID_ALPHABET = string.ascii_lowercase + string.digits
_SECRET_ALPHABET = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key, or one with a new secret, and its row. The key itself is shown only once."""

    row: KeyRow
    key: ApiKey


async def create(
    db: Tenant,
    *,
    role: str | None = None,
    scopes: Iterable[str] | None = None,
    name: str | None = None,
    expires: timedelta | None = None,
    label: str | None = None,
) -> NewKey:
    """Create a key for the org, with the scopes of a role or with these scopes, but none that the caller lacks."""
    key = ApiKey(_random(_ID_ALPHABET, KEY_ID_LENGTH), _random(_SECRET_ALPHABET, KEY_SECRET_LENGTH))
    chosen, granted = _granted(role, scopes)
    missing = granted - db.scopes
    if missing:
        scope = min(missing)
        raise Forbidden(f"{db.actor} lacks the scope {scope} and cannot give it to a key", scope=scope)
    if expires is not None and expires <= timedelta():
        raise Invalid("expires must be positive: for example 90d", field="expires")
    name = _checked(name or key.id, "name", MAX_NAME)
    if label is not None:
        label = _checked(label, "label", MAX_LABEL)
    if db.label is not None and label != db.label:
        raise Forbidden(f"{db.actor} is bound to the label {db.label} and can create keys of that label only")
    hash_ = _hash(await db.key_pepper(), key.secret)
    async with db.begin() as conn:
        row = await store.insert(
            conn,
            id_=key.id,
            org=db.org,
            hash_=hash_,
            name=name,
            role=chosen,
            scopes=sorted(granted),
            label=label,
            created_by=db.actor,
            expires=expires,
        )
        if row is None:
            raise Conflict(f"org {db.org} has a key {name!r}: rotate or revoke it, or choose another name")
        await audit.record(conn, db, "key.create", name, id=key.id, role=chosen, scopes=row.scopes, label=label)
    return NewKey(row, key)


async def list_(db: Tenant, *, limit: int = 100, before: str | None = None) -> Page[KeyRow]:
    """List the keys of the org, newest first, including revoked and expired keys."""
    encode(before, field="before")
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.once() as conn:
        rows = await store.list_(conn, org=db.org, limit=limit, before=before)
    return Page(rows, rows[-1].id if len(rows) == limit else None)


async def revoke(db: Tenant, ref: str) -> KeyRow:
    """Revoke a key, given by its id or name, permanently. Servers refuse it as soon as they are notified."""
    async with db.begin() as conn:
        row = await _lock(conn, db, ref)
        if row.revoked_at is None:
            row = await store.revoke(conn, row.id)
            await audit.record(conn, db, "key.revoke", row.name, id=row.id)
    db.poke(TOPIC)
    return row


async def rotate(db: Tenant, ref: str, *, at_once: bool = False) -> NewKey:
    """Replace the secret of a key. The previous secret stays valid for GRACE, or not at all if `at_once`."""
    secret = _random(_SECRET_ALPHABET, KEY_SECRET_LENGTH)
    hash_ = _hash(await db.key_pepper(), secret)
    async with db.begin() as conn:
        row = await _lock(conn, db, ref)
        if row.revoked_at is not None:
            raise Conflict(f"key {row.name!r} is revoked: create another")
        row = await store.rotate(conn, row.id, hash_=hash_, grace=None if at_once else GRACE)
        await audit.record(conn, db, "key.rotate", row.name, id=row.id, at_once=at_once)
    db.poke(TOPIC)
    return NewKey(row, ApiKey(row.id, secret))


# The check of a key


async def find(db: Database, id_: str) -> StoredKey | None:
    async with db.once() as conn:
        return await store.find(conn, id_)


def is_valid(stored: StoredKey | None, key: ApiKey, pepper: bytes, *, age: timedelta = timedelta()) -> bool:
    """Return whether a key is valid; `age` is how long ago `stored` was read.

    The work is the same for unknown keys, so that the time reveals nothing.
    """
    hash_ = _hash(pepper, key.secret)
    current, old = (stored.hash, stored.old_hash or b"") if stored is not None else (b"", b"")
    is_current, is_old = hmac.compare_digest(hash_, current), hmac.compare_digest(hash_, old)
    if stored is None or stored.revoked:
        return False
    now = stored.now + age
    if stored.expires_at is not None and stored.expires_at <= now:
        return False
    return is_current or (is_old and stored.old_until is not None and now < stored.old_until)


async def record_use(db: Database, ids: Sequence[str]) -> None:
    """Record that these keys were used, each at most once a minute."""
    async with db.once() as conn:
        await store.used(conn, ids)


async def _lock(conn: Connection, db: Tenant, ref: str) -> KeyRow:
    encode(ref, field="key")
    row = await store.lock(conn, org=db.org, ref=ref)
    if row is None or (db.label is not None and row.label != db.label):
        raise NotFound("key", ascii(ref[:MAX_NAME]))
    return row


def _granted(role: str | None, scopes: Iterable[str] | None) -> tuple[Role | None, frozenset[str]]:
    if (role is None) == (scopes is None):
        raise Invalid("a key has either a role or scopes: give one of them", field="role")
    if role is not None:
        chosen = check_role(role)
        return chosen, frozenset(chosen.scopes)
    granted = check_scopes(list(scopes or ()))
    if not granted:
        raise Invalid("scopes is empty: a key needs at least one", field="scopes")
    return None, frozenset(granted)


def _checked(text: str, field: str, limit: int) -> str:
    check_name(text, field, "leave it out, or give a name such as ci", limit=limit)
    encode(text, field=field)
    return text


def _random(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))  # from os.urandom


def _hash(pepper: bytes, secret: str) -> bytes:
    return hmac.digest(pepper, secret.encode(), hashlib.sha256)
