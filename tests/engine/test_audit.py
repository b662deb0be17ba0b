"""The audit log: every action on request has an entry with its actor; partitions are created ahead, old ones
dropped."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.engine.harness import ManualWorker
from windlass.core.jobs.job import Failed
from windlass.core.jobs.spec import JobSpec
from windlass.engine import quarantine, upkeep, workflows
from windlass.engine.database import Tenant
from windlass.engine.events import subscriptions
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters, queues, schemas
from windlass.engine.jobs.dead_letters import DeadLetterFilter
from windlass.engine.orgs import audit
from windlass.engine.quarantine import Kind
from windlass.engine.runs import control as runs
from windlass.engine.runs import search, start
from windlass.engine.runs.search import RunQuery
from windlass.engine.runs.start import RunSpec
from windlass.engine.schedules import workflow as schedules
from windlass.engine.workers import registry
from windlass.errors import Conflict, NotFound
from windlass.testing import Clock

SPEC = JobSpec(type="a.b.v1", max_attempts=1)
NIGHTLY = {"name": "nightly", "trigger": {"cron": "0 3 * * *"}, "tasks": {"wait": {"sleep": "1h"}}}
MONTHS = """select relname from pg_inherits join pg_class on oid = inhrelid
 where inhparent = 'windlass.audit'::regclass and relname ~ '_[0-9]{6}$' order by 1"""


@pytest.fixture
def ci(db: Tenant) -> Tenant:
    return db.tenant(actor="key:ci")


async def entries(db: Tenant) -> list[tuple[str, str | None, dict[str, Any]]]:
    rows = (await audit.list_(db, limit=100)).items
    assert {row.actor for row in rows} <= {"key:ci"}
    return [(row.action, row.object, row.data) for row in reversed(rows)]


async def test_changes_to_workflows_and_schedules_are_audited(ci: Tenant) -> None:
    await workflows.publish_many(ci, [NIGHTLY])
    await workflows.publish_many(ci, [NIGHTLY])  # unchanged
    await workflows.enable(ci, "nightly", False)
    await workflows.enable(ci, "nightly")
    await schedules.pause(ci, "nightly", reason="stock-taking")
    await schedules.resume(ci, "nightly")
    run = await schedules.run_now(ci, "nightly")
    await workflows.delete(ci, "nightly")
    assert await entries(ci) == [
        ("workflow.publish", "nightly", {"version": 1}),
        ("workflow.disable", "nightly", {}),
        ("workflow.enable", "nightly", {}),
        ("schedule.pause", "nightly", {"reason": "stock-taking"}),
        ("schedule.resume", "nightly", {}),
        ("schedule.run", "nightly", {"run": str(run)}),
        ("workflow.delete", "nightly", {}),
    ]


async def test_publishing_many_workflows_is_recorded_for_each_that_changed(ci: Tenant) -> None:
    documents = [{"name": name, "tasks": {"wait": {"sleep": "1h"}}} for name in ("a", "b", "c")]
    await workflows.publish_many(ci, documents[:2])
    await workflows.publish_many(ci, [documents[0], documents[1] | {"tasks": {"wait": {"sleep": "2h"}}}, documents[2]])
    logged = await entries(ci)
    assert sorted(logged[:2]) == [("workflow.publish", name, {"version": 1}) for name in ("a", "b")]
    assert sorted(logged[2:]) == [("workflow.publish", "b", {"version": 2}), ("workflow.publish", "c", {"version": 1})]


async def test_single_and_bulk_cancellations_of_runs_are_audited(ci: Tenant) -> None:
    await workflows.publish_many(ci, [{"name": "slow", "tasks": {"wait": {"sleep": "1h"}}}])
    first, *rest = await start.start(ci, "slow", [RunSpec()] * 3)
    await runs.cancel(ci, first)
    await search.cancel(ci, RunQuery(workflow="slow", labels={}))
    assert len(rest) == 2
    assert (await entries(ci))[1:] == [
        ("run.cancel", str(first), {"workflow": "slow"}),
        ("run.cancel", None, {"filter": {"workflow": "slow"}, "count": 2}),
    ]


async def test_changes_to_jobs_queues_and_dead_letters_are_audited(ci: Tenant) -> None:
    first, second, dead = await jobs.submit(ci, [SPEC] * 3)
    await jobs.cancel(ci, first, reason="enough")
    await jobs.reopen(ci, first)
    await jobs.cancel_many(ci, [first, second])
    worker = await ManualWorker.registered(ci)
    [job] = await worker.take()
    assert job.id == dead
    await worker.end(job, Failed({"type": "E", "message": "no"}))
    await dead_letters.retry(ci, DeadLetterFilter(type="a.%"))
    await dead_letters.drop(ci, DeadLetterFilter(queue="default"))
    await jobs.delete(ci, dead)
    await queues.pause(ci, "mail")
    await queues.resume(ci, "mail")
    await queues.set_depth_limit(ci, "mail", max_depth=5, config={})
    assert await entries(ci) == [
        ("job.cancel", str(first), {"reason": "enough"}),
        ("job.retry", str(first), {}),
        ("job.cancel", None, {"count": 2, "jobs": sorted(map(str, (first, second)))}),
        ("dead_letter.retry", None, {"filter": {"type": "a.%"}, "count": 1}),
        ("dead_letter.drop", None, {"filter": {"queue": "default", "of_runs": False}, "count": 0}),
        ("job.delete", str(dead), {}),
        ("queue.pause", "mail", {}),
        ("queue.resume", "mail", {}),
        ("queue.limit", "mail", {"max_depth": 5}),
    ]


async def test_changes_to_subscriptions_schemas_workers_and_the_quarantine_are_audited(ci: Tenant) -> None:
    made, secret = await subscriptions.create(ci, {"url": "https://example.com/x", "events": ["job.completed"]})
    await subscriptions.change(ci, made.id, {"active": False})
    await subscriptions.rotate(ci, made.id)
    await subscriptions.remove(ci, made.id)
    await schemas.register(ci, "a.b", "1.0.0", {"type": "array"})
    await schemas.remove(ci, "a.b", "1.0.0")
    worker = await ManualWorker.registered(ci)
    await registry.direct(ci, worker.name, "quiet")
    await quarantine.set_aside(ci, Kind.RUN, str(uuid4()), ValueError("x"))
    [entry] = await quarantine.list_(ci, limit=1)
    await quarantine.retry_now(ci, Kind.RUN, entry.key)
    logged = await entries(ci)
    assert [(action, object_) for action, object_, _ in logged] == [
        *((f"subscription.{word}", str(made.id)) for word in ("create", "change", "rotate", "delete")),
        ("schema.register", "a.b"),
        ("schema.delete", "a.b"),
        ("worker.direct", worker.name),
        ("quarantine.retry", entry.key),
    ]
    assert secret not in str(logged)


@pytest.mark.parametrize(
    "act",
    [
        lambda db: jobs.cancel(db, uuid4()),
        lambda db: jobs.delete(db, uuid4()),
        lambda db: runs.cancel(db, uuid4()),
        lambda db: workflows.delete(db, "nothing"),
        lambda db: schedules.pause(db, "nothing"),
        lambda db: registry.direct(db, "nothing", "quiet"),
        lambda db: subscriptions.remove(db, uuid4()),
    ],
)
async def test_a_failed_action_has_no_audit_entry(ci: Tenant, act: Callable[[Tenant], Awaitable[object]]) -> None:
    with pytest.raises((NotFound, Conflict)):
        await act(ci)
    assert await entries(ci) == []


async def test_audit_entries_cannot_be_changed_or_deleted(ci: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    await queues.pause(ci, "mail")
    for statement in ("update windlass.audit set actor = 'me'", "delete from windlass.audit"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="never change"):
            await conn.execute(statement)
    assert len(await entries(ci)) == 1


async def test_monthly_partitions_are_created_ahead_and_dropped_as_a_whole(
    ci: Tenant, conn: "asyncpg.Connection[Any]", clock: Clock
) -> None:
    clock.set(datetime(2031, 1, 31, 23, tzinfo=UTC))
    await queues.pause(ci, "mail")  # January has no partition yet: the row goes to the default one and moves later
    await upkeep.tend_audit(ci, age=timedelta(days=400))
    assert (await months(conn))[-3:] == ["audit_203101", "audit_203102", "audit_203103"]
    assert await conn.fetchval("select count(*) from windlass.audit_203101") == 1
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await conn.execute("delete from windlass.audit")
    clock.set(datetime(2031, 2, 1, tzinfo=UTC) + timedelta(days=399))
    await upkeep.tend_audit(ci, age=timedelta(days=400))
    assert (len(await entries(ci)), (await months(conn))[0]) == (1, "audit_203101")
    clock.move(timedelta(days=1))
    await upkeep.tend_audit(ci, age=None)
    assert len(await entries(ci)) == 1
    await upkeep.tend_audit(ci, age=timedelta(days=400))
    assert (await entries(ci), (await months(conn))[0]) == ([], "audit_203102")


async def months(conn: "asyncpg.Connection[Any]") -> list[str]:
    return [row[0] for row in await conn.fetch(MONTHS)]
