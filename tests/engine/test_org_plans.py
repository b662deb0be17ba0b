"""Plans: the limits of orgs, and their assignment."""

from typing import Any

import asyncpg
import pytest

from windlass.engine.database import Tenant
from windlass.engine.orgs import plans
from windlass.errors import Conflict, Invalid, NotFound

ENTRIES = "select actor, action, object, data::jsonb ->> 'plan' as plan from windlass.audit order by id"


async def test_the_initial_plans_match_the_tier_table(db: Tenant) -> None:
    free, pro, unlimited = await plans.list_(db)
    assert [(plan.name, plan.orgs) for plan in (free, pro, unlimited)] == [("free", 0), ("pro", 0), ("unlimited", 1)]
    assert (free.workflows, free.steps_per_workflow, free.runs_at_once) == (3, 5, 1)
    assert (free.executions_per_month, free.executions_at_once, free.schedules) == (10_000, 5, False)
    assert (pro.workflows, pro.steps_per_workflow, pro.runs_at_once) == (None, 20, 10)
    assert (pro.executions_per_month, pro.executions_at_once, pro.schedules) == (1_000_000, 5, True)


async def test_plans_are_created_changed_assigned_and_deleted_and_each_change_is_audited(
    db: Tenant, conn: "asyncpg.Connection[Any]"
) -> None:
    made = await plans.put(db, "team", {"workflows": 7, "schedules": False})
    assert (made.workflows, made.runs_at_once, made.schedules, made.orgs) == (7, None, False, 0)
    changed = await plans.put(db, "team", {"workflows": None, "runs_at_once": 2})
    assert (changed.workflows, changed.runs_at_once, changed.schedules) == (None, 2, False)
    await plans.assign(db, "default", "team")
    assert (await plans.get(db, "team")).orgs == 1
    with pytest.raises(Conflict, match="plan 'team' is used by default"):
        await plans.delete(db, "team")
    await plans.assign(db, "default", "unlimited")
    await plans.delete(db, "team")
    with pytest.raises(NotFound, match="no plan team"):
        await plans.get(db, "team")
    assert [tuple(row) for row in await conn.fetch(ENTRIES)] == [
        ("windlass", "plan.create", "team", None),
        ("windlass", "plan.change", "team", None),
        ("windlass", "org.plan", "default", "team"),
        ("windlass", "org.plan", "default", "unlimited"),
        ("windlass", "plan.delete", "team", None),
    ]


@pytest.mark.parametrize(
    ("name", "limits", "field"),
    [
        ("Free", {}, "name"),
        ("", {}, "name"),
        ("team", {"workflows": -1}, "workflows"),
        ("team", {"steps_per_workflow": 0}, "steps_per_workflow"),
        ("team", {"runs_at_once": True}, "runs_at_once"),
        ("team", {"executions_at_once": 2**31}, "executions_at_once"),
        ("team", {"executions_per_month": 2**63}, "executions_per_month"),
        ("team", {"schedules": None}, "schedules"),
        ("team", {"worflows": 1}, "worflows"),
    ],
)
async def test_an_invalid_plan_is_refused_with_its_field(
    db: Tenant, name: str, limits: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        await plans.put(db, name, limits)
    assert refused.value.field == field
    assert len(await plans.list_(db)) == 3


async def test_the_plan_of_new_orgs_cannot_be_limited_or_deleted(db: Tenant) -> None:
    with pytest.raises(Conflict, match="'unlimited' has no limits"):
        await plans.put(db, "unlimited", {"workflows": 1})
    with pytest.raises(Conflict, match="cannot be deleted"):
        await plans.delete(db, "unlimited")


async def test_unknown_orgs_and_plans_are_not_found(db: Tenant) -> None:
    with pytest.raises(NotFound, match="no org nobody"):
        await plans.assign(db, "nobody", "free")
    with pytest.raises(NotFound, match="no plan gold"):
        await plans.assign(db, "default", "gold")
    with pytest.raises(NotFound, match="no plan gold"):
        await plans.delete(db, "gold")
