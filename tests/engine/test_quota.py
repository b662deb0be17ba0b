"""Quotas: a request beyond a plan's limits is refused as a whole, with the limit and the usage."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.engine.harness import ManualWorker, begin, node, publish, reasons, words
from tests.engine.schedule_harness import NOON, asked, runs_of, schedule_of, timed
from windlass.core.compositions import Composition, Part
from windlass.core.cron.schedule import Overlap
from windlass.core.jobs.spec import JobSpec, JobTemplate
from windlass.core.workflows.step import ChildAction, Step
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine import workflows
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import submit
from windlass.engine.orgs import plans, usage
from windlass.engine.runs import control as runs
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.errors import QuotaExceeded
from windlass.testing import Clock

Connection = Any


async def limit(db: Tenant, **limits: Any) -> None:
    await plans.put(db, "small", limits)
    await plans.assign(db, db.org, "small")


def jobs_of(count: int, **options: Any) -> list[JobSpec]:
    return [JobSpec(type="a.b.v1", payload={}, **options)] * count


async def count(conn: Connection, table: str = "workflow.workflow_run") -> int:
    number: int = await conn.fetchval(f"select count(*) from {table}")
    return number


async def test_a_batch_beyond_the_monthly_limit_is_refused_as_a_whole_and_a_smaller_one_is_not(
    db: Tenant, conn: Connection
) -> None:
    await limit(db, executions_per_month=5)
    await jobs.submit(db, jobs_of(3))
    with pytest.raises(QuotaExceeded) as refused:
        await jobs.submit(db, jobs_of(3))
    error = refused.value
    assert (error.code, error.limit, error.used) == ("executions_per_month", 5, 3)
    now = datetime.now(UTC)
    assert error.resets_at is not None
    assert (error.resets_at.day, error.resets_at.hour) == (1, 0)
    assert timedelta() < error.resets_at - now <= timedelta(days=31)
    await submit.push(db, jobs_of(2))
    with pytest.raises(QuotaExceeded, match=r"org default has used 5 of 5 executions of this month"):
        await submit.push(db, jobs_of(1))
    assert await count(conn) == 5


async def test_usage_is_reset_at_the_start_of_the_next_month(db: Tenant, clock: Clock) -> None:
    clock.set(datetime(2030, 6, 30, 23, 59, tzinfo=UTC))
    await limit(db, executions_per_month=2)
    await usage.count(db)
    await jobs.submit(db, jobs_of(2))
    await usage.count(db)
    with pytest.raises(QuotaExceeded) as refused:
        await jobs.submit(db, jobs_of(1))
    assert refused.value.resets_at == datetime(2030, 7, 1, tzinfo=UTC)
    assert refused.value.retry_after == 60
    clock.move(timedelta(minutes=1))
    db.allowances.forget()
    await jobs.submit(db, jobs_of(2))


async def test_a_job_with_a_known_idempotency_key_is_never_refused(db: Tenant, conn: Connection) -> None:
    await limit(db, executions_per_month=1)
    [first] = await jobs.submit(db, jobs_of(1, idempotency_key="k"))
    assert await jobs.submit(db, jobs_of(1, idempotency_key="k")) == [first]
    with pytest.raises(QuotaExceeded):
        await jobs.submit(db, [*jobs_of(1, idempotency_key="k"), *jobs_of(1)])
    assert await count(conn) == 1


async def test_counted_executions_are_not_counted_twice(db: Tenant) -> None:
    await usage.count(db)
    await limit(db, executions_per_month=4)
    await jobs.submit(db, jobs_of(2))
    await usage.count(db)
    db.allowances.limited["default"].admitted = {0: 2}  # admitted long before the count
    db.allowances.forget()
    await jobs.submit(db, jobs_of(2))
    with pytest.raises(QuotaExceeded) as refused:
        await jobs.submit(db, jobs_of(1))
    assert refused.value.used == 4


async def test_runs_count_as_executions_and_a_known_key_does_not(db: Tenant, conn: Connection) -> None:
    await publish(db, node("a"))
    await limit(db, executions_per_month=1)
    first = await begin(db, idempotency_key="k")
    assert await begin(db, idempotency_key="k") == first
    with pytest.raises(QuotaExceeded):
        await begin(db)
    assert await count(conn, "windlass.run") == 1


async def test_a_child_run_beyond_the_monthly_limit_fails_its_step_with_the_reason(db: Tenant) -> None:
    await publish(db, node("a"), name="child")
    await publish(db, Step(name="sub", action=ChildAction("child", {})), name="w")
    await limit(db, executions_per_month=1)
    run = await begin(db)
    await ManualWorker(db).play()
    assert await words(db, run) == {"sub": "failed"}
    [why] = await reasons(db, run, "sub")
    assert "has used 1 of 1 executions" in why


async def test_each_job_of_a_composition_counts_as_an_execution(db: Tenant, conn: Connection) -> None:
    await limit(db, executions_per_month=2)
    parts = (Part(type="a.b.v1"), Part(type="a.b.v1"), Part(type="a.b.v1"))
    with pytest.raises(QuotaExceeded) as refused:
        await compositions.create(db, Composition(kind=CompositionKind.GROUP, parts=parts))
    assert refused.value.used == 0
    assert await count(conn) == 0
    await compositions.create(db, Composition(kind=CompositionKind.GROUP, parts=parts[:2]))


async def test_the_limit_of_concurrent_runs_is_exact_under_concurrent_starts(
    db: Tenant, other_db: Tenant, conn: Connection
) -> None:
    await publish(db, node("a"))
    await limit(db, runs_at_once=3)
    answers = await asyncio.gather(*(begin(of) for _ in range(10) for of in (db, other_db)), return_exceptions=True)
    refused = [answer for answer in answers if isinstance(answer, QuotaExceeded)]
    assert (len(refused), len(answers)) == (17, 20)
    assert {(error.code, error.limit, error.used, error.retry_after) for error in refused} == {
        ("runs_at_once", 3, 3, 1.0)
    }
    live = [answer for answer in answers if not isinstance(answer, BaseException)]
    await runs.cancel(db, live[0])
    await begin(db)  # immediately: free slots are counted on demand
    assert await count(conn, "windlass.run") == 4


async def test_child_runs_do_not_count_towards_the_limit_of_concurrent_runs(db: Tenant) -> None:
    await publish(db, node("a"), name="child")
    await publish(db, Step(name="sub", action=ChildAction("child", {})), name="w")
    await limit(db, runs_at_once=1)
    run = await begin(db)
    await ManualWorker(db).play()
    assert await words(db, run) == {"sub": "succeeded"}


async def test_a_tick_beyond_the_limit_is_skipped_with_the_reason(db: Tenant, conn: Connection, clock: Clock) -> None:
    clock.set(NOON)
    await workflows.publish(db, timed())
    await limit(db, runs_at_once=1)
    for _ in range(2):
        clock.move(timedelta(hours=1))
        await workflow_schedules.tick(db)
    assert len(await runs_of(conn)) == 1
    row = await schedule_of(conn)
    assert row is not None
    assert (row["skipped_at"], row["next_run_at"]) == (NOON + timedelta(hours=2), NOON + timedelta(hours=3))
    assert "its plan allows 1 at a time" in row["skipped_reason"]


async def test_a_skipped_tick_replaces_nothing(db: Tenant, conn: Connection, clock: Clock) -> None:
    clock.set(NOON)
    await workflows.publish(db, timed(overlap="replace"))
    clock.move(timedelta(hours=1))
    await workflow_schedules.tick(db)
    await limit(db, executions_per_month=0)
    clock.move(timedelta(hours=1))
    await workflow_schedules.tick(db)
    assert [row["state"] for row in await runs_of(conn)] == ["running"]


async def test_a_tick_of_an_open_job_spec_cron_beyond_the_limit_is_skipped(
    db: Tenant, conn: Connection, clock: Clock
) -> None:
    clock.set(NOON)
    spec = JobSpec(type="a.b.v1", payload=[])
    options: dict[str, Any] = {"expression": "0 * * * *", "timezone": "UTC", "overlap": Overlap.ALLOW, "asked": {}}
    await ojs_schedules.put(db, "hourly", **options, template=JobTemplate(spec))
    await limit(db, executions_per_month=0)
    clock.move(timedelta(hours=1))
    assert await ojs_schedules.tick(db) == 1
    assert await count(conn) == 0
    assert "has used 0 of 0 executions" in await conn.fetchval("select reason from windlass.cron_event")
    await limit(db, schedules=False)
    with pytest.raises(QuotaExceeded, match="cron 'daily' is a schedule, and the plan of org default has no schedules"):
        await ojs_schedules.put(db, "daily", **options, template=JobTemplate(spec))


async def test_publishing_is_limited_by_workflows_steps_and_triggers(db: Tenant, conn: Connection) -> None:
    await workflows.publish(db, asked("a"))
    await limit(db, workflows=2, steps_per_workflow=2, schedules=False)
    with pytest.raises(QuotaExceeded, match="workflow 'w' has 3 steps, the plan of org default allows 2"):
        await publish(db, node("a"), node("b"), node("c"))
    with pytest.raises(QuotaExceeded) as refused:
        await workflows.publish(db, timed())
    assert (refused.value.code, refused.value.retry_after) == ("schedules", None)
    with pytest.raises(QuotaExceeded) as refused:
        await workflows.publish_many(db, [asked("b"), asked("c")])
    assert (refused.value.code, refused.value.limit, refused.value.used) == ("workflows", 2, 1)
    with pytest.raises(QuotaExceeded, match="its plan allows 2"):
        await workflows.preview_many(db, [asked("b"), asked("c")])
    assert await count(conn, "windlass.workflow") == 1
    await workflows.publish(db, asked("b"))
    await publish(db, node("x"), name="a")  # a new version of what is there
    await workflows.delete(db, "b")
    await workflows.publish(db, asked("c"))


async def test_concurrent_publishers_do_not_exceed_the_limit_of_workflows(db: Tenant, other_db: Tenant) -> None:
    await limit(db, workflows=1)
    answers = await asyncio.gather(
        *(workflows.publish(of, asked(f"w{n}")) for n in range(4) for of in (db, other_db)), return_exceptions=True
    )
    published = {answer.name for answer in answers if not isinstance(answer, BaseException)}
    assert len(published) == 1


async def test_an_org_with_more_workflows_than_its_plan_allows_keeps_them(db: Tenant) -> None:
    for name in ("a", "b", "c"):
        await workflows.publish(db, asked(name))
    await limit(db, workflows=1)
    await publish(db, node("x"), name="a")
    with pytest.raises(QuotaExceeded):
        await workflows.publish(db, asked("d"))


async def test_the_limits_of_one_org_do_not_apply_to_another(db: Tenant, conn: Connection) -> None:
    await conn.execute("insert into windlass.org (name) values ('acme')")
    acme = db.tenant("acme")
    await plans.put(db, "small", {"executions_per_month": 1})
    await plans.assign(db, "acme", "small")
    await jobs.submit(acme, jobs_of(1))
    with pytest.raises(QuotaExceeded, match="org acme"):
        await jobs.submit(acme, jobs_of(1))
    await jobs.submit(db, jobs_of(10))


async def test_an_org_without_limits_causes_no_quota_queries(db: Tenant) -> None:
    await jobs.submit(db, jobs_of(1))
    statements: list[str] = []
    async with db.once() as conn:
        conn.add_query_logger(lambda record: statements.append(record.query))
    await publish(db, node("a"))
    await jobs.submit(db, jobs_of(1))
    await begin(db)
    await asyncio.sleep(0)  # the driver logs in the next iteration of the event loop
    assert any("insert into windlass.run" in text for text in statements)
    assert not [text for text in statements if "windlass.plan" in text or "advisory" in text]
