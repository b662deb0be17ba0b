"""Secrets of orgs: set, listed without values, deleted, rotated."""

import asyncio
from typing import Any

import pytest

from tests.keys import KEYS
from windlass.effects.vault import MasterKey, MasterKeys, new_key
from windlass.engine import secrets, workflows
from windlass.engine.database import Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, Invalid, InvalidWorkflow, MasterKeyRequired, NotFound
from windlass.store.orgs import audit as audit_store
from windlass.store.postgres.pool import DatabaseOptions

Connection = Any
CANARY = 'c4n4ry-Ünïcode/+ "x" \U0001f511'
OLD = KEYS.first
NEW = MasterKey.of(bytes(32))


async def value_of(db: Tenant, name: str) -> str | None:
    return (await secrets.values(db, [(db.org, name)])).get((db.org, name))


async def with_keys(database: str, *keys: MasterKey) -> Tenant:
    return await Tenant.open(DatabaseOptions(url=database, notify=False, size=2), keys=MasterKeys(keys))


async def test_a_secret_is_stored_sealed_and_opened_for_workers(db: Tenant, conn: Connection) -> None:
    made = await secrets.set_(db, "TOKEN", CANARY)
    assert (made.name, made.version, made.updated_by) == ("TOKEN", 1, db.actor)
    assert await value_of(db, "TOKEN") == CANARY
    row = await conn.fetchrow("select * from windlass.secret")
    assert CANARY.encode() not in row["ciphertext"]
    assert (await secrets.set_(db, "TOKEN", "another value")).version == 2
    assert await value_of(db, "TOKEN") == "another value"


async def test_secrets_are_listed_in_pages_without_values(db: Tenant) -> None:
    for name in ("B", "A", "C"):
        await secrets.set_(db, name, CANARY)
    page = await secrets.list_(db, limit=2)
    assert ([row.name for row in page.items], page.next) == (["A", "B"], "B")
    assert [row.name for row in (await secrets.list_(db, after="B")).items] == ["C"]
    assert CANARY not in repr(page)


async def test_orgs_do_not_see_each_others_secrets(db: Tenant, other_org: Tenant) -> None:
    await secrets.set_(db, "TOKEN", "of default")
    await secrets.set_(other_org, "TOKEN", "of acme")
    assert (await value_of(db, "TOKEN"), await value_of(other_org, "TOKEN")) == ("of default", "of acme")
    await secrets.delete(other_org, "TOKEN")
    assert (await value_of(db, "TOKEN"), await value_of(other_org, "TOKEN")) == ("of default", None)
    with pytest.raises(NotFound, match="no secret TOKEN"):
        await secrets.delete(other_org, "TOKEN")


async def test_a_row_that_was_moved_to_another_name_org_or_version_cannot_be_opened(
    db: Tenant, conn: Connection
) -> None:
    await secrets.set_(db, "TOKEN", CANARY)
    for change in ("name = 'OTHER'", "org = 'acme', name = 'TOKEN'", "org = 'default', version = 7"):
        await conn.execute(f"update windlass.secret set {change}")
        org, name = await conn.fetchrow("select org, name from windlass.secret")
        with pytest.raises(ValueError, match="does not open"):
            await secrets.values(db, [(org, name)])


async def test_each_change_is_in_the_audit_log(db: Tenant, conn: Connection) -> None:
    await secrets.set_(db, "TOKEN", CANARY)
    await secrets.rotate(db)
    await secrets.delete(db, "TOKEN")
    entries: list[audit.AuditEntry] = await audit_store.list_(conn, org=db.org)
    assert [(entry.action, entry.object) for entry in reversed(entries)] == [
        ("secret.set", "TOKEN"),
        ("secret.rotate", None),
        ("secret.delete", "TOKEN"),
    ]
    assert CANARY not in repr(entries)


@pytest.mark.parametrize("name", ["", "1A", "a-b", "a/b", "a.b", "x" * 64, "Ä", "subscription/1/1"])
async def test_an_invalid_name_is_refused(db: Tenant, name: str) -> None:
    with pytest.raises(Invalid, match="letters, digits and underscores") as refusal:
        await secrets.set_(db, name, CANARY)
    assert refusal.value.field == "name"


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("abc", "at least 4"),
        ("x" * 65_537, "the limit is 65536"),
        ("é" * 33_000, "66000 bytes"),
        ("abcd\ud800", "surrog"),
    ],
)
async def test_the_error_for_an_invalid_value_does_not_contain_the_value(db: Tenant, value: str, problem: str) -> None:
    with pytest.raises(Invalid, match=problem) as refusal:
        await secrets.set_(db, "TOKEN", value)
    assert (refusal.value.field, value in str(refusal.value)) == ("value", False)


async def test_values_at_the_size_limits_are_accepted(db: Tenant) -> None:
    for value in ("1234", "x" * 65_536, "with\x00NUL", "lines\nof\ntext\n"):
        await secrets.set_(db, "TOKEN", value)
        assert await value_of(db, "TOKEN") == value


async def test_ten_concurrent_writes_create_ten_versions_and_one_data_key(db: Tenant, conn: Connection) -> None:
    made = await asyncio.gather(*(secrets.set_(db, "TOKEN", f"value {n}") for n in range(10)))
    assert sorted(row.version for row in made) == list(range(1, 11))
    assert await conn.fetchval("select count(*) from windlass.data_key") == 1


# Rotation


async def test_a_rotation_reseals_all_secrets_and_deletes_the_old_data_key(
    db: Tenant, other_db: Tenant, conn: Connection
) -> None:
    await secrets.set_(db, "A", CANARY)
    await secrets.set_(db, "B", "the other")
    assert await value_of(other_db, "A") == CANARY  # it has the old data key in its cache
    before = await conn.fetch("select data_key_id, ciphertext, version from windlass.secret order by name")
    done = await secrets.rotate(db)
    assert (done.secrets, done.data_keys) == (2, 1)
    after = await conn.fetch("select data_key_id, ciphertext, version from windlass.secret order by name")
    assert [row["version"] for row in after] == [1, 1]
    assert all(one["ciphertext"] != two["ciphertext"] for one, two in zip(before, after, strict=True))
    assert await conn.fetchval("select array_agg(id) from windlass.data_key") == [after[0]["data_key_id"]]
    assert [await value_of(each, name) for each in (db, other_db) for name in "AB"] == [CANARY, "the other"] * 2


async def test_the_master_key_is_rotated_for_all_orgs_and_the_old_one_can_be_removed(
    db: Tenant, other_org: Tenant, database: str, conn: Connection
) -> None:
    await secrets.set_(db, "A", CANARY)
    await secrets.set_(other_org, "A", "of acme")
    both = await with_keys(database, NEW, OLD)
    async with db.begin() as own:
        hook_key = await db.hook_key(own)
    done = await secrets.rotate_master(both)
    assert (done.data_keys, done.server_keys, done.master_key) == (2, 1, NEW.id)
    assert await conn.fetch("select distinct master_key from windlass.data_key") == [(NEW.id,)]
    only = await with_keys(database, NEW)
    async with only.begin() as own:
        assert await only.hook_key(own) == hook_key
    assert await secrets.values(only, [("default", "A"), ("acme", "A")]) == {
        ("default", "A"): CANARY,
        ("acme", "A"): "of acme",
    }
    assert (await secrets.rotate_master(both)).data_keys == 0  # again: nothing to do
    for opened in (both, only):
        await opened.close()


async def test_an_org_cannot_rotate_the_master_key(other_org: Tenant) -> None:
    with pytest.raises(Invalid, match="org acme cannot rotate them"):
        await secrets.rotate_master(other_org)


# Keys that are missing or wrong


async def test_without_a_master_key_nothing_is_sealed_or_opened(db: Tenant, database: str) -> None:
    await secrets.set_(db, "A", CANARY)
    keyless = await with_keys(database)
    with pytest.raises(MasterKeyRequired, match="WINDLASS_MASTER_KEY is not set"):
        await secrets.set_(keyless, "B", CANARY)
    with pytest.raises(MasterKeyRequired, match=f"master key {OLD.id} is needed"):
        await value_of(keyless, "A")
    with pytest.raises(MasterKeyRequired):
        await secrets.rotate(keyless)
    assert [row.name for row in (await secrets.list_(keyless)).items] == ["A"]
    await secrets.delete(keyless, "A")  # which opens nothing
    await keyless.close()


async def test_a_wrong_master_key_is_refused_with_the_id_of_the_right_one(db: Tenant, database: str) -> None:
    await secrets.set_(db, "A", CANARY)
    stranger = await with_keys(database, MasterKey.of(new_key()))
    for use in (value_of(stranger, "A"), secrets.set_(stranger, "B", CANARY), secrets.rotate_master(stranger)):
        with pytest.raises(MasterKeyRequired, match=f"master key {OLD.id} is needed") as refusal:
            await use
        assert refusal.value.key == OLD.id
    assert await value_of(db, "A") == CANARY
    await stranger.close()


# Publishing


async def test_a_workflow_that_names_an_unknown_secret_is_not_published(db: Tenant, other_org: Tenant) -> None:
    def document(name: str) -> dict[str, Any]:
        return {
            "name": "w",
            "tasks": {"a": {"url": "https://example.com/", "headers": {"X": f"{{{{secrets.{name}}}}}"}}},
        }

    await secrets.set_(db, "TOKEN", CANARY)
    for act in (workflows.publish_many, workflows.preview_many):
        with pytest.raises(InvalidWorkflow) as refusal:
            await act(db, [document("TOKN")])
        assert refusal.value.errors == [
            ("tasks.a.headers.X", "there is no secret TOKN: create it with `windlass secrets set TOKN`")
        ]
        with pytest.raises(InvalidWorkflow, match="windlass secrets set TOKEN --org acme"):
            await act(other_org, [document("TOKEN")])
    [made] = await workflows.publish_many(db, [document("TOKEN")])
    assert made.created
    await secrets.delete(db, "TOKEN")
    [same] = await workflows.publish_many(db, [document("TOKEN")])  # unchanged: nothing is published
    assert not same.changed


async def test_the_number_of_secrets_is_limited(db: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "MOST", 1)
    await secrets.set_(db, "A", CANARY)
    await secrets.set_(db, "A", CANARY)
    with pytest.raises(Conflict, match="1 secrets already"):
        await secrets.set_(db, "B", CANARY)
