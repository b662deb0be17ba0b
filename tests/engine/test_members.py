"""Members: an address and a role. The only admin of an org cannot give up that role."""

import pytest

from windlass.core.orgs import Role
from windlass.engine.database import Tenant
from windlass.engine.orgs import members
from windlass.errors import Conflict, Forbidden, Invalid, NotFound

ALICE, BOB = "alice@example.com", "bob@example.com"


def logged_in(db: Tenant, email: str) -> Tenant:
    return db.tenant(actor=f"user:{email}", scopes=Role.ADMIN.scopes)


async def roles(db: Tenant) -> dict[str, str]:
    return {row.email: row.role for row in (await members.list_(db)).items}


async def test_a_member_is_added_changed_and_removed_by_a_case_insensitive_address(db: Tenant) -> None:
    added = await members.put(db, "Alice@Example.COM", role="viewer")
    assert (added.email, added.role) == (ALICE, "viewer")
    changed = await members.put(db, ALICE, role="admin")
    assert (changed.role, changed.created_at) == ("admin", added.created_at)
    await members.remove(db, "ALICE@example.com")
    assert await roles(db) == {}
    with pytest.raises(NotFound):
        await members.remove(db, ALICE)


async def test_the_only_admin_cannot_give_up_the_role_but_another_caller_can_remove_the_admin(db: Tenant) -> None:
    await members.put(db, ALICE, role="admin")
    alice = logged_in(db, ALICE)
    with pytest.raises(Conflict, match=r"alice@example\.com is the only admin of org default"):
        await members.remove(alice, ALICE)
    with pytest.raises(Conflict, match="make another member an admin first"):
        await members.put(alice, ALICE, role="viewer")
    await members.put(alice, BOB, role="admin")
    await members.put(alice, ALICE, role="viewer")
    with pytest.raises(Conflict, match=r"bob@example\.com is the only admin"):
        await members.remove(logged_in(db, BOB), BOB)
    await members.remove(db, BOB)
    assert await roles(db) == {ALICE: "viewer"}


async def test_a_member_cannot_be_given_scopes_that_the_caller_lacks(db: Tenant) -> None:
    operator = db.tenant(actor="key:ops", scopes=Role.OPERATOR.scopes)
    with pytest.raises(Forbidden, match="key:ops lacks the scope"):
        await members.put(operator, ALICE, role="admin")
    assert await roles(db) == {}


@pytest.mark.parametrize("email", ["", "alice", "a@b@c", "a b@c", "@x.org", "a@", "a\n@x.org", "a@" + "b" * 254])
async def test_an_invalid_address_is_refused(db: Tenant, email: str) -> None:
    with pytest.raises(Invalid) as refused:
        await members.put(db, email, role="viewer")
    assert refused.value.field == "email"
