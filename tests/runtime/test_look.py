"""One query finds the pending work of all loops of a process: loops with work are woken, the others keep waiting."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import begin, letters, node
from tests.engine.job_harness import LEASE, submit, take
from tests.engine.upkeep_harness import hold
from windlass.core.events.ojs import DELIVERY_TYPE
from windlass.core.jobs.job import Success
from windlass.core.workflows.step import SleepAction
from windlass.engine import quarantine
from windlass.engine.database import Tenant
from windlass.engine.events import subscriptions
from windlass.engine.upkeep import PendingWork
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.runtime.loops.background import Scheduler, Sweeper, Timers, retries, run_loops
from windlass.runtime.loops.deliveries import Deliveries
from windlass.runtime.loops.look import Look, LookOptions
from windlass.runtime.loops.upkeep import DUTY, LeaseRecovery, Upkeep, UpkeepOptions
from windlass.testing import Clock

Connection = Any
Check = Callable[[], Awaitable[bool]]
SECOND = timedelta(seconds=1)


class Process:
    """The loops of a process. Their ticks are run by the test."""

    def __init__(self, db: Tenant, holder: str = "one") -> None:
        self.recovery = LeaseRecovery(db, holder)
        self.upkeep = Upkeep(db, self.recovery)
        self.timers, self.sweeper, self.scheduler = Timers(db), Sweeper(db), Scheduler(db)
        self.deliveries = Deliveries(db, holder)
        self.loops = (self.timers, self.sweeper, self.scheduler, self.recovery, self.upkeep, self.deliveries)
        self.look = Look(db, self.loops, duty=DUTY, kinds=list(retries(db)), options=LookOptions(rest=0))

    async def tick(self, *, woken_only: bool = True) -> set[str]:
        """Run the loops that were woken, or all; return the names of those that were woken."""
        woken = [loop for loop in self.loops if loop._wake.is_set()]
        for loop in woken if woken_only else self.loops:
            loop._wake.clear()
            await loop.tick()
        return {type(loop).__name__.lower() for loop in woken}

    async def woken(self) -> set[str]:
        """Look once and run the loops that it wakes."""
        await self.look.tick()
        return await self.tick()


@pytest.fixture
async def process(db: Tenant, clock: Clock) -> Process:
    """A process that holds the term of upkeep and has nothing to do."""
    clock.move(timedelta(hours=1))
    idle = Process(db)
    await idle.tick(woken_only=False)
    while await idle.woken():
        pass
    return idle


async def test_without_pending_work_no_loop_is_woken_and_the_next_look_is_delayed(process: Process) -> None:
    assert await process.look.tick() == process.look.options.idle
    assert await process.tick() == set()


async def test_the_leader_checks_leases_at_every_look_while_there_are_any(process: Process, db: Tenant) -> None:
    await submit(db)
    [job] = await take(db)
    for _ in range(3):
        assert await process.look.tick() == process.look.options.every
        assert "leaserecovery" in await process.tick()
    await turn.turn(db, Turn(worker="w1", lease=LEASE, reports=[Success(job, "1")]))
    assert "leaserecovery" not in await process.woken()


async def test_leased_jobs_are_queried_less_often_if_the_query_is_slow(process: Process, db: Tenant) -> None:
    look = Look(db, process.loops, duty=DUTY, kinds=[], options=LookOptions(rest=10**9))
    assert await look.tick() == look.options.idle
    await process.tick()
    assert await look.tick() == look.options.every
    assert await process.tick() == {"leaserecovery"}  # which limits the time of its own queries


async def test_a_step_completed_by_plain_sql_wakes_the_sweeper(process: Process, db: Tenant, conn: Connection) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await process.woken()
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    assert "sweeper" in await process.woken()
    assert await letters(db, run) == "sa"


async def test_the_timer_loop_is_woken_shortly_before_a_timer_is_due(
    process: Process, db: Tenant, clock: Clock
) -> None:
    run = await begin(db, node("nap", action=SleepAction(timedelta(minutes=1))))
    await process.woken()
    assert "timers" not in await process.woken()
    clock.move(timedelta(seconds=59.5))
    await process.look.tick()
    assert process.timers._wake.is_set()
    assert await process.timers.tick() == timedelta(seconds=0.5)
    clock.move(timedelta(seconds=0.5))
    await process.timers.tick()
    assert await letters(db, run) == "s"


async def test_a_schedule_inserted_by_plain_sql_wakes_the_scheduler(
    process: Process, conn: Connection, clock: Clock
) -> None:
    await conn.execute(
        """insert into workflow.workflow_schedule (type, payload, schedule, next_run_at)
           values ('report.v1', '{}', '0 12 * * *', $1)""",
        clock.now(),
    )
    assert await process.woken() == {"scheduler"}
    assert await conn.fetchval("select count(*) from workflow.workflow_run where type = 'report.v1'") == 1


async def test_the_first_subscription_wakes_the_delivery_loop(process: Process, db: Tenant) -> None:
    await subscriptions.create(db, {"url": "https://hooks.example/x", "events": ["*"]})
    assert "deliveries" in await process.woken()
    assert "deliveries" not in await process.woken()  # it ticks by itself from now on


async def test_the_leader_renews_its_term_before_half_of_it_has_passed_and_not_at_every_look(
    process: Process, conn: Connection, clock: Clock
) -> None:
    began = await renewal(conn)
    woken = []
    for _ in range(4):
        clock.move(SECOND)
        woken.append("leaserecovery" in await process.woken())
    assert woken == [False, False, False, False]
    clock.move(SECOND / 2)
    assert "leaserecovery" in await process.woken()
    assert (await renewal(conn) - began) == 4.5 * SECOND


async def test_another_process_takes_over_when_the_leader_is_gone(process: Process, db: Tenant, clock: Clock) -> None:
    other = Process(db, "two")
    await other.tick(woken_only=False)
    assert "leaserecovery" not in await other.woken()
    assert (process.recovery.leading, other.recovery.leading) == (True, False)
    clock.move(11 * SECOND)
    assert "leaserecovery" in await other.woken()
    assert other.recovery.leading
    assert "upkeep" in await other.woken()  # it begins with what is due by time: partitions, old rows
    await process.look.tick()
    assert not process.recovery.leading


async def test_a_process_that_is_not_the_leader_is_not_woken_for_the_leaders_work(db: Tenant, clock: Clock) -> None:
    clock.move(timedelta(hours=1))
    await hold(db, "leader")
    process = Process(db)
    await process.tick(woken_only=False)
    await submit(db)
    await take(db)
    assert await process.woken() == set()


async def test_every_loop_is_woken_if_the_look_fails(process: Process, db: Tenant, conn: Connection) -> None:
    """An invalid quarantine row makes the scheduler's part of the query fail, and with it the whole look."""
    await conn.execute(
        """with bad as (
             insert into windlass.quarantine (kind, key, error_type, reason) values ('schedule', 'no uuid', 'E', 'odd'))
           insert into workflow.workflow_schedule (type, payload, schedule, next_run_at)
           values ('report.v1', '{}', '0 12 * * *', '2100-01-01')"""
    )
    run = await begin(db, node("a"), node("b", "a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    assert await process.look.tick() == process.look.options.every
    assert await process.tick() == {type(loop).__name__.lower() for loop in process.loops}
    assert await letters(db, run) == "sa"
    failing = {entry.key for entry in await quarantine.list_(db) if entry.kind == "duty"}
    assert failing == {"loops.look", "scheduler.look"}


async def test_a_loop_whose_check_for_work_raises_is_woken_and_other_loops_are_unaffected(
    process: Process, db: Tenant, conn: Connection
) -> None:
    class Broken(Timers):
        def notice(self, work: PendingWork, within: timedelta) -> bool:
            raise TypeError("no such field")

    broken, run = Broken(db), await begin(db, node("a"), node("b", "a"))
    await process.woken()
    look = Look(db, (broken, *process.loops), duty=DUTY, kinds=[], options=LookOptions(rest=0))
    for _ in range(2):  # the second time it rests after the failure
        await conn.execute("update workflow.workflow_run set status = 'succeeded' where status = 'pending'")
        assert await look.tick() == look.options.every
        assert broken._wake.is_set()
        assert "sweeper" in await process.tick()
        broken._wake.clear()
    assert await letters(db, run) == "ss"
    assert "loops.broken" in {entry.key for entry in await quarantine.list_(db) if entry.kind == "duty"}


async def renewal(conn: Connection) -> datetime:
    at: datetime = await conn.fetchval("select renewed_at from windlass.term where duty = $1", DUTY)
    return at


async def a_sleep_that_is_over(db: Tenant, conn: Connection, clock: Clock) -> Check:
    run = await begin(db, node("nap", action=SleepAction(timedelta(minutes=1))))
    clock.move(timedelta(minutes=1))
    return lambda: has_letters(db, run, "s")


async def a_lost_job(db: Tenant, conn: Connection, clock: Clock) -> Check:
    id_ = await submit(db)
    await take(db)
    clock.move(timedelta(hours=1))
    return lambda: conn.fetchval("select status = 'pending' from workflow.workflow_run where id = $1", id_)


async def a_step_that_plain_sql_has_ended(db: Tenant, conn: Connection, clock: Clock) -> Check:
    run = await begin(db, node("a"), node("b", "a"))
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    return lambda: has_letters(db, run, "sa")


async def a_schedule_that_is_due(db: Tenant, conn: Connection, clock: Clock) -> Check:
    await conn.execute(
        """insert into workflow.workflow_schedule (type, payload, schedule, next_run_at)
           values ('report.v1', '{}', '0 12 * * *', $1)""",
        clock.now(),
    )
    return lambda: conn.fetchval("select exists (select from workflow.workflow_run where type = 'report.v1')")


async def an_event_with_a_subscriber(db: Tenant, conn: Connection, clock: Clock) -> Check:
    await subscriptions.create(db, {"url": "https://hooks.example/x", "events": ["*"]})
    await conn.execute("update workflow.workflow_run set status = 'cancelled' where id = $1", await submit(db))
    return lambda: conn.fetchval("select exists (select from workflow.workflow_run where type = $1)", DELIVERY_TYPE)


@pytest.mark.parametrize(
    "prepare",
    [
        a_sleep_that_is_over,
        a_lost_job,
        a_step_that_plain_sql_has_ended,
        a_schedule_that_is_due,
        an_event_with_a_subscriber,
    ],
)
async def test_a_starting_process_handles_pending_work_immediately(
    db: Tenant, conn: Connection, clock: Clock, prepare: Callable[[Tenant, Connection, Clock], Awaitable[Check]]
) -> None:
    clock.move(timedelta(hours=1))
    is_done = await prepare(db, conn, clock)
    stop = asyncio.Event()
    process = asyncio.create_task(run_loops(db, stop, holder="one", options=UpkeepOptions()))
    try:
        async with asyncio.timeout(15):  # without the look, a loop would wait for half a minute
            while not await is_done():
                await asyncio.sleep(0.01)
    finally:
        stop.set()
        await process


async def has_letters(db: Tenant, run: UUID, expected: str) -> bool:
    return await letters(db, run) == expected
