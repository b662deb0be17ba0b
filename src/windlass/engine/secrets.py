"""Sets, lists, deletes and rotates the secrets of an org. Values are decrypted only to be used and are never shown."""

from collections.abc import Collection, Sequence

from windlass.core.expressions.scope import NAMES_OF_SECRETS, is_secret_name
from windlass.core.jobs.spec import check_range
from windlass.core.orgs import DEFAULT_ORG
from windlass.core.redaction import SHORTEST
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT, Page
from windlass.schemas.secrets import Secret, SecretRotation
from windlass.store.orgs import secrets as store

LONGEST = 100  # characters of an invalid name that its error message quotes
MAX_VALUE = 64 * 1024  # bytes
MOST = 1000  # per org


async def set_(db: Tenant, name: str, value: str) -> Secret:
    """Create a secret or replace its value. Attempts that start later use the new value."""
    _check_name(name)
    _check_value(value)
    async with db.begin() as conn:
        await store.lock(conn, db.org)
        if not await store.version(conn, db.org, name) and await store.count(conn, db.org) >= MOST:
            raise Conflict(f"there are {MOST} secrets already: delete one that is not used")
        row = await db.vault.put(conn, db.org, name, value, by=db.actor)
        await audit.record(conn, db, "secret.set", name, version=row.version)
    return row


async def list_(db: Tenant, *, after: str = "", limit: int = 50) -> Page[Secret]:
    """List the secrets by name, each with its version and its last change, without their values."""
    async with db.once() as conn:
        rows = await store.list_(conn, db.org, after=after, limit=check_range(limit, "limit", most=PAGE_LIMIT))
    return Page(rows, rows[-1].name if len(rows) == limit else None)


async def delete(db: Tenant, name: str) -> None:
    """Delete a secret. Later attempts that need it fail."""
    _check_name(name)
    async with db.begin() as conn:
        await store.lock(conn, db.org)
        if not await store.delete(conn, db.org, name):
            raise NotFound("secret", name)
        await audit.record(conn, db, "secret.delete", name)


async def rotate(db: Tenant) -> SecretRotation:
    """Seal all secrets of the org with a new data key. Their values and versions stay the same."""
    async with db.begin() as conn:
        await store.lock(conn, db.org)
        count = await db.vault.rotate_data_key(conn, db.org)
        await audit.record(conn, db, "secret.rotate", secrets=count)
    return SecretRotation(count, 1, 0, db.vault.keys.first.id)


async def rotate_master(db: Tenant) -> SecretRotation:
    """Wrap the data keys of all orgs, and seal the keys of the installation, with the first master key.

    Runs in small transactions: processes that have both the old and the new key keep working meanwhile, and the next
    rotation completes an interrupted one.
    """
    if db.org != DEFAULT_ORG:
        raise Invalid(
            f"master keys belong to the installation, and org {db.org} cannot rotate them: act for {DEFAULT_ORG}",
            field="master",
        )
    wrapped = 0
    while True:
        async with db.database.begin() as conn:  # not `db.begin`: row-level security could hide the keys of other orgs
            count = await db.vault.wrap_data_keys(conn)
        wrapped += count
        if not count:
            break
    first = db.vault.keys.first.id
    async with db.database.begin() as conn:
        sealed = await db.vault.seal_server_keys(conn)
        await audit.record(conn, db, "secret.rotate_master", first, data_keys=wrapped, server_keys=sealed)
    return SecretRotation(0, wrapped, sealed, first)


async def values(db: Database, names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the values of secrets, given as (org, name), for an attempt that is about to use them."""
    async with db.once() as conn:
        return await db.vault.read(conn, set(names))


async def missing(db: Tenant, names: Collection[str]) -> set[str]:
    """Return those of these names that are not secrets of the org."""
    if not names:
        return set()
    async with db.once() as conn:
        return set(names) - await store.names(conn, db.org, names)


def unknown(org: str, name: str) -> str:
    """Return the message about a secret that does not exist."""
    command = f"windlass secrets set {name}" + ("" if org == DEFAULT_ORG else f" --org {org}")
    return f"there is no secret {name}: create it with `{command}`"


def _check_name(name: str) -> None:
    if not is_secret_name(name):
        raise Invalid(f"name is {name[:LONGEST]!r}: {NAMES_OF_SECRETS}", field="name")


def _check_value(value: str) -> None:
    """Raise `Invalid` for a value that cannot be stored. The message does not contain the value."""
    if len(value) < SHORTEST:
        raise Invalid(
            f"value has {len(value)} characters, at least {SHORTEST} are required: a shorter one cannot be masked in"
            " results and logs",
            field="value",
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise Invalid("value contains an unpaired surrogate, which is not valid Unicode", field="value") from None
    if size > MAX_VALUE:
        raise Invalid(f"value is {size} bytes, the limit is {MAX_VALUE}", field="value")
