"""The query for pending work of all loops has the conditions of the queries that do the work: reported work is done by
its loop and then no longer reported, and nothing else is reported."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.harness import begin, node, publish
from tests.engine.job_harness import submit, take
from tests.engine.schedule_harness import timed
from tests.engine.test_run_children import child
from tests.engine.upkeep_harness import by_sql, hold
from windlass.core.cron.schedule import Overlap
from windlass.core.jobs.spec import JobSpec, JobTemplate, Limit
from windlass.core.workflows.step import SleepAction
from windlass.engine import messages, quarantine, upkeep, workflows
from windlass.engine.database import Tenant
from windlass.engine.events import subscriptions
from windlass.engine.jobs import queues
from windlass.engine.jobs import submit as job_submit
from windlass.engine.orgs import usage
from windlass.engine.quarantine import Kind
from windlass.engine.runs import control as runs
from windlass.engine.runs import requests, sweep
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.upkeep import PendingWork
from windlass.engine.workers import remote, remote_reports
from windlass.engine.workers.remote import Fetch
from windlass.runtime.loops.background import retries
from windlass.runtime.loops.upkeep import DUTY
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any
NOW, MINUTE, HOUR = timedelta(), timedelta(minutes=1), timedelta(hours=1)
Create = Callable[[Tenant, Connection, Clock], Awaitable[object]]
Duty = Callable[[Tenant], Awaitable[int]]
CASES: dict[str, tuple[Create, Duty]] = {}


async def look(db: Tenant) -> PendingWork:
    return await upkeep.pending_work(db, duty=DUTY, kinds=list(retries(db)))


async def reported(db: Tenant) -> set[str]:
    """Return the names of the pending work that the query reports."""
    work = await look(db)
    found = {f"jobs.{name}" for name, value in work.jobs._asdict().items() if value}
    found |= {f"runs.{name}" for name, value in work.runs._asdict().items() if value}
    waits = {"timers": work.timers._asdict(), "schedules": work.schedules._asdict()}
    for part, values in waits.items():
        found |= {
            f"{part}.{name}"
            for name, value in values.items()
            if value is True or (isinstance(value, timedelta) and value <= NOW)
        }
    return found


def case(name: str, duty: Duty) -> Callable[[Create], Create]:
    """Register how to create work of a kind, and the duty that does it."""

    def register(create: Create) -> Create:
        CASES[f"{name}, {create.__name__}"] = create, duty
        return create

    return register


@case("jobs.rate_limited", queues.wake_rate_limited)
async def a_job_that_waits_for_its_rate(db: Tenant, conn: Connection, clock: Clock) -> None:
    spec = JobSpec(type="mail.send.v1", limit=Limit(key="tenant", rate=1.0, period=HOUR))
    await job_submit.push(db, [spec] * 2)
    await remote.fetch(db, [Fetch(queues=["default"], count=2, worker="w")])
    clock.move(HOUR)


@case("jobs.expired", upkeep.expire)
async def a_job_that_was_not_started_in_time(db: Tenant, conn: Connection, clock: Clock) -> object:
    id_ = await submit(db, expires_at=(await db.now()) + MINUTE)
    clock.move(MINUTE)
    return id_


@case("jobs.overdue", remote_reports.end_overdue)
async def an_attempt_that_exceeds_its_timeout(db: Tenant, conn: Connection, clock: Clock) -> object:
    held = {"status": "leased", "leased_by": "w", "claim_no": 1, "max_attempts": 1}
    return await by_sql(conn, stop_at=clock.now(), lease_until=clock.now(), **held)


@case("jobs.unlogged", upkeep.log_created)
async def many_jobs_of_one_insert(db: Tenant, conn: Connection, clock: Clock) -> None:
    await conn.execute(
        "insert into workflow.workflow_run (type, payload) select 'a.b.v1', '{}' from generate_series(1, 30)"
    )


@case("timers.job", upkeep.become_due)
async def a_delayed_job_that_is_due(db: Tenant, conn: Connection, clock: Clock) -> object:
    id_ = await submit(db, delay=MINUTE)
    clock.move(MINUTE)
    return id_


@case("timers.sleep", sweep.wake)
async def a_sleep_that_ends(db: Tenant, conn: Connection, clock: Clock) -> object:
    run = await begin(db, node("nap", action=SleepAction(MINUTE)))
    clock.move(MINUTE)
    return run


@case("timers.run", sweep.expire)
async def a_run_past_its_max_duration(db: Tenant, conn: Connection, clock: Clock) -> object:
    run = await begin(db, node("a"), max_duration=MINUTE)
    clock.move(MINUTE)
    return run


@case("runs.starts", lambda db: sweep.PendingRuns(db).start())
async def a_held_run_with_a_free_slot(db: Tenant, conn: Connection, clock: Clock) -> None:
    await publish(db, node("a"), concurrency=1)
    first, _ = await begin(db), await begin(db)
    await runs.cancel(db, first)


@case("runs.messages", messages.route)
async def an_event_of_plain_sql(db: Tenant, conn: Connection, clock: Clock) -> None:
    await conn.execute("select windlass.publish('paid', 'order-1', '{}')")


@case("runs.messages", requests.serve)
async def a_run_that_plain_sql_requests(db: Tenant, conn: Connection, clock: Clock) -> None:
    await publish(db, node("a"))
    await conn.execute("select windlass.start('w', '{}')")


@case("runs.events", sweep.sweep_runs)
async def a_step_that_plain_sql_ends(db: Tenant, conn: Connection, clock: Clock) -> object:
    run = await begin(db, node("a"), node("b", "a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    return run


@case("runs.events", sweep.sweep_runs)
async def a_cancellation_by_the_parent_run(db: Tenant, conn: Connection, clock: Clock) -> None:
    await publish(db, node("x"), name="kid")
    run = await begin(db, child())
    await sweep.PendingRuns(db).start()
    await runs.cancel(db, run)


@case("runs.retries", lambda db: quarantine.retry_due(db, retries(db)))
async def a_run_in_quarantine_that_is_to_be_retried(db: Tenant, conn: Connection, clock: Clock) -> None:
    await quarantine.set_aside(db, Kind.RUN, await begin(db, node("a")), ValueError("strange"))
    clock.move(MINUTE)


@case("schedules.job", sql_schedules.tick)
async def a_schedule_of_plain_sql(db: Tenant, conn: Connection, clock: Clock) -> object:
    return await conn.fetchval(
        """insert into workflow.workflow_schedule (type, payload, schedule, next_run_at)
           values ('report.v1', '{}', '0 12 * * *', $1) returning id""",
        clock.now(),
    )


@case("schedules.run", workflow_schedules.tick)
async def a_schedule_of_a_workflow(db: Tenant, conn: Connection, clock: Clock) -> object:
    await workflows.publish(db, timed())
    clock.move(HOUR)
    return await conn.fetchval("select id from windlass.schedule")


@case("schedules.ready", workflow_schedules.tick)
async def a_buffered_tick_that_is_ready(db: Tenant, conn: Connection, clock: Clock) -> None:
    await workflows.publish(db, timed(overlap="buffer"))
    for _ in range(2):
        clock.move(HOUR)
        await workflow_schedules.tick(db)
    await runs.cancel(db, await conn.fetchval("select id from windlass.run"))


@case("schedules.cron", ojs_schedules.tick)
async def a_schedule_of_the_open_job_spec(db: Tenant, conn: Connection, clock: Clock) -> object:
    template = JobTemplate(JobSpec(type="tick.v1"))
    asked = {"name": "tick"}
    await ojs_schedules.put(
        db, "tick", expression="0 * * * *", timezone="UTC", overlap=Overlap.ALLOW, asked=asked, template=template
    )
    clock.move(HOUR)
    return await conn.fetchval("select id from windlass.cron")


@pytest.mark.parametrize("name", CASES)
async def test_reported_work_is_done_by_its_duty_and_then_no_longer_reported(
    db: Tenant, conn: Connection, clock: Clock, name: str
) -> None:
    create, duty = CASES[name]
    kind = name.partition(",")[0]
    assert kind not in await reported(db)
    await create(db, conn, clock)
    assert kind in await reported(db)
    assert await duty(db) > 0
    while await duty(db):  # a cancelled run leaves an event for its parent run
        pass
    assert kind not in await reported(db)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.JOB, "jobs.expired, a_job_that_was_not_started_in_time"),
        (Kind.JOB, "jobs.overdue, an_attempt_that_exceeds_its_timeout"),
        (Kind.JOB, "timers.job, a_delayed_job_that_is_due"),
        (Kind.RUN, "timers.sleep, a_sleep_that_ends"),
        (Kind.RUN, "runs.events, a_step_that_plain_sql_ends"),
        (Kind.SCHEDULE, "schedules.job, a_schedule_of_plain_sql"),
        (Kind.TRIGGER, "schedules.run, a_schedule_of_a_workflow"),
        (Kind.CRON, "schedules.cron, a_schedule_of_the_open_job_spec"),
    ],
)
async def test_quarantined_work_is_neither_reported_nor_done(
    db: Tenant, conn: Connection, clock: Clock, kind: Kind, name: str
) -> None:
    create, duty = CASES[name]
    id_ = await create(db, conn, clock)
    await quarantine.set_aside(db, kind, str(id_), ValueError("strange"))
    assert name.partition(",")[0] not in await reported(db)
    assert await duty(db) == 0


def test_every_kind_of_work_has_a_case() -> None:
    kinds = {name.partition(",")[0] for name in CASES}
    parts = PendingWork.__annotations__
    names = {f"{part}.{field}" for part in ("jobs", "timers", "schedules", "runs") for field in parts[part]._fields}
    # A waiting tick is not pending work until the run that it waits for has ended. `cron_ready` has its own tests.
    assert names - kinds == {"schedules.waits", "schedules.cron_ready"}


# Pending work of the process


async def test_leased_jobs_are_reported_until_none_is_left(db: Tenant, clock: Clock) -> None:
    await submit(db)
    assert not (await look(db)).process.leased
    await take(db)
    assert (await look(db)).process.leased
    clock.move(HOUR)
    assert (await upkeep.release_expired(db)).released == 1
    assert not (await look(db)).process.leased


async def test_uncounted_usage_is_reported_before_the_first_count_and_after_new_events(
    db: Tenant, conn: Connection
) -> None:
    assert (await look(db)).process.uncounted
    await usage.count(db)
    assert not (await look(db)).process.uncounted
    async with conn.transaction():  # its events are seen later than those of younger transactions
        await by_sql(conn)
        await submit(db)
        assert (await look(db)).process.uncounted
        assert (await usage.count(db)).executions == 1
    assert (await look(db)).process.uncounted
    assert (await usage.count(db)).executions == 1
    assert not (await look(db)).process.uncounted


async def test_events_that_are_not_executions_do_not_stay_uncounted(db: Tenant) -> None:
    await submit(db)
    await usage.count(db)
    await take(db)
    await remote_reports.end_overdue(db)
    await usage.count(db)
    assert not (await look(db)).process.uncounted


async def test_the_leader_is_reported_while_its_term_lasts(db: Tenant, clock: Clock) -> None:
    assert (await look(db)).process[1:3] == (None, None)
    await hold(db, "one")
    assert (await look(db)).process[1:3] == ("one", clock.now())
    clock.move(MINUTE)
    assert (await look(db)).process.leader is None


async def test_active_subscriptions_are_reported(db: Tenant) -> None:
    assert not (await look(db)).process.subscriptions
    made, _ = await subscriptions.create(db, {"url": "https://hooks.example/x", "events": ["*"]})
    assert (await look(db)).process.subscriptions
    await subscriptions.remove(db, made.id)
    assert not (await look(db)).process.subscriptions


async def test_an_unknown_id_in_the_quarantine_hides_no_pending_work(
    db: Tenant, conn: Connection, clock: Clock
) -> None:
    await a_job_that_was_not_started_in_time(db, conn, clock)
    await quarantine.set_aside(db, Kind.JOB, str(uuid4()), ValueError("strange"))
    assert "jobs.expired" in await reported(db)
