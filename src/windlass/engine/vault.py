"""Seals and opens secrets and keys, which the database must not hold in plain text. Functions take an open connection.

Each org has data keys; the latest one seals its secrets. Data keys, and the keys of the installation, are sealed with
the first master key of this process. Rotating the master key replaces the wrapping of a key, never the key itself, so
an unwrapped key may be cached for as long as the process runs.
"""

import logging
import os
import time
from collections.abc import Callable, Collection
from uuid import UUID

from windlass.core.ids import RANDOM_BYTES, uuid7
from windlass.core.templates.template import secret_named
from windlass.effects.vault import MAKE_ONE, VARIABLE, MasterKeys, about, new_key, open_sealed, seal
from windlass.errors import Conflict, MasterKeyRequired
from windlass.schemas.secrets import Secret
from windlass.store.orgs import secrets as store
from windlass.store.orgs.secrets import DataKey, SealedSecret, ServerKey
from windlass.store.postgres.pool import Connection

KeySource = Callable[[Collection[str]], MasterKeys]  # takes the ids of the master keys in use
BATCH = 100  # data keys in one transaction
ROOM = 10_000
ENGINE = "windlass"
_log = logging.getLogger("windlass.vault")


class Vault:
    """The master keys of this process, and a cache of the keys that were unwrapped with them."""

    def __init__(self, keys: MasterKeys | None = None) -> None:
        self.keys = keys or MasterKeys()
        self._data_keys: dict[UUID, bytes] = {}
        self._server_keys: dict[str, bytes] = {}

    async def server_key(self, conn: Connection, name: str) -> bytes:
        """Return a key of this installation, created on first use; its value never changes."""
        if (known := self._server_keys.get(name)) is not None:
            return known
        row = await store.server_key(conn, name)
        if row is None:  # not cached: the transaction may be rolled back
            await self._add_server_key(conn, name)
            row = await store.server_key(conn, name)
            assert row is not None
            return self._server_value(row)
        if row.value is not None:
            await self._seal_server_key(conn, row)
        value = self._server_keys[name] = self._server_value(row)
        return value

    def known_server_key(self, name: str) -> bytes | None:
        """Return a key of this installation if it is cached; never query the database."""
        return self._server_keys.get(name)

    async def put(self, conn: Connection, org: str, name: str, value: str, *, by: str) -> Secret:
        """Store the next version of a secret. The caller holds `store.lock` of the org."""
        key = await store.data_key(conn, org) or await self.add_data_key(conn, org)
        version = await store.version(conn, org, name) + 1
        return await store.put(conn, self._sealed(key, name, version, value), by=by)

    async def read(self, conn: Connection, names: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return the values of secrets, given as (org, name). Secrets that do not exist are left out."""
        return {(row.org, row.name): self._opened(row) for row in await store.find(conn, names)} if names else {}

    async def resolve(self, conn: Connection, org: str, secret: str) -> str:
        """Return a definition's secret for signed requests: the literal, or the value of the secret that it names."""
        if (name := secret_named(secret)) is None:
            return secret
        values = await self.read(conn, [(org, name)])
        if not values:
            _log.warning("secret %s of org %s does not exist any more, so signed requests cannot be checked", name, org)
            raise Conflict("the signature cannot be checked: the secret of the workflow does not exist any more")
        return values[org, name]

    async def add_data_key(self, conn: Connection, org: str) -> DataKey:
        """Create the data key that seals the secrets of an org from now on."""
        id_, value = uuid7(time.time_ns(), os.urandom(RANDOM_BYTES)), new_key()
        key = self._wrapped(id_, org, value)
        await store.add_data_key(conn, key)
        self._keep(id_, value)
        return key

    async def rotate_data_key(self, conn: Connection, org: str) -> int:
        """Seal all secrets of an org with a new data key; return their number. The caller holds `store.lock`."""
        key = await self.add_data_key(conn, org)
        rows = await store.of_org(conn, org)
        for row in rows:
            await store.reseal(conn, self._sealed(key, row.name, row.version, self._opened(row)))
        await store.drop_data_keys(conn, org, keep=key.id)
        return len(rows)

    async def wrap_data_keys(self, conn: Connection) -> int:
        """Wrap a batch of data keys with the first master key; return their number, 0 if none is left."""
        rows = await store.data_keys_to_wrap(conn, self.keys.first.id, BATCH)
        for row in rows:
            await store.wrap_data_key(conn, self._wrapped(row.id, row.org, self._data_key(row)))
        return len(rows)

    async def seal_server_keys(self, conn: Connection) -> int:
        """Seal the keys of the installation that are in plain text or sealed with another master key."""
        rows = await store.server_keys_to_seal(conn, self.keys.first.id)
        for row in rows:
            await self._seal_server_key(conn, row)
        return len(rows)

    async def check(self, conn: Connection) -> None:
        """Raise `MasterKeyRequired` if a server or a worker on this database needs a key that this process lacks."""
        if not self.keys:
            if await store.in_use(conn):
                raise MasterKeyRequired(
                    f"{VARIABLE} is not set, and this database has secrets, subscriptions, callbacks or API keys: set"
                    f" the key of this installation, or make one with {MAKE_ONE} if it never had one"
                )
            return
        for id_ in await store.master_keys(conn):
            self.keys.get(id_)

    def _sealed(self, key: DataKey, name: str, version: int, value: str) -> SealedSecret:
        ciphertext = seal(self._data_key(key), value.encode(), about(key.org, name, version))
        return SealedSecret(key.org, name, version, ciphertext, key)

    def _opened(self, row: SealedSecret) -> str:
        key = self._data_key(row.data_key)
        return open_sealed(key, row.ciphertext, about(row.org, row.name, row.version)).decode()

    def _wrapped(self, id_: UUID, org: str, value: bytes) -> DataKey:
        master = self.keys.first
        return DataKey(id_, org, seal(master.value, value, about(org, id_)), master.id)

    def _data_key(self, key: DataKey) -> bytes:
        value = self._data_keys.get(key.id)
        if value is None:
            value = open_sealed(self.keys.get(key.master_key).value, key.wrapped, about(key.org, key.id))
            self._keep(key.id, value)
        return value

    def _keep(self, id_: UUID, value: bytes) -> None:
        if len(self._data_keys) >= ROOM:
            self._data_keys.clear()
        self._data_keys[id_] = value

    async def _add_server_key(self, conn: Connection, name: str) -> None:
        master = self.keys.first
        await store.add_server_key(conn, name, seal(master.value, new_key(), about("server_key", name)), master.id)

    async def _seal_server_key(self, conn: Connection, row: ServerKey) -> None:
        master, value = self.keys.first, self._server_value(row)
        await store.seal_server_key(conn, row.name, seal(master.value, value, about("server_key", row.name)), master.id)

    def _server_value(self, row: ServerKey) -> bytes:
        if row.value is not None:
            _ = self.keys.first  # raises without a master key: then the plain text must not be used either
            return row.value
        assert row.sealed is not None
        assert row.master_key is not None
        return open_sealed(self.keys.get(row.master_key).value, row.sealed, about("server_key", row.name))


async def seal_plain(conn: Connection, vault: Vault) -> bool:
    """Seal secrets and keys that earlier versions stored in plain text; return whether there were any.

    Several processes may do this concurrently: each row is locked, and the first process seals it.
    """
    if not await store.has_plain(conn):
        return False
    async with conn.transaction():
        rows = await store.subscriptions_to_seal(conn)
        for org in sorted({row.org for row in rows}):
            await store.lock(conn, org)
        for row in rows:
            for secret, rotation in ((row.secret, row.rotation), (row.old_secret, row.rotation - 1)):
                if secret is not None:
                    await vault.put(conn, row.org, subscription_secret(row.id, rotation), secret, by=ENGINE)
            await store.clear_subscription(conn, row.id)
        await vault.seal_server_keys(conn)
    _log.info("the secrets of subscriptions and the keys of this installation are sealed now")
    if not await store.rewrite(conn):
        _log.warning(
            "their plain text is still in the files of the database: run"
            " `vacuum full windlass.server_key, windlass.subscription`"
        )
    return True


def subscription_secret(id_: UUID, rotation: int | str) -> str:
    """Return the name of the secret that signs requests to a subscriber; with an empty rotation, their prefix."""
    return f"subscription/{id_}/{rotation}"
