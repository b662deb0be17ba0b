"""Values that earlier versions stored in plain text are sealed by the first process that has a master key."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.keys import KEYS
from windlass import Windlass
from windlass.effects.vault import MasterKey, MasterKeys, new_key
from windlass.engine import secrets
from windlass.engine.database import Tenant, new_ids, prepare
from windlass.engine.events import subscriptions
from windlass.errors import MasterKeyRequired
from windlass.settings import Settings
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Databases

Connection = Any
PLAIN = "select (select count(*) from windlass.server_key where value is not null) + (select count(*) from" + (
    " windlass.subscription where secret is not null or old_secret is not null)"
)
KEY = bytes(range(48))


async def as_before(conn: Connection) -> UUID:
    """Store the rows of version 1: the key of callbacks, and a subscription that was rotated once."""
    [id_] = new_ids(1)
    await conn.execute("update windlass.server_key set value = $1, sealed = null, master_key = null", KEY)
    await conn.execute(
        "insert into windlass.subscription (id, org, url, events, secret, old_secret, rotation, rotated_at)"
        " values ($1, 'default', 'https://example.com/', '{job.completed}', 'the-new-secret-1234',"
        " 'the-old-secret-1234', 1, windlass.now())",
        id_,
    )
    return id_


async def seal(database: str, keys: MasterKeys = KEYS) -> None:
    await prepare(DatabaseOptions(url=database), lambda _: keys)


async def test_plain_rows_are_sealed_and_keep_their_values(db: Tenant, database: str, conn: Connection) -> None:
    id_ = await as_before(conn)
    await seal(database)
    assert await conn.fetchval(PLAIN) == 0
    target = await subscriptions.target(db, id_)
    assert target is not None
    assert target.secrets == ["the-new-secret-1234", "the-old-secret-1234"]
    async with db.begin() as own:
        assert await db.hook_key(own) == KEY
    assert (await secrets.list_(db)).items == []  # they are the engine's, not the org's
    await subscriptions.remove(db, id_)
    assert await conn.fetchval("select count(*) from windlass.secret") == 0


async def test_sealing_leaves_no_plain_text_in_the_table_files(database: str, conn: Connection) -> None:
    await as_before(conn)
    await seal(database)
    for table in ("server_key", "subscription"):
        path = await conn.fetchval(f"select pg_relation_filepath('windlass.{table}')")
        await conn.execute("checkpoint")
        data = await conn.fetchval("select pg_read_binary_file($1)", path)
        assert KEY not in data
        assert b"-secret-1234" not in data


async def test_processes_that_start_concurrently_seal_once(database: str, conn: Connection) -> None:
    id_ = await as_before(conn)
    await asyncio.gather(*(seal(database) for _ in range(4)))
    assert await conn.fetchval(PLAIN) == 0
    assert await conn.fetch("select name, version from windlass.secret order by name") == [
        (f"subscription/{id_}/0", 1),
        (f"subscription/{id_}/1", 1),
    ]


async def test_a_rotation_of_a_subscription_keeps_the_previous_secret(db: Tenant, conn: Connection) -> None:
    made, first = await subscriptions.create(
        db, {"url": "https://example.com/", "events": ["job.completed"], "secret": "first-secret-1234"}
    )
    for secret in ("second-secret-1234", None, "fourth-secret-1234"):
        _, own = await subscriptions.rotate(db, made.id, secret=secret)
        target = await subscriptions.target(db, made.id)
        assert target is not None
        assert list(target.secrets) == [own, first]
        first = own
    names = await conn.fetch("select name from windlass.secret")
    assert names == [(f"subscription/{made.id}/3",)]  # the third was derived, and the others have expired


# Starting


def app_of(url: str, keys: MasterKeys) -> Windlass:
    return Windlass(url, settings=Settings(master_keys=keys))


@pytest.mark.parametrize("stored", ["secret", "subscription", "hook", "api_key"])
async def test_a_process_without_the_master_key_stops_at_once(
    db: Tenant, database: str, conn: Connection, stored: str
) -> None:
    async with app_of(database, MasterKeys()) as app:
        await app.listen_at("http://127.0.0.1:1")  # nothing needs a key yet
    match stored:
        case "secret":
            await secrets.set_(db, "A", "1234")
        case "subscription":
            await subscriptions.create(db, {"url": "https://example.com/", "events": ["job.completed"]})
        case "hook":
            await conn.execute("insert into windlass.hook (run_id, step, token_hash) values (gen_random_uuid(), 0, '')")
        case _:
            await conn.execute(
                "insert into windlass.api_key (id, org, hash, name, scopes, created_by)"
                " values ('a', 'default', '', 'a', '{}', '')"
            )
    never = asyncio.Event()
    async with app_of(database, MasterKeys()) as app:
        assert await app.submit("a.b.v1")  # needs none
        for start in (app.work(stop=never), app.tend(stop=never), app.listen_at("http://127.0.0.1:1")):
            with pytest.raises(MasterKeyRequired, match="WINDLASS_MASTER_KEY is not set, and this database has"):
                await start


async def test_a_process_with_a_wrong_master_key_stops_at_once(db: Tenant, database: str) -> None:
    await secrets.set_(db, "A", "1234")
    async with app_of(database, MasterKeys((MasterKey.of(new_key()),))) as app:
        with pytest.raises(MasterKeyRequired, match=f"master key {KEYS.first.id} is needed"):
            await app.work(stop=asyncio.Event())


async def test_callbacks_are_refused_without_a_master_key(database: str) -> None:
    async with app_of(database, MasterKeys()) as app:
        await app.deploy({"name": "w", "tasks": {"a": {"wait_for_webhook": True}}})
        with pytest.raises(MasterKeyRequired, match="WINDLASS_MASTER_KEY"):
            await app.start("w")
        assert (await app.runs()).runs == []


async def test_the_embedded_server_has_its_own_master_key(tmp_path: Path, databases: Databases) -> None:
    app = Windlass(settings=Settings(home=tmp_path / "home"))
    made = app.master_keys()
    assert made == app.master_keys(["anything"])
    with pytest.raises(MasterKeyRequired, match="restore the file"):
        Windlass(settings=Settings(home=tmp_path / "other")).master_keys(["12345678"])
    async with databases.fresh() as url:
        assert not Windlass(url, settings=Settings(home=tmp_path / "home")).master_keys()
