"""Concurrent turns, cancels, retries, sleeps, child runs, settling and foreign statements on a few runs, at random.
Nothing deadlocks, an ended run moves only by an explicit retry, and in the end every run has ended."""

import asyncio
import random
from contextlib import suppress
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import LEASE, QUEUES, Fails, ManualWorker, begin, node, publish, report, tick
from windlass.core.jobs.job import Cancelled, Claimed
from windlass.core.runs.run import RUN_EDGES
from windlass.core.workflows.step import ChildAction, EventAction, Parallel, SleepAction
from windlass.engine import messages, upkeep
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.engine.workers import turn as worker_turn
from windlass.engine.workers.turn import Turn
from windlass.errors import Conflict, Gone
from windlass.store.claims import Lane
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock

Connection = Any

# A trigger records every change of a run in the order in which the row changed.
WITNESS = """
create table witness (n bigint generated always as identity, id uuid, old text, new text, old_round int, new_round int,
                      old_steps text, new_steps text, old_finished timestamptz, new_finished timestamptz);
create function witness() returns trigger language plpgsql as $$
begin
  insert into witness (id, old, new, old_round, new_round, old_steps, new_steps, old_finished, new_finished)
  values (new.id, old.state, new.state, old.round, new.round, old.steps, new.steps, old.finished_at, new.finished_at);
  return null;
end $$;
create trigger witness after update on windlass.run for each row execute function witness();
"""
LIVE = "select id, state, steps, fans from windlass.run where state in ('pending', 'running')"


async def prepare(db: Tenant) -> None:
    await publish(db, node("x"), node("y", "x", action=SleepAction(timedelta(seconds=3))), name="kid", concurrency=3)
    await publish(
        db,
        node("a", max_attempts=2),
        node("fan", "a", fan_out=Parallel(5), concurrency=2, max_attempts=2),
        node("nap", "a", action=SleepAction(timedelta(seconds=5))),
        node("sub", "a", action=ChildAction("kid")),
        node("subs", action=ChildAction("kid"), fan_out=Parallel(3), concurrency=2),
        node("hint", action=EventAction("news", timeout=timedelta(seconds=30))),
        node("news", "a", action=EventAction("news", "1", timedelta(seconds=5), 2)),
        node("b", "fan:complete", "nap:complete", "sub:complete", "news:complete"),
        node("z", final=True),
        max_duration=timedelta(days=30),  # long: expiry must not end a run that hangs
    )


class Actor:
    """A process that executes random operations."""

    def __init__(self, db: Tenant, worker: str, held: list[Claimed], ids: list[UUID], clock: Clock, seed: int) -> None:
        self.db, self.worker, self.held, self.ids, self.clock = db, worker, held, ids, clock
        self.dice = random.Random(seed)

    async def act(self, times: int) -> None:
        acts = [self.turn] * 8 + [self.settle] * 4 + [self.hold, self.wake, self.wake, self.expire, self.foreign]
        acts += [self.cancel, self.retry, self.retry, self.heartbeat, self.lapse, self.arrive, self.move]
        acts += [self.publish, self.signal, self.route, self.route]
        for _ in range(times):
            with suppress(Conflict, Gone):
                await self.dice.choice(acts)()

    async def turn(self) -> None:
        latest = list({job.id: job for job in self.held}.values())  # a worker knows only its last claim of a job
        some = self.dice.sample(latest, self.dice.randint(0, len(latest)))
        reports = [report(job, self.dice.choice([1, 2, 3, Fails(), Fails(for_good=True), Cancelled()])) for job in some]
        lanes = [(Lane("default", f"test.{name}.v1", 100, 0), 3) for name in ("a", "fan", "b", "x", "z")]
        wish = Turn(worker=self.worker, lease=LEASE, reports=reports, lanes=lanes, count=self.dice.randint(1, 5))
        self.held += (await worker_turn.turn(self.db, wish))[0]
        del self.held[:-8]

    async def settle(self) -> None:
        await sweep.sweep_runs(self.db, batch=self.dice.choice([1, 3, 500]))

    async def publish(self) -> None:
        await messages.publish(self.db, "news", key="1")

    async def signal(self) -> None:
        await messages.signal(self.db, await self.any_run(), "news")

    async def route(self) -> None:
        await messages.route(self.db, batch=self.dice.choice([1, 3, 1000]))

    async def hold(self) -> None:
        await sweep.PendingRuns(self.db).start()

    async def wake(self) -> None:
        await sweep.wake(self.db)
        await upkeep.become_due(self.db)

    async def expire(self) -> None:
        await sweep.expire(self.db)
        await upkeep.release_expired(self.db, batch=5)

    async def cancel(self) -> None:
        if self.dice.random() < 0.4:
            await runs.cancel(self.db, await self.any_run())

    async def retry(self) -> None:
        run = await self.any_run()
        if self.dice.random() < 0.3:
            await runs.rerun(self.db, run, (await runs.view(self.db, run)).workflow.steps[0].name)
        else:
            await runs.retry(self.db, run)

    async def any_run(self) -> UUID:
        async with self.db.once() as conn:
            rows = await conn.fetch("select id from windlass.run order by id desc limit 12")
        ids: list[UUID] = [row[0] for row in rows]
        return self.dice.choice(ids)

    async def heartbeat(self) -> None:
        await worker_turn.heartbeat(self.db, [job.fence for job in self.held], worker=self.worker, lease=LEASE)

    async def arrive(self) -> None:
        if len(self.ids) < 40:
            self.ids.append(await begin(self.db, max_duration=timedelta(seconds=self.dice.choice([5, 60, 10**6]))))

    async def move(self) -> None:
        self.clock.move(timedelta(seconds=self.dice.choice([0, 1, 2, 10])))

    async def lapse(self) -> None:
        async with self.db.begin() as conn:
            await conn.execute("""update workflow.workflow_run set lease_until = windlass.now() - interval '1 s'
              where id = any(array(
                select id from workflow.workflow_run where status = 'leased' order by id limit 1 for update))""")

    async def foreign(self) -> None:
        """Write a random outcome of one job without a fence."""
        words = [
            "status = 'succeeded', result = '1'",
            "status = 'failed'",
            "status = 'cancelled'",
            "deleted_at = now()",
        ]
        async with self.db.once() as conn:
            await conn.execute(f"""update workflow.workflow_run set {self.dice.choice(words)} where id = any(array(
              select id from workflow.workflow_run where status in ('pending', 'leased') order by random() limit 1))""")


async def finish_all_runs(db: Tenant, conn: Connection, clock: Clock) -> None:
    """Let all leases expire and finish the remaining work with a new worker."""
    player = await ManualWorker.registered(db, "last")
    for _ in range(40):
        clock.move(LEASE * 2)
        await upkeep.release_expired(db)
        await player.play()
        await tick(db)
        if not await conn.fetch(LIVE):
            return
    raise AssertionError(f"these runs do not end: {[dict(row) for row in await conn.fetch(LIVE)]}")


def check(change: Any) -> None:
    live = ("pending", "running")
    if change["old"] in live:
        assert change["old"] == change["new"] or (change["old"], change["new"]) in LEGAL, dict(change)
    elif change["new_round"] == change["old_round"]:
        kept = (change["old"], change["old_finished"]) == (change["new"], change["new_finished"])
        assert kept, dict(change)  # late outcomes are recorded in the letters and advance nothing
        for old, new in zip(change["old_steps"], change["new_steps"], strict=True):
            assert old == new or old == "a", dict(change)
    else:
        assert (change["old"], change["new_round"]) != ("cancelled", change["old_round"] + 1), dict(change)
        assert change["new_round"] == change["old_round"] + 1, dict(change)


LEGAL = {(old.value, new.value) for (old, _), new in RUN_EDGES.items()}
LEGAL |= {("pending", end) for end in ("completed", "failed")}  # a run with nothing to do ends as it begins


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 3, 4, 5))])
async def test_random_interleavings_do_not_deadlock_and_every_run_ends(
    database: str, conn: Connection, clock: Clock, seed: int
) -> None:
    clock.move(timedelta(hours=1))
    units = [await Tenant.open(DatabaseOptions(url=database, size=2, notify=False, clock=clock.now)) for _ in range(4)]
    await prepare(units[0])
    for name in ("w0", "w1"):
        await worker_turn.register(units[0], id_=name, host="h", pid=1, queues=QUEUES, types=[], concurrency=9)
    await conn.execute(WITNESS)
    ids = [await begin(units[0]) for _ in range(4)]
    held: list[list[Claimed]] = [[], []]
    actors = [Actor(db, f"w{n % 2}", held[n % 2], ids, clock, 10 * seed + n) for n, db in enumerate(units)]
    results = await asyncio.gather(*(actor.act(250) for actor in actors), return_exceptions=True)
    assert results == [None] * 4, [result for result in results if result]
    await finish_all_runs(units[0], conn, clock)

    changes = await conn.fetch("select * from witness order by n")
    for change in changes:
        check(change)
    seen = {change["new"] for change in changes}
    assert seen >= {"running", "completed", "failed", "cancelled", "timeout"}, "not all states were reached"
    assert await conn.fetchval("select count(*) from windlass.timer") == 0
    assert await conn.fetchval("select count(*) from windlass.notice") == 0
    open_jobs = "select count(*) from workflow.workflow_run where status in ('pending', 'leased') or not settled"
    assert await conn.fetchval(open_jobs) == 0
    waiters = dict(await conn.fetch("select state, count(*) from windlass.waiter group by 1"))
    assert waiters.keys() == {"taken", "closed"}, "a wait has not ended, or not all states were reached"
    received = (
        "select count(*) from windlass.message m join windlass.waiter w on w.id = m.waiter_id where w.state = 'taken'"
    )
    taken = "select count(*) from windlass.waiter where is_signal and state = 'taken'"
    assert await conn.fetchval(received) == await conn.fetchval(taken)
    for db in units:
        await db.close()
