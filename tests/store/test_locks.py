"""Concurrent turns, heartbeats, cancels, expiries, reopens and foreign statements, at random."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from windlass.core.jobs.job import EDGES, Claimed, JobMove, Report, Setback, Success
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.workers import turn as worker_turn
from windlass.engine.workers.turn import Lane, Turn
from windlass.store import claims, jobs
from windlass.store.postgres.pool import BEGIN_POOLED, DatabaseOptions

Connection = Any
LEASE = timedelta(seconds=30)
LANE = Lane("default", "a.b.v1", 100, 0)
IN_AN_HOUR = datetime.now(UTC) + timedelta(hours=1)  # by this clock the server has been up for long
INSERT = """insert into workflow.workflow_run (type, payload, queue, max_attempts)
  select 'a.b.v1', '{}', 'default', 50 from generate_series(1, $1) returning id"""

# A trigger records every change of a row, in the order of the changes.
WITNESS = """
create table witness (n bigint generated always as identity, id uuid, old text, new text, old_epoch int, new_epoch int,
                      old_result jsonb, new_result jsonb);
create function witness() returns trigger language plpgsql as $$
begin
  insert into witness (id, old, new, old_epoch, new_epoch, old_result, new_result)
  values (new.id, old.status, new.status, old.epoch, new.epoch, old.result, new.result);
  return null;
end $$;
create trigger witness after update on workflow.workflow_run for each row execute function witness();
"""


async def opened(database: str) -> Tenant:
    """Open a tenant with one connection, like a separate process."""
    return await Tenant.open(DatabaseOptions(url=database, size=1, notify=False, clock=lambda: IN_AN_HOUR))


class Actor:
    """One connection that executes random operations on a few rows."""

    def __init__(self, db: Tenant, worker: str, held: list[Claimed], ids: list[UUID], seed: int) -> None:
        self.db, self.worker, self.ids = db, worker, ids
        self.held = held  # two connections of one worker share this
        self.dice = random.Random(seed)

    async def act(self, times: int) -> None:
        acts = [self.turn, self.turn, self.turn, self.heartbeat, self.cancel, self.expire]
        acts += [self.reopen, self.foreign, self.lapse, self.arrive, self.outlive]
        for _ in range(times):
            await self.dice.choice(acts)()

    def some(self) -> list[Claimed]:
        return self.dice.sample(self.held, self.dice.randint(0, len(self.held)))

    def any_ids(self) -> list[UUID]:
        return self.dice.sample(self.ids, self.dice.randint(1, 3))

    async def turn(self) -> None:
        """Report on some held jobs, in random order, and claim."""
        all_well = self.dice.random() < 0.5  # then one statement records and claims
        reports = [Success(job, '"done"') if all_well else self.report(job) for job in self.some()]
        count = self.dice.randint(1, 4)
        wish = Turn(worker=self.worker, lease=LEASE, reports=reports, lanes=[(LANE, count)], count=count)
        self.held += (await worker_turn.turn(self.db, wish))[0]
        del self.held[:-6]

    def report(self, job: Claimed) -> Report:
        move = self.dice.choice([None, None, JobMove.RETRY, JobMove.FAIL, JobMove.FAIL, JobMove.RELEASE])
        return Success(job, '"done"') if move is None else Setback(job, move, {"message": "x"}, timedelta())

    async def arrive(self) -> None:
        """Insert a job, because succeeded jobs are final, and stop using the oldest one."""
        async with self.db.begin() as conn:
            self.ids.append(await conn.fetchval(INSERT, 1))
        del self.ids[:-6]

    async def heartbeat(self) -> None:
        await worker_turn.heartbeat(self.db, [job.fence for job in self.some()], worker=self.worker, lease=LEASE)

    async def expire(self) -> None:
        await upkeep.release_expired(self.db, batch=5)

    async def outlive(self) -> None:
        """Expire a pending job that was not started in time."""
        async with self.db.begin() as conn:
            await conn.execute("""update workflow.workflow_run set expires_at = now() where id = any(array(
              select id from workflow.workflow_run where status = 'pending' order by id limit 1 for update))""")
        await upkeep.expire(self.db, batch=5)

    async def cancel(self) -> None:
        async with self.db.begin() as conn:
            await jobs.cancel(conn, self.any_ids(), org="default", actor="ada", reason=None)

    async def reopen(self) -> None:
        async with self.db.begin() as conn:
            await jobs.reopen(conn, self.any_ids(), org="default", actor="ada")

    async def lapse(self) -> None:
        """Let up to two leases expire."""
        async with self.db.begin() as conn:
            await conn.execute("""update workflow.workflow_run set lease_until = now() where id = any(array(
              select id from workflow.workflow_run where status = 'leased' order by id limit 2 for update))""")

    async def foreign(self) -> None:
        """Record a success like a client without fencing, possibly too late."""
        async with self.db.begin() as conn:
            await conn.execute(
                """update workflow.workflow_run set status = 'succeeded', result = '"foreign"', updated_at = now()
                    where id = $1 and status <> 'pending'""",
                self.dice.choice(self.ids),
            )


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in (2, 3, 4))])
async def test_concurrent_operations_never_deadlock_and_finished_jobs_change_only_when_reopened(
    database: str, conn: Connection, seed: int
) -> None:
    await conn.execute(WITNESS)
    ids = [row[0] for row in await conn.fetch(INSERT, 6)]
    units = [await opened(database) for _ in range(4)]
    held: list[list[Claimed]] = [[], []]
    actors = [Actor(db, f"w{n % 2}", held[n % 2], ids, 10 * seed + n) for n, db in enumerate(units)]
    results = await asyncio.gather(*(actor.act(400) for actor in actors), return_exceptions=True)
    for db in units:
        await db.close()
    assert results == [None] * 4, [result for result in results if result]

    seen = await conn.fetch("select * from witness order by n")
    legal = {(old.value, new.value) for (old, _), new in EDGES.items()}
    for change in seen:
        if change["old"] in ("succeeded", "failed", "cancelled"):
            reopened = change["new_epoch"] == change["old_epoch"] + 1 and change["new"] == "pending"
            kept = change["new"] == change["old"] and change["new_result"] == change["old_result"]
            assert reopened or kept, dict(change)
        elif change["old"] != change["new"]:
            assert (change["old"], change["new"]) in legal, dict(change)
    made = {(change["old"], change["new"]) for change in seen}
    legal.discard(("succeeded", "pending"))  # only steps of runs go that way
    assert made >= legal, f"the random operations never made the moves {legal - made}"


@pytest.fixture
async def pair(database: str, conn: Connection) -> tuple[Claimed, Claimed]:
    """Two jobs leased by one worker, by ascending id."""
    await conn.execute(INSERT, 2)
    claimed, _ = await claims.claim(conn, [(LANE, 2)], count=2, worker="w1", lease=LEASE)
    low, high = sorted(claimed, key=lambda job: job.id)
    return low, high


async def waiting_for_a_lock(conn: Connection, pid: int) -> None:
    """Poll without delay until that backend waits for a lock."""
    async with asyncio.timeout(30):
        while not await conn.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid):
            await asyncio.sleep(0)


@pytest.mark.parametrize("told", ["successes", "setbacks"])
async def test_a_batch_locks_its_jobs_by_ascending_id(
    database: str, conn: Connection, pair: tuple[Claimed, Claimed], told: str
) -> None:
    low, high = pair
    first: Connection = await asyncpg.connect(database)
    second: Connection = await asyncpg.connect(database)
    begun = first.transaction()
    await begun.start()
    await first.execute("select from workflow.workflow_run where id = $1 for update", low.id)
    mixed = [high, low]
    setbacks = [Setback(job, JobMove.FAIL, {"message": "x"}, timedelta()) for job in mixed]
    batch: dict[str, Callable[[], Awaitable[Iterable[UUID]]]] = {
        "successes": lambda: jobs.succeed(second, [Success(job, "1") for job in mixed], worker="w1"),
        "setbacks": lambda: jobs.set_back(second, setbacks, worker="w1"),
    }
    await second.execute(BEGIN_POOLED)
    waiting = asyncio.ensure_future(batch[told]())
    await waiting_for_a_lock(conn, second.get_server_pid())
    # It waits for the low one, so it must not hold the high one yet.
    await first.execute("select from workflow.workflow_run where id = $1 for update nowait", high.id)
    await begun.rollback()
    assert set(await waiting) == {low.id, high.id}
    await first.close()
    await second.close()


async def test_a_turn_with_successes_and_setbacks_locks_its_jobs_by_ascending_id(
    database: str, conn: Connection, pair: tuple[Claimed, Claimed]
) -> None:
    low, high = pair
    db, first = await opened(database), await asyncpg.connect(database)
    begun = first.transaction()
    await begun.start()
    await first.execute("select from workflow.workflow_run where id = $1 for update", low.id)
    reports: list[Report] = [Success(high, "1"), Setback(low, JobMove.FAIL, {"message": "x"}, timedelta())]
    turn = asyncio.create_task(worker_turn.turn(db, Turn(worker="w1", lease=LEASE, reports=reports)))
    async with asyncio.timeout(30):
        while not await conn.fetchval("select count(*) from pg_stat_activity where wait_event_type = 'Lock'"):
            await asyncio.sleep(0)
    await first.execute("select from workflow.workflow_run where id = $1 for update nowait", high.id)
    await begun.rollback()
    assert (await turn)[1] == {low.id, high.id}
    await first.close()
    await db.close()
