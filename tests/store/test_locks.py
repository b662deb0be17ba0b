"""Everybody at once: cancel, complete, expire, heartbeat, claim, reopen and foreign statements, at random."""

import asyncio
import random
from collections import Counter
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from windlass.core.job import EDGES, Claimed, JobMove, Setback, Success
from windlass.store import jobs
from windlass.store.jobs import Lane
from windlass.store.pool import BEGIN

Connection = Any
LEASE = timedelta(seconds=30)
LANE = Lane("default", "a.b.v1", 100, 0)

# Every change of a row, written down by the database itself in the order in which it happened to the row.
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


class Actor:
    """One connection that does whatever comes to its mind to a handful of rows."""

    def __init__(self, conn: Connection, name: str, ids: list[UUID], seed: int) -> None:
        self.conn, self.name, self.ids = conn, name, ids
        self.dice = random.Random(seed)
        self.held: list[Claimed] = []
        self.done: Counter[str] = Counter()

    async def act(self, times: int) -> None:
        await self.conn.execute("select set_config('windlass.now', (now() + interval '1 hour')::text, false)")
        acts = [self.claim, self.claim, self.succeed, self.set_back, self.heartbeat, self.cancel, self.expire]
        acts += [self.set_back, self.set_back, self.reopen, self.reopen, self.foreign, self.lapse]
        for _ in range(times):
            act = self.dice.choice(acts)
            self.done[act.__name__] += 1
            await self.conn.execute(BEGIN)
            await act()
            if self.dice.random() < 0.3:
                await self.dice.choice(acts)()  # two statements in one transaction, as a turn has
            await self.conn.execute("commit")

    def some(self) -> list[Any]:
        return self.dice.sample(self.held, self.dice.randint(0, len(self.held)))

    def any_ids(self) -> list[UUID]:
        return self.dice.sample(self.ids, self.dice.randint(1, 3))

    async def claim(self) -> None:
        count = self.dice.randint(1, 4)
        self.held += await jobs.claim(self.conn, [(LANE, count)], count=count, worker=self.name, lease=LEASE)
        self.held = self.held[-6:]

    async def succeed(self) -> None:
        await jobs.succeed(self.conn, [Success(job, '"done"') for job in self.some()], worker=self.name)

    async def set_back(self) -> None:
        moves = [JobMove.RETRY, JobMove.FAIL, JobMove.RELEASE]
        told = [Setback(job, self.dice.choice(moves), {"message": "x"}, timedelta()) for job in self.some()]
        await jobs.set_back(self.conn, told, worker=self.name)

    async def heartbeat(self) -> None:
        await jobs.heartbeat(self.conn, self.some(), worker=self.name, lease=LEASE)

    async def cancel(self) -> None:
        await jobs.cancel(self.conn, self.any_ids(), org="default", actor=self.name, reason=None)

    async def reopen(self) -> None:
        await jobs.reopen(self.conn, self.any_ids(), org="default", actor=self.name)

    async def expire(self) -> None:
        await jobs.release_expired(self.conn, 5, actor=self.name)

    async def lapse(self) -> None:
        """Some lease runs out. The rows are taken as the upkeep loop takes them: not if somebody is at them."""
        await self.conn.execute("""update workflow.workflow_run set lease_until = now() where id = any(array(
          select id from workflow.workflow_run where status = 'leased' order by id limit 2 for update skip locked))""")

    async def foreign(self) -> None:
        """An unfenced client's late word about one row, which is all its statement ever touches."""
        await self.conn.execute(
            """update workflow.workflow_run set status = 'succeeded', result = '"foreign"', updated_at = now()
                where id = any(array(select id from workflow.workflow_run where id = $1 for update skip locked))
                  and status <> 'pending'""",
            self.dice.choice(self.ids),
        )


@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_deadlocks_and_no_finished_row_moves_unless_reopened(
    database: str, conn: Connection, seed: int
) -> None:
    await conn.execute(WITNESS)
    ids = [
        r[0]
        for r in await conn.fetch("""insert into workflow.workflow_run (type, payload, queue, max_attempts)
          select 'a.b.v1', '{}', 'default', 50 from generate_series(1, 6) returning id""")
    ]
    clients = [await asyncpg.connect(database) for _ in range(4)]
    actors = [Actor(client, f"w{n}", ids, 10 * seed + n) for n, client in enumerate(clients)]
    results = await asyncio.gather(*(actor.act(800) for actor in actors), return_exceptions=True)
    for client in clients:
        await client.close()
    assert results == [None] * 4, [r for r in results if r]

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
    assert made >= legal, "the trial was too tame: some move never happened"
