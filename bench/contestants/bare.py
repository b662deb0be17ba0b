"""The baseline for jobs: the writes of a durable job with plain asyncpg, without an engine.

Each lane has one connection and repeats one transaction: record the ended batch, claim the next. Between two
transactions it runs an empty coroutine for each job. Columns, indexes and audit events are like those of Windlass.
"""

import asyncio
import os
import time
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from bench.contestants.stage import POOL, Tally, Turn, clock_drain, clock_singles, perform
from bench.contestants.stage import share as share_queue

SETTINGS = {"batch": 100, "lanes": 2}

TABLES = """
create table task (
  id uuid primary key,
  kind text not null,
  payload jsonb not null,
  state text not null default 'waiting',
  priority int not null default 100,
  queue text not null default 'default',
  place bigint generated always as identity,
  run_at timestamptz not null default now(),
  unique_key text unique,
  tries int not null default 0,
  fence int not null default 0,
  holder text,
  held_until timestamptz,
  result jsonb,
  created_at timestamptz not null default now(),
  changed_at timestamptz not null default now()
) with (fillfactor = 80);
create index task_waiting on task (queue, kind, priority, place) where state = 'waiting';
create index task_held on task (held_until) where state = 'held';
create table audit (
  id bigint generated always as identity primary key,
  task_id uuid not null,
  word text not null,
  data jsonb,
  created_at timestamptz not null default now()
);
create index audit_of_task on audit (task_id);
"""

ADD = """
with added as (
  insert into task (id, kind, payload) select a.id, 'noop', a.payload
    from unnest($1::uuid[], $2::jsonb[]) as a(id, payload) returning id)
insert into audit (task_id, word) select id, 'created' from added
"""

TAKE = """
with next as (
  select id from task
   where state = 'waiting' and queue = 'default' and kind = 'noop' and priority = 100 and run_at <= now()
   order by place limit $1 for update skip locked),
taken as (
  update task set state = 'held', holder = $2, held_until = now() + interval '30 seconds', fence = fence + 1,
                  changed_at = now()
   where id = any (array(select id from next)) returning id, fence, payload),
noted as (insert into audit (task_id, word) select id, 'held' from taken)
select id, fence, payload from taken
"""

END = """
with ended as (
  update task t set state = 'done', result = e.result, holder = null, held_until = null, changed_at = now()
    from unnest($1::uuid[], $2::int[], $3::jsonb[]) as e(id, fence, result)
   where t.id = e.id and t.fence = e.fence and t.holder = $4 returning t.id)
insert into audit (task_id, word) select id, 'done' from ended
"""

DONE = "select not exists (select from task where state in ('waiting', 'held'))"


async def prepare(turn: Turn) -> dict[str, Any]:
    conn = await asyncpg.connect(turn.url)
    await conn.execute(TABLES)
    await _add(conn, turn)
    await conn.close()
    return {}


async def submit(turn: Turn) -> dict[str, Any]:
    conn = await asyncpg.connect(turn.url)
    started = time.perf_counter()
    await _add(conn, turn)
    seconds = time.perf_counter() - started
    await conn.close()
    return {"seconds": seconds}


async def singles(turn: Turn) -> dict[str, Any]:
    async with asyncpg.create_pool(turn.url, min_size=POOL, max_size=POOL) as pool:
        return {"seconds": await clock_singles(turn, lambda: pool.execute(ADD, [uuid4()], ["{}"]))}


async def drain(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count)
    async with _pool(turn) as pool:
        return {"seconds": await clock_drain(turn, lambda: _work(pool, turn, tally), tally, DONE)}


async def share(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count)
    async with _pool(turn) as pool:
        await share_queue(lambda: _work(pool, turn, tally), tally, DONE)
    return {}


def _pool(turn: Turn) -> Any:
    lanes = turn.settings["lanes"]
    return asyncpg.create_pool(turn.url, min_size=lanes, max_size=lanes)


async def _work(pool: "asyncpg.Pool[Any]", turn: Turn, tally: Tally) -> None:
    holders = [f"{os.getpid()}/{lane}" for lane in range(turn.settings["lanes"])]
    await asyncio.gather(*(_lane(pool, turn.settings["batch"], holder, tally) for holder in holders))


async def _add(conn: "asyncpg.Connection[Any]", turn: Turn) -> None:
    for size in turn.batches():
        ids: list[UUID] = [uuid4() for _ in range(size)]
        await conn.execute(ADD, ids, ["{}"] * size)


async def _lane(pool: "asyncpg.Pool[Any]", batch: int, holder: str, tally: Tally) -> None:
    async def handle(_payload: str) -> None:
        tally.add()

    async with pool.acquire() as conn:
        ended: list[Any] = []
        while True:
            async with conn.transaction():
                if ended:
                    ids, fences = [row["id"] for row in ended], [row["fence"] for row in ended]
                    await conn.execute(END, ids, fences, ["null"] * len(ended), holder)
                taken = await conn.fetch(TAKE, batch, holder)
            if not taken:
                return
            await asyncio.gather(*(handle(row["payload"]) for row in taken))
            ended = taken


if __name__ == "__main__":
    perform({"prepare": prepare, "submit": submit, "singles": singles, "drain": drain, "share": share}, SETTINGS)
