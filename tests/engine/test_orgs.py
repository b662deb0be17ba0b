"""Organisations: creation, disabling and enabling, and names that cannot collide with queues of `default`."""

from typing import Any

import asyncpg
import pytest

from windlass.engine.database import Tenant
from windlass.engine.orgs import control as orgs
from windlass.errors import Conflict, Invalid, NotFound
from windlass.store.orgs import audit


async def entries(db: Tenant) -> list[tuple[str, str, str | None]]:
    async with db.once() as conn:
        rows = await audit.list_(conn, org=db.org)
    return [(row.actor, row.action, row.object) for row in reversed(rows)]


async def test_an_org_is_created_listed_disabled_and_enabled_and_the_audit_log_has_each_change(db: Tenant) -> None:
    operator = db.tenant(actor="operator")
    assert await orgs.is_alone(db)
    created = await orgs.create(operator, "acme", plan="pro")
    assert (created.name, created.plan, created.disabled_at) == ("acme", "pro", None)
    assert not await orgs.is_alone(db)
    assert [row.name for row in (await orgs.list_(db)).items] == ["acme", "default"]
    first = await orgs.list_(db, limit=1)
    assert [row.name for row in (await orgs.list_(db, after=first.next or "")).items] == ["default"]
    disabled = await orgs.disable(operator, "acme")
    assert disabled.disabled_at is not None
    assert await orgs.disable(operator, "acme") == disabled
    assert (await orgs.enable(operator, "acme")) == await orgs.get(db, "acme") == created
    actions = ["org.create", "org.disable", "org.disable", "org.enable"]
    assert await entries(db) == [("operator", action, "acme") for action in actions]


@pytest.mark.parametrize("name", ["", "Acme", "a_b", "-a", "a-", "a/b", "a" * 64])
async def test_an_invalid_org_name_is_refused(db: Tenant, name: str) -> None:
    with pytest.raises(Invalid) as refused:
        await orgs.create(db, name)
    assert refused.value.field == "org"


async def test_an_org_that_exists_is_not_created_again(db: Tenant) -> None:
    await orgs.create(db, "acme", plan="pro")
    with pytest.raises(Conflict, match="org acme exists"):
        await orgs.create(db, "acme")
    assert (await orgs.get(db, "acme")).plan == "pro"
    assert len(await entries(db)) == 1


async def test_an_unknown_plan_is_refused_with_a_list_of_the_existing_ones(db: Tenant) -> None:
    with pytest.raises(Invalid, match="plan is 'gold': one of free, pro, unlimited") as refused:
        await orgs.create(db, "acme", plan="gold")
    assert refused.value.field == "plan"
    assert await orgs.is_alone(db)


@pytest.mark.parametrize(
    "row",
    [
        "insert into windlass.queue (name) values ('acme/mail')",
        "insert into workflow.workflow_run (type, payload, queue) values ('a.b.v1', '{}', 'acme/mail')",
    ],
)
async def test_an_org_name_that_is_a_prefix_of_a_queue_of_default_is_refused(
    db: Tenant, conn: "asyncpg.Connection[Any]", row: str
) -> None:
    """Queues created by the previous version may have such names."""
    await conn.execute(row)
    with pytest.raises(Conflict, match="org default has a queue 'acme/mail'"):
        await orgs.create(db, "acme")
    await orgs.create(db, "acm")


async def test_the_default_org_cannot_be_disabled_and_an_unknown_org_is_not_found(db: Tenant) -> None:
    with pytest.raises(Conflict, match="org default cannot be disabled"):
        await orgs.disable(db, "default")
    for change in (orgs.disable, orgs.enable):
        with pytest.raises(NotFound, match="no org nobody"):
            await change(db, "nobody")
    assert await entries(db) == []
