"""A run, version, schedule, row or value that cannot be processed is quarantined with the reason and retried; all
others are processed."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.engine.fake_services import ServiceWorker, answer
from tests.engine.harness import LEASE, QUEUES, ManualWorker, begin, letters, node, reasons
from tests.engine.quarantine_harness import NOON, Client, aside, deploy, start
from windlass.core.jobs.job import Success
from windlass.core.jobs.spec import JobSpec
from windlass.engine import hooks, quarantine
from windlass.engine.database import Tenant
from windlass.engine.doctor import Level, judge_quarantine
from windlass.engine.jobs import control as jobs
from windlass.engine.quarantine import Kind
from windlass.engine.runs import control as runs
from windlass.engine.workers import turn as worker_turn
from windlass.engine.workers.turn import Turn
from windlass.errors import Conflict, NotFound
from windlass.runtime.loops.background import Sweeper, retries
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

HALF = r'{"status": "ok", "note": "half an emoji: \ud83d, and a NUL: \u0000"}'


# Text that Postgres cannot store


async def test_an_if_can_read_a_response_with_half_a_surrogate_pair(db: Tenant) -> None:
    await deploy(
        db,
        "shop",
        {
            "charge": {"url": "https://shop.example/charge"},
            "ship": {"needs": ["charge"], "if": "tasks.charge.body.note != 'stop'", "sleep": 0},
            "refund": {"needs": {"charge": "failure"}, "sleep": 0},
        },
    )
    run, worker = await start(db, "shop"), ServiceWorker(db)
    [job] = await worker.take()
    await worker.end(job, answer(200, HALF))
    assert await letters(db, run) == "sak"
    [reason] = await reasons(db, run, "ship")
    assert "half an emoji: ?" in reason


async def test_a_callback_with_text_that_postgres_cannot_store_is_accepted_and_passed_on(db: Tenant) -> None:
    await deploy(
        db,
        "shop",
        {
            "paid": {"wait_for_webhook": True},
            "ship": {"needs": ["paid"], "if": "tasks.paid.body.note != 'stop'", "job": "ship.v1",
                     "input": {"note": "{{tasks.paid.body.note}}"}},
        },
    )  # fmt: skip
    run = await start(db, "shop")
    token = (await hooks.address(db, run, "paid")).rsplit("/", 1)[1]
    await hooks.receive(db, token, HALF.encode(), {"content-type": "application/json"})
    [job] = await ManualWorker(db).take()
    assert json.loads(job.payload) == {"note": "half an emoji: ?, and a NUL: \\x00"}


# A run that cannot be advanced


async def test_reports_for_a_run_that_cannot_be_advanced_are_recorded(db: Tenant, conn: Client, clock: Clock) -> None:
    """The outcome is recorded, as are the other reports of the turn; the run continues once it is repaired."""
    clock.set(NOON)
    broken = await begin(db, node("a"), node("b", "a"))
    good = [await begin(db) for _ in range(5)]
    await jobs.submit(db, [JobSpec(type="plain.v1")] * 5)
    worker = await ManualWorker.registered(db)
    claimed = await worker.take()
    await conn.execute("update windlass.run set steps = 'a' where id = $1", broken)
    reports = [Success(job, '"done"') for job in claimed]
    _, recorded = await worker_turn.turn(db, Turn(worker=worker.name, lease=LEASE, reports=reports))
    assert recorded == {job.id for job in claimed}
    assert {(await jobs.get(db, job.id)).status for job in claimed} == {"succeeded"}
    assert [await letters(db, run) for run in good] == ["sa"] * 5
    assert await aside(db) == [("run", str(broken))]
    await conn.execute("update windlass.run set steps = 'a.' where id = $1", broken)
    clock.set(NOON + timedelta(seconds=2))
    assert await Sweeper(db).tick() == 1
    assert await letters(db, broken) == "sa"
    assert await aside(db) == []


async def test_delays_between_retries_double_and_failures_are_counted(db: Tenant, conn: Client, clock: Clock) -> None:
    clock.set(NOON)
    run = await begin(db, node("a"), node("b", "a"))
    await conn.execute("update windlass.run set steps = 'a'; update workflow.workflow_run set status = 'succeeded'")
    sweeper = Sweeper(db)
    pauses = []
    for _ in range(4):
        await sweeper.tick()
        [entry] = await quarantine.list_(db)
        assert entry.retry_at is not None
        pauses.append((entry.retry_at - entry.last_at).total_seconds())
        clock.set(entry.retry_at)
    assert pauses == [1, 2, 4, 8]
    assert entry.failures == 4
    assert entry.first_at == NOON
    assert entry.key == str(run)


async def test_a_run_that_was_set_aside_still_expires(db: Tenant, conn: Client, clock: Clock) -> None:
    """Its other events cannot be applied, but its expiry can."""
    clock.set(NOON)
    await deploy(db, "short", {"a": {"job": "a.v1"}, "b": {"needs": ["a"], "job": "b.v1"}}, max_duration="1m")
    run = await start(db, "short")
    await quarantine.set_aside(db, Kind.RUN, run, ValueError("strange"))
    clock.set(NOON + timedelta(minutes=2))
    await Sweeper(db).tick()
    assert (await runs.view(db, run)).row.state == "timeout"


async def test_many_completions_of_a_broken_run_do_not_delay_those_of_another_run(db: Tenant, conn: Client) -> None:
    await deploy(db, "wide", {"a": {"job": "a.v1", "parallel": 600}})
    broken, good = await start(db, "wide"), await begin(db, node("a"), node("b", "a"))
    await conn.execute("update windlass.run set fans = '[]' where id = $1", broken)
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    sweeper = Sweeper(db)
    for _ in range(3):
        await sweeper.tick()
    assert await letters(db, good) == "sa"
    assert await aside(db) == [("run", str(broken))]


async def other_process(database: str, clock: Clock) -> Tenant:
    return await Tenant.open(DatabaseOptions(url=database, clock=clock.now))


async def unreadable(conn: Client, change: str) -> None:
    await conn.execute("alter table windlass.version disable trigger all")
    await conn.execute(f"update windlass.version set document = {change}")


# A version that this process cannot read


async def test_a_document_key_written_by_a_newer_release_is_ignored(
    db: Tenant, conn: Client, database: str, clock: Clock
) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await unreadable(conn, """jsonb_set(document, '{colour}', '"blue"')""")
    older = await other_process(database, clock)
    worker = await ManualWorker.registered(older)
    await worker.end(await worker.take_one("a"))
    assert await letters(db, run) == "sa"
    await older.close()


async def test_jobs_of_an_unreadable_version_are_executed_and_delay_no_other_jobs(
    db: Tenant, conn: Client, database: str, clock: Clock
) -> None:
    """Only a newer release knows this kind of step: this process leaves the run to a process that can read it."""
    clock.set(NOON)
    run = await begin(db, node("a"), node("b", "a"))
    await jobs.submit(db, [JobSpec(type="plain.v1")] * 10)
    document = json.loads(await conn.fetchval("select document from windlass.version"))
    tasks = [{"name": "a", "dance": "tango"}, {"name": "b", "needs": ["a"], "job": "b.v1"}]
    await unreadable(conn, f"'{json.dumps({**document, 'tasks': tasks})}'")
    older = await other_process(database, clock)
    await ManualWorker.registered(older, "older")
    lanes = [(replace(lane, seq=0), 20) for lane in await worker_turn.look(older, QUEUES)]
    claimed, _ = await worker_turn.turn(older, Turn(worker="older", lease=LEASE, lanes=lanes, count=20))
    assert len(claimed) == 11
    turn = Turn(worker="older", lease=LEASE, reports=[Success(job, "1") for job in claimed])
    assert (await worker_turn.turn(older, turn))[1] == {job.id for job in claimed}
    [entry] = await quarantine.list_(db)
    assert (entry.kind, entry.key, entry.error_type) == ("run", str(run), "UnreadableVersion")
    clock.set(NOON + timedelta(seconds=2))
    await unreadable(conn, f"'{json.dumps(document)}'")  # as a process that can read it sees it
    assert await quarantine.retry_due(db, retries(db)) == 1
    assert await letters(db, run) == "sa"
    await older.close()


async def test_a_held_run_that_cannot_start_does_not_block_other_runs(
    db: Tenant, conn: Client, database: str, clock: Clock
) -> None:
    await deploy(db, "narrow", {"a": {"job": "a.v1"}}, concurrency=1)
    held = [await start(db, "narrow") for _ in range(3)]
    await conn.execute("update windlass.run set steps = '' where id = $1", held[1])
    good = await begin(db, node("a"), node("b", "a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    sweeper = Sweeper(db)
    for _ in range(3):
        await sweeper.tick()
    assert await letters(db, good) == "sa"
    assert await letters(db, held[0]) == "s"
    assert await letters(db, held[2]) == "a"  # the second is set aside, the third takes its slot
    assert ("run", str(held[1])) in await aside(db)


# Operators


async def test_the_doctor_reports_quarantine_entries_and_how_to_retry_them(db: Tenant) -> None:
    assert [found.level for found in judge_quarantine([])] == [Level.OK]
    await quarantine.set_aside(db, Kind.RUN, "a b", ValueError("strange"))
    await quarantine.set_aside(db, Kind.DUTY, "timers.due", ValueError("odd"), retry=False)
    duty, run = judge_quarantine(await quarantine.list_(db))
    assert (run.level, "strange" in run.message) == (Level.PROBLEM, True)
    assert run.fix is not None
    assert run.fix.endswith("windlass quarantine retry run 'a b'")
    assert duty.fix is not None
    assert "retry" not in duty.fix


async def test_an_operator_can_retry_a_quarantine_entry_immediately(db: Tenant, conn: Client, clock: Clock) -> None:
    clock.set(NOON)
    run = await begin(db, node("a"), node("b", "a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    for _ in range(5):
        await quarantine.set_aside(db, Kind.RUN, run, ValueError("strange"))
    assert await Sweeper(db).tick() == 0
    entry = await quarantine.retry_now(db, Kind.RUN, str(run))
    assert (entry.failures, entry.retry_at) == (5, NOON)
    assert await Sweeper(db).tick() == 1
    assert await letters(db, run) == "sa"
    with pytest.raises(NotFound):
        await quarantine.retry_now(db, Kind.RUN, str(run))
    await quarantine.set_aside(db, Kind.DUTY, "timers.due", ValueError("odd"), retry=False)
    with pytest.raises(Conflict, match="only reported"):
        await quarantine.retry_now(db, Kind.DUTY, "timers.due")


async def test_quarantine_entries_of_jobs_are_deleted_when_the_jobs_have_ended(
    db: Tenant, conn: Client, clock: Clock
) -> None:
    clock.set(NOON)
    [ended], [live] = [await jobs.submit(db, [JobSpec(type="a.v1")]) for _ in range(2)]
    for id_ in (ended, live):
        await quarantine.set_aside(db, Kind.JOB, id_, ValueError("strange"))
    await conn.execute("update workflow.workflow_run set status = 'cancelled' where id = $1", ended)
    await quarantine.forget(db)
    assert await aside(db) == [("job", str(live))]
