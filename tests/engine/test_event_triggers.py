"""Workflows that events start: one run for each event, exactly once."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import tick
from windlass.core.definition.parser import parse
from windlass.core.workflows.workflow import EventTrigger
from windlass.engine import messages, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect, requests, search
from windlass.errors import InvalidWorkflow

TASKS = {"ship": {"job": "shop.ship.v1", "input": {"key": "{{trigger.headers.event-key}}", "cents": "{{input.cents}}"}}}


async def deploy(db: Tenant, name: str = "order", **trigger: str) -> None:
    await workflows.publish(db, parse({"name": name, "trigger": trigger, "tasks": TASKS}))


async def started(db: Tenant) -> list[UUID]:
    """Run the loops; return the runs, oldest first."""
    await tick(db)
    return sorted(row.id for row in (await search.list_(db)).runs)


async def test_an_event_starts_a_run_with_its_payload_as_the_input(db: Tenant) -> None:
    await deploy(db, event="paid")
    await messages.publish(db, "paid", key="42", payload={"cents": 995}, id_="p1")
    await messages.publish(db, "paid", key="42", payload={"cents": 995}, id_="p1")
    await messages.publish(db, "refunded")
    [run] = await started(db)
    assert (await runs.get(db, run)).input == {"cents": 995}
    assert (await inspect.snapshot(db, run)).trigger.kind == "event"
    async with db.once() as conn:
        payload = await conn.fetchval("select payload from workflow.workflow_run where run_id = $1", run)
    assert payload == '{"key": "42", "cents": 995}'


async def test_an_event_starts_a_run_of_every_workflow_that_names_it(db: Tenant) -> None:
    await deploy(db, "order", event="paid")
    await deploy(db, "mail", event="paid")
    await messages.publish(db, "paid", payload={"cents": 1})
    assert {(await runs.get(db, run)).workflow for run in await started(db)} == {"order", "mail"}


async def test_only_events_that_satisfy_the_if_condition_start_a_run(db: Tenant) -> None:
    await deploy(db, event="paid", **{"if": "input.cents > 1000 && trigger.headers.event-key == 'eu'"})
    for key, cents in (("eu", 1000), ("us", 1001), ("eu", 1001)):
        await messages.publish(db, "paid", key=key, payload={"cents": cents})
    await messages.publish(db, "paid", key="eu", payload="no object")
    [run] = await started(db)
    assert (await runs.get(db, run)).input == {"cents": 1001}


async def test_concurrent_loops_start_one_run_for_each_event(db: Tenant, other_db: Tenant) -> None:
    await deploy(db, event="paid")
    for number in range(20):
        await messages.publish(db, "paid", key=str(number), payload={"cents": number})
    for loop in (messages.route, requests.serve):
        await asyncio.gather(*(loop(each) for each in (db, other_db) for _ in range(3)))
    inputs = [(await runs.get(db, run)).input["cents"] for run in await started(db)]
    assert sorted(inputs) == list(range(20))


async def test_a_workflow_that_is_disabled_deleted_or_has_another_trigger_is_not_started(db: Tenant) -> None:
    for name in ("disabled", "deleted", "changed", "later"):
        await deploy(db, name, event="paid")
    await workflows.enable(db, "disabled", False)
    await workflows.delete(db, "deleted")
    await deploy(db, "changed", event="refunded")
    await messages.publish(db, "paid", payload={"cents": 1})
    await messages.route(db)
    await workflows.enable(db, "later", False)  # after the event, before its run
    assert await started(db) == []
    await workflows.enable(db, "disabled", True)
    assert await started(db) == []
    await messages.publish(db, "paid", payload={"cents": 2})
    assert len(await started(db)) == 1


async def test_an_event_starts_nothing_in_another_org(db: Tenant) -> None:
    await deploy(db, event="paid")
    await messages.publish(db.tenant("acme"), "paid", payload={"cents": 1})
    assert await started(db) == []


@pytest.mark.parametrize(
    ("trigger", "mistake"),
    [
        ({"event": ""}, "trigger.event: it is ''"),
        ({"event": "paid", "when": "true"}, "trigger.when: unknown key 'when'"),
        ({"event": "paid", "if": "tasks.ship.status == 'x'"}, "trigger.if: tasks.ship.status is not known here"),
        ({"event": "paid", "if": "input.cents >"}, "trigger.if: "),
    ],
)
def test_an_invalid_event_trigger_is_refused_with_its_field(trigger: dict[str, Any], mistake: str) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        parse({"name": "order", "trigger": trigger, "tasks": TASKS})
    assert str(refused.value).startswith(mistake)


def test_an_event_trigger_is_part_of_the_document() -> None:
    workflow = parse({"name": "order", "trigger": {"event": "paid", "if": "input.cents > 1"}, "tasks": TASKS})
    assert workflow.trigger == EventTrigger("paid", "input.cents > 1")
    assert parse(workflow.to_document()) == workflow
