"""Steps that wait for an approval: decisions, permissions, and the effects of timeouts, cancel and retry."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.engine.fake_services import play, run_of
from tests.engine.harness import letters, reasons, state, tick
from windlass.core.approvals import Decision
from windlass.core.events.ojs import REQUESTED
from windlass.core.orgs import Role
from windlass.engine import approvals, upkeep, workflows
from windlass.engine.database import Tenant
from windlass.engine.events import ojs, stream, subscriptions
from windlass.engine.orgs import audit
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect, sweep
from windlass.errors import Conflict, Forbidden, Gone, Invalid, InvalidWorkflow, NotFound
from windlass.schemas.approvals import Approval
from windlass.testing import Clock

Connection = Any
HOUR = timedelta(hours=1)
FORM = {"properties": {"amount": {"type": "number", "maximum": 100}}, "required": ["amount"]}
PAY = {"needs": ["ok"], "job": "test.pay.v1", "input": {"decision": "{{tasks.ok.body}}"}}
APPROVE, REJECT = Decision.APPROVE, Decision.REJECT


async def waiting(db: Tenant, **words: Any) -> UUID:
    """Start a run whose step `ok` waits for a decision."""
    return await run_of(
        db, input={"order": 42}, ok={"approve": {"message": "Refund order {{trigger.body.order}}?", **words}}, pay=PAY
    )


async def only(db: Tenant, **filters: Any) -> Approval:
    [approval] = (await approvals.list_(db, **filters)).items
    return approval


async def decide(db: Tenant, decision: Decision, **words: Any) -> Approval:
    """Decide the only open approval."""
    return await approvals.decide(db, UUID((await only(db, states=["open"])).id), decision, **words)


def person(db: Tenant, role: Role) -> Tenant:
    return db.database.tenant(db.org, actor=f"user:{role}@example.com", scopes=role.scopes)


async def test_a_step_requests_a_decision_and_waits_for_it(db: Tenant) -> None:
    run = await waiting(db, form=FORM, timeout="1h")
    approval = await only(db)
    assert (approval.run_id, approval.task, approval.state) == (str(run), "ok", "open")
    assert (approval.message, approval.form, approval.roles) == ("Refund order 42?", FORM, ["operator"])
    assert approval.until == approval.requested_at + HOUR
    assert await letters(db, run) == "a."
    assert replace(await approvals.get(db, UUID(approval.id)), links=None) == approval


async def test_an_approval_is_the_output_of_its_step_and_is_in_the_audit_log(db: Tenant) -> None:
    run = await waiting(db, form=FORM)
    ann = person(db, Role.OPERATOR)
    approval = await decide(ann, APPROVE, values={"amount": 12.5}, comment="as agreed")
    worker = await play(db)
    output = await runs.step_output(db, run, "ok")
    assert output.pop("at")
    assert output == {"approved": True, "by": ann.actor, "values": {"amount": 12.5}, "comment": "as agreed"}
    assert worker.payloads["pay"][0]["decision"]["values"] == {"amount": 12.5}
    assert (await state(db, run), approval.state, approval.may_decide) == ("completed", "approved", False)
    [entry] = (await audit.list_(db, action="approval.")).items
    assert (entry.actor, entry.action, entry.object) == (ann.actor, "approval.approve", approval.id)
    assert entry.data == {"run": str(run), "task": "ok", "values": {"amount": 12.5}, "comment": "as agreed"}


async def test_a_rejection_fails_the_step_with_its_reason_and_activates_failure_edges(db: Tenant) -> None:
    report = {"needs": {"ok": "failure"}, "job": "test.report.v1", "input": {"why": "{{tasks.ok.body.comment}}"}}
    run = await run_of(db, ok={"approve": "Ship it?"}, report=report)
    await decide(person(db, Role.ADMIN), REJECT, comment="too expensive")
    worker = await play(db)
    assert await letters(db, run) == "fs"
    assert worker.payloads["report"] == [{"why": "too expensive"}]
    assert "rejected by user:admin@example.com: too expensive" in await reasons(db, run, "ok")
    assert (await runs.step_output(db, run, "ok"))["approved"] is False


async def test_a_decision_is_made_once(db: Tenant) -> None:
    await waiting(db)
    approval = await decide(db, APPROVE)
    for decision in Decision:
        with pytest.raises(Conflict, match="was already decided: approved by windlass"):
            await approvals.decide(db, UUID(approval.id), decision)
    with pytest.raises(NotFound):
        await approvals.decide(db, uuid4(), APPROVE)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        (None, "values.amount"),
        ({}, "values.amount"),
        ({"amount": "much"}, "values.amount"),
        ({"amount": 101}, "values.amount"),
        ([1], "values"),
    ],
)
async def test_values_that_do_not_match_the_form_are_refused(db: Tenant, values: Any, field: str) -> None:
    run = await waiting(db, form=FORM)
    with pytest.raises(Invalid) as refused:
        await decide(db, APPROVE, values=values)
    assert refused.value.field == field
    assert (await letters(db, run), (await only(db)).state) == ("a.", "open")


async def test_a_rejection_needs_no_values_and_an_approval_without_a_form_takes_none(db: Tenant) -> None:
    await waiting(db)
    with pytest.raises(Invalid, match="this approval has no form"):
        await decide(db, APPROVE, values={"amount": 1})
    await decide(db, REJECT)
    await waiting(db, form=FORM)
    await decide(db, REJECT)


@pytest.mark.parametrize(
    ("roles", "may", "may_not"),
    [
        (None, Role.OPERATOR, Role.VIEWER),
        (["viewer"], Role.VIEWER, None),
        (["developer"], Role.ADMIN, Role.OPERATOR),
        (["admin", "developer"], Role.DEVELOPER, Role.OPERATOR),
    ],
)
async def test_the_listed_roles_and_higher_roles_may_decide(
    db: Tenant, roles: Any, may: Role, may_not: Role | None
) -> None:
    await waiting(db, roles=roles)
    if may_not is not None:
        assert not (await only(person(db, may_not))).may_decide
        with pytest.raises(Forbidden, match=r"may not decide this approval: it needs the role of an? "):
            await decide(person(db, may_not), APPROVE)
    assert (await only(person(db, may))).may_decide
    assert (await decide(person(db, may), APPROVE)).state == "approved"


async def test_without_a_decision_in_time_the_step_times_out(db: Tenant, clock: Clock) -> None:
    run = await waiting(db, timeout="1h")
    approval = await only(db)
    clock.move(HOUR)
    await sweep.wake(db)
    assert (await letters(db, run), (await only(db)).state) == ("tk", "expired")
    with pytest.raises(Gone, match="its timeout has expired"):
        await approvals.decide(db, UUID(approval.id), APPROVE)


@pytest.mark.parametrize(("on_timeout", "outcome"), [("approve", "sa"), ("reject", "fk"), ("fail", "tk")])
async def test_on_timeout_approves_rejects_or_fails_an_undecided_step(
    db: Tenant, clock: Clock, on_timeout: str, outcome: str
) -> None:
    run = await waiting(db, timeout="1h", on_timeout=on_timeout)
    clock.move(HOUR)
    await sweep.wake(db)
    assert await letters(db, run) == outcome
    if on_timeout != "fail":
        assert (await runs.step_output(db, run, "ok"))["by"] == "timeout"


async def test_an_escalation_moves_the_decision_to_other_roles_and_then_expires(db: Tenant, clock: Clock) -> None:
    run = await waiting(db, timeout="1h", on_timeout={"escalate": {"roles": ["admin"], "timeout": "1h"}})
    clock.move(HOUR)
    await sweep.wake(db)
    approval = await only(db, states=["open"])
    assert approval.escalated_at is not None
    assert (approval.roles, approval.until) == (["admin"], approval.escalated_at + HOUR)
    assert "there was no decision in time: an admin may decide from now on" in await reasons(db, run, "ok")
    with pytest.raises(Forbidden, match="the role of an admin"):
        await decide(person(db, Role.OPERATOR), APPROVE)
    clock.move(HOUR)
    await sweep.wake(db)
    assert (await letters(db, run), (await only(db)).state) == ("tk", "expired")


async def test_reminders_repeat_until_the_decision(db: Tenant, clock: Clock) -> None:
    run = await waiting(db, remind="10m", timeout="1h")
    for _ in range(2):
        clock.move(timedelta(minutes=10))
        await sweep.wake(db)
    view = await runs.view(db, run)
    assert [event.word for event in view.events].count("reminded") == 2
    assert (await only(db)).reminded_at is not None
    await decide(db, APPROVE)
    clock.move(timedelta(minutes=10))
    await sweep.wake(db)
    assert [event.word for event in (await runs.view(db, run)).events].count("reminded") == 2


async def test_a_link_expires_with_its_approval(db: Tenant, clock: Clock) -> None:
    await waiting(db, timeout="1h")
    links = (await approvals.get(db, UUID((await only(db)).id))).links
    assert links is not None
    token = links.approve.rpartition("/")[2]
    assert (await approvals.open_link(db.database, token))[1].decision is APPROVE
    clock.move(HOUR)
    with pytest.raises(Gone, match="this link has expired"):
        await approvals.open_link(db.database, token)
    await sweep.wake(db)
    with pytest.raises(Gone, match="its approval has ended"):
        await approvals.open_link(db.database, token)


async def test_reminders_to_subscribers_contain_links_and_the_event_stream_contains_none(
    db: Tenant, clock: Clock
) -> None:
    await subscriptions.create(db, {"url": "https://mail.example.com/hook", "events": ["approval.requested"]})
    at = await stream.here(db)
    await waiting(db, remind="10m")
    assert [event["again"] for event in await delivered(db)] == [False]
    clock.move(timedelta(minutes=10))
    await sweep.wake(db)
    first, second = await delivered(db)
    assert (first["message"], second["again"]) == ("Refund order 42?", True)
    assert second["links"]["approve"].startswith("http")
    events = [event for event, _ in await ojs.of_batch(db.database, await stream.since(db, at))]
    requests = [event.data for event in events if event.type == "approval.requested"]
    assert [("links" in data, data["task"]) for data in requests] == [(False, "ok")] * 2


async def delivered(db: Tenant) -> list[dict[str, Any]]:
    """Return the data of all events that were enqueued for subscribers, oldest first."""
    while (await subscriptions.feed(db.database)).deliveries == 0:
        pass
    async with db.begin() as conn:
        rows = await conn.fetch(
            "select payload -> 'event' -> 'data' from workflow.workflow_run where type = $1 order by created_at, id",
            "windlass.webhook.v1",
        )
    return [json.loads(row[0]) for row in rows]


async def test_a_cancelled_run_closes_its_approvals(db: Tenant) -> None:
    run = await waiting(db, timeout="1h")
    approval = await only(db)
    await runs.cancel(db, run)
    assert (await only(db)).state == "cancelled"
    with pytest.raises(Gone, match="its run was stopped"):
        await approvals.decide(db, UUID(approval.id), APPROVE)


async def test_a_retry_requests_another_decision(db: Tenant) -> None:
    run = await waiting(db)
    first = await decide(db, REJECT)
    await runs.retry(db, run)
    second = await decide(db, APPROVE)
    assert first.id != second.id
    await play(db)
    assert (await state(db, run), (await runs.step_output(db, run, "ok"))["approved"]) == ("completed", True)


async def test_a_message_without_a_value_fails_the_step(db: Tenant) -> None:
    run = await run_of(db, input={}, ok={"approve": "Refund {{trigger.body.order}}?"})
    assert await letters(db, run) == "f"
    assert (await approvals.list_(db)).items == []


async def test_the_explanation_of_a_run_names_the_role_whose_approval_it_waits_for(db: Tenant) -> None:
    run = await waiting(db, roles=["admin"], timeout="1h", remind="10m")
    until = (await only(db)).until
    assert until is not None
    _, explanation = await inspect.explanation(db, run)
    sentence = f"It waits for the approval of an admin, until {until:%Y-%m-%d %H:%M:%S}Z at the latest."
    assert sentence in str(explanation)


async def test_approvals_are_listed_in_pages_with_open_ones_first(db: Tenant) -> None:
    for _ in range(3):
        await waiting(db)
    closed = await decide_all_but_last(db)
    seen: list[str] = []
    page = await approvals.list_(db, limit=1)
    while page.items:
        seen += [approval.id for approval in page.items]
        page = await approvals.list_(db, limit=1, before=page.next)
    assert len(seen) == 3
    assert seen[1:] == sorted(closed, reverse=True)
    assert [a.id for a in (await approvals.list_(db, states=["approved"])).items] == seen[1:]
    with pytest.raises(Invalid, match="before is not a cursor of this list"):
        await approvals.list_(db, before="open.x")
    with pytest.raises(Invalid, match="state is 'done'"):
        await approvals.list_(db, states=["done"])


async def decide_all_but_last(db: Tenant) -> list[str]:
    first, second, _ = [approval.id for approval in (await approvals.list_(db)).items]
    return [(await approvals.decide(db, UUID(id_), APPROVE)).id for id_ in (first, second)]


async def test_the_fields_of_a_form_keep_their_order(db: Tenant) -> None:
    address = {"properties": {"street": {"type": "string"}, "city": {"type": "string"}, "zip": {"type": "string"}}}
    form = {"properties": {"reason": {"enum": ["b", "a"]}, "amount": {"type": "number"}, "to": address}, "required": []}
    at = await stream.here(db)
    run = await waiting(db, form=form)
    approval = await only(db)
    version = await workflows.get(db, (await runs.get(db, run)).workflow)
    [task] = [task for task in version.document["tasks"] if "approve" in task]
    events = [event for event, _ in await ojs.of_batch(db.database, await stream.since(db, at))]
    [event] = [event for event in events if event.type == REQUESTED]
    for stored in (approval.form, task["approve"]["form"], event.data["form"]):
        assert stored == form
        assert list(stored["properties"]) == ["reason", "amount", "to"]
        assert list(stored["properties"]["to"]["properties"]) == ["street", "city", "zip"]


async def test_publishing_a_form_that_is_not_a_valid_schema_is_refused(db: Tenant) -> None:
    with pytest.raises(InvalidWorkflow, match=r"tasks\.ok\.approve\.form\.properties\.amount\.type: ") as refused:
        await run_of(db, ok={"approve": {"message": "?", "form": {"properties": {"amount": {"type": "money"}}}}})
    assert refused.value.field == "tasks.ok.approve.form.properties.amount.type"


async def test_approvals_are_deleted_with_their_run(db: Tenant, clock: Clock) -> None:
    run = await waiting(db)
    await decide(db, REJECT)
    await tick(db)
    clock.move(timedelta(days=400))
    await upkeep.prune(db, age=timedelta(days=30))
    while await upkeep.drop_archives(db, age=timedelta(days=30)):
        pass
    assert (await approvals.list_(db, run_id=run)).items == []
