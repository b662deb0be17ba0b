"""Keys: shown once, stored as a hash, valid until they expire or are revoked; rotation has a grace period."""

from datetime import timedelta
from typing import Any

import pytest

from windlass.core.orgs import ApiKey, Role, Scope, parse_key
from windlass.engine.database import Tenant
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import keys
from windlass.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.store.orgs import audit
from windlass.testing import Clock

HOUR = timedelta(hours=1)


async def is_valid(db: Tenant, key: ApiKey) -> bool:
    return keys.is_valid(await keys.find(db, key.id), key, await db.key_pepper())


async def test_a_key_has_the_documented_form_and_is_valid(db: Tenant) -> None:
    made = await keys.create(db, role="developer", name="ci")
    assert parse_key(str(made.key)) == made.key
    assert made.key.secret not in repr(made)
    assert await is_valid(db, made.key)
    assert (made.row.name, made.row.role, made.row.created_by) == ("ci", "developer", db.actor)
    assert set(made.row.scopes) == set(Role.DEVELOPER.scopes)
    assert not await is_valid(db, ApiKey(made.key.id, "x" * 43))
    assert not await is_valid(db, ApiKey("unknown12345", made.key.secret))


async def test_the_secret_is_not_stored_in_the_database(db: Tenant, conn: Any) -> None:
    made = await keys.create(db, role="admin")
    rotated = await keys.rotate(db, made.key.id)
    rows = await conn.fetch("select k::text from windlass.api_key k union all select a::text from windlass.audit a")
    stored = "\n".join(row[0] for row in rows)
    for secret in (made.key.secret, rotated.key.secret):
        assert secret not in stored
        assert secret.encode().hex() not in stored
    assert "key.rotate" in stored


async def test_two_servers_agree_on_the_pepper(db: Tenant, other_db: Tenant) -> None:
    made = await keys.create(db, role="viewer")
    assert await is_valid(other_db, made.key)


async def test_a_key_expires(db: Tenant, clock: Clock) -> None:
    made = await keys.create(db, role="viewer", expires=timedelta(days=90))
    clock.move(timedelta(days=90) - HOUR)
    assert await is_valid(db, made.key)
    clock.move(HOUR)
    assert not await is_valid(db, made.key)


async def test_a_revoked_key_is_invalid_and_its_name_is_free_again(db: Tenant) -> None:
    made = await keys.create(db, role="viewer", name="ci")
    revoked = await keys.revoke(db, "ci")
    assert not await is_valid(db, made.key)
    assert await keys.revoke(db, made.key.id) == revoked
    with pytest.raises(Conflict, match="key 'ci' is revoked"):
        await keys.rotate(db, made.key.id)
    again = await keys.create(db, role="viewer", name="ci")
    assert await is_valid(db, again.key)
    assert [row.id for row in (await keys.list_(db)).items] == [again.key.id, made.key.id]


async def test_after_a_rotation_the_old_secret_is_valid_for_a_day(db: Tenant, clock: Clock) -> None:
    old = await keys.create(db, role="viewer", name="ci")
    new = await keys.rotate(db, "ci")
    assert (new.key.id, new.key.secret != old.key.secret) == (old.key.id, True)
    clock.move(keys.GRACE - HOUR)
    assert await is_valid(db, old.key)
    clock.move(HOUR)
    assert not await is_valid(db, old.key)
    assert await is_valid(db, new.key)


async def test_a_rotation_can_invalidate_the_old_secret_at_once_and_revoking_invalidates_both(db: Tenant) -> None:
    first = await keys.create(db, role="viewer", name="ci")
    second = await keys.rotate(db, "ci")
    third = await keys.rotate(db, "ci", at_once=True)
    assert [await is_valid(db, one.key) for one in (first, second, third)] == [False, False, True]
    fourth = await keys.rotate(db, "ci")
    await keys.revoke(db, "ci")
    assert [await is_valid(db, one.key) for one in (third, fourth)] == [False, False]


async def test_two_valid_keys_of_an_org_must_have_different_names(db: Tenant, other_org: Tenant) -> None:
    await orgs.create(db, "acme")
    await keys.create(db, role="viewer", name="ci")
    with pytest.raises(Conflict, match="org default has a key 'ci'"):
        await keys.create(db, role="viewer", name="ci")
    await keys.create(other_org, role="viewer", name="ci")
    assert len((await keys.list_(db)).items) == 1


async def test_keys_of_another_org_are_not_found(db: Tenant, other_org: Tenant) -> None:
    await orgs.create(db, "acme")
    made = await keys.create(db, role="viewer", name="ci")
    for change in (keys.revoke, keys.rotate):
        for ref in ("ci", made.key.id):
            with pytest.raises(NotFound):
                await change(other_org, ref)
    assert (await keys.list_(other_org)).items == []
    assert await is_valid(db, made.key)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "role"),
        ({"role": "viewer", "scopes": ["read"]}, "role"),
        ({"role": "king"}, "role"),
        ({"scopes": ["read", "fly"]}, "scopes"),
        ({"scopes": []}, "scopes"),
        ({"role": "viewer", "expires": timedelta()}, "expires"),
        ({"role": "viewer", "name": "x" * 101}, "name"),
        ({"role": "viewer", "name": "a\nb"}, "name"),
        ({"role": "viewer", "label": " "}, "label"),
    ],
)
async def test_invalid_options_of_a_key_are_refused_with_the_field(
    db: Tenant, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await keys.create(db, **options)
    assert refused.value.field == field
    assert (await keys.list_(db)).items == []


async def test_a_caller_cannot_create_a_key_with_more_permissions_than_its_own(db: Tenant) -> None:
    admin = db.tenant(actor="key:boss", scopes=Role.ADMIN.scopes)
    with pytest.raises(Forbidden, match="key:boss lacks the scope commands") as refused:
        await keys.create(admin, scopes=["read", "commands"])
    assert refused.value.scope == Scope.COMMANDS
    bound = db.tenant(actor="key:boss", label="tenant-1")
    with pytest.raises(Forbidden, match="bound to the label tenant-1"):
        await keys.create(bound, role="viewer")
    assert (await keys.create(bound, role="viewer", label="tenant-1")).row.label == "tenant-1"


async def test_changes_to_keys_are_audited(db: Tenant) -> None:
    boss = db.tenant(actor="key:boss")
    await keys.create(boss, role="viewer", name="ci")
    await keys.rotate(boss, "ci")
    await keys.revoke(boss, "ci")
    async with db.once() as conn:
        rows = await audit.list_(conn, org="default", action="key.")
    assert [(row.actor, row.action, row.object) for row in reversed(rows)] == [
        ("key:boss", f"key.{word}", "ci") for word in ("create", "rotate", "revoke")
    ]


async def test_keys_are_listed_in_pages_newest_first(db: Tenant, clock: Clock) -> None:
    clock.move(HOUR)
    for n in range(3):
        await keys.create(db, role="viewer", name=f"k{n}")
        clock.move(HOUR)
    page = await keys.list_(db, limit=2)
    rest = await keys.list_(db, limit=2, before=page.next)
    assert [row.name for row in page.items + rest.items] == ["k2", "k1", "k0"]
    assert rest.next is None


async def test_the_use_of_a_key_is_recorded_at_most_once_a_minute(db: Tenant, clock: Clock) -> None:
    made = await keys.create(db, role="viewer")
    seen = []
    for step in (HOUR, timedelta(seconds=59), timedelta(seconds=2)):
        clock.move(step)
        await keys.record_use(db, [made.key.id])
        seen.append((await keys.list_(db)).items[0].last_used_at)
    assert seen[0] == seen[1] != seen[2]
