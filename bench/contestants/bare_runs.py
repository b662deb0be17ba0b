"""The baseline for workflows: the writes of a run with plain asyncpg, without an engine.

A run has one letter per step and the number of tasks that its current step still waits for. Each lane repeats one
transaction: lock the runs of the ended batch, record the batch, advance the runs, insert the tasks of their next steps,
claim the next batch. It has one hard-coded definition and no conditions, retries or notifications.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from bench.contestants import bare
from bench.contestants.stage import POLL_INTERVAL, Tally, Turn, clock_drain, clock_fan_out, perform

SETTINGS = {**bare.SETTINGS, "fan_batch": 250}  # with 100 the two lanes wait for each other's lock on the one run
CHAIN = (1, 1, 1)  # number of tasks of each step

TABLES = (
    bare.TABLES
    + """
alter table task add run_id uuid, add step int, add item int;
create unique index task_of_run on task (run_id, step, item) where run_id is not null;
create table run (
  id uuid primary key,
  state text not null default 'running',
  letters text not null,
  awaited int not null,
  input jsonb not null default '{}',
  created_at timestamptz not null default now(),
  ended_at timestamptz
) with (fillfactor = 50);
create index run_live on run (created_at) where state = 'running';
"""
)

START = """
insert into run (id, letters, awaited) select a.id, $2, $3 from unnest($1::uuid[]) as a(id)
"""

ADD = """
with added as (
  insert into task (id, kind, payload, run_id, step, item)
  select case a.many when 1 then a.id else gen_random_uuid() end, 'noop', '{}', a.run_id, a.step, n
    from unnest($1::uuid[], $2::uuid[], $3::int[], $4::int[]) as a(id, run_id, step, many)
   cross join lateral generate_series(0, a.many - 1) as n
  returning id)
insert into audit (task_id, word) select id, 'created' from added
"""

TAKE = bare.TAKE.replace("fence, payload", "fence, payload, run_id, step")

HOLD = "select id, letters, awaited from run where id = any ($1::uuid[]) order by id for update"

ADVANCE = """
update run r set letters = a.letters, awaited = a.awaited, state = a.state,
                 ended_at = case a.state when 'running' then null else now() end
  from unnest($1::uuid[], $2::text[], $3::int[], $4::text[]) as a(id, letters, awaited, state) where r.id = a.id
"""

DONE = "select not exists (select from run where state = 'running')"


async def prepare_chains(turn: Turn) -> dict[str, Any]:
    conn = await asyncpg.connect(turn.url)
    await conn.execute(TABLES)
    for size in turn.batches():
        async with conn.transaction():
            await _start(conn, [uuid4() for _ in range(size)], CHAIN)
    await conn.close()
    return {}


async def chains(turn: Turn) -> dict[str, Any]:
    tally = Tally(turn.count * len(CHAIN))
    loop = Loop(turn, CHAIN, turn.settings["batch"], tally.add)
    async with loop.pool() as pool:
        return {"seconds": await clock_drain(turn, lambda: loop.work(pool), tally, DONE, loop.stop)}


async def fan_out(turn: Turn) -> dict[str, Any]:
    widths = (1, turn.count, 1)
    loop = Loop(turn, widths, turn.settings["fan_batch"])
    conn = await asyncpg.connect(turn.url)
    await conn.execute(TABLES)
    async with loop.pool() as pool:
        working = asyncio.create_task(loop.work(pool))

        async def once() -> None:
            loop.ended.clear()
            async with conn.transaction():
                await _start(conn, [uuid4()], widths)
            await loop.ended.wait()

        samples = await clock_fan_out(once)
        loop.stop()
        await working
    await conn.close()
    return {"seconds": samples}


class Loop:
    """Runs the lanes until `stop` is called."""

    def __init__(self, turn: Turn, widths: Sequence[int], batch: int, begun: Any = lambda: None) -> None:
        self._turn, self._widths, self._batch, self._begun = turn, widths, batch, begun
        self._stopped = False
        self.ended = asyncio.Event()  # set when a run has ended

    def pool(self) -> Any:
        lanes = self._turn.settings["lanes"]
        return asyncpg.create_pool(self._turn.url, min_size=lanes, max_size=lanes)

    def stop(self) -> None:
        self._stopped = True

    async def work(self, pool: "asyncpg.Pool[Any]") -> None:
        await asyncio.gather(*(self._lane(pool, f"lane {n}") for n in range(self._turn.settings["lanes"])))

    async def _lane(self, pool: "asyncpg.Pool[Any]", holder: str) -> None:
        async with pool.acquire() as conn:
            taken: list[Any] = []
            while not self._stopped or taken:
                async with conn.transaction():
                    has_ended = await self._settle(conn, taken, holder) if taken else False
                    taken = await conn.fetch(TAKE, self._batch, holder)
                if has_ended:
                    self.ended.set()
                if taken:
                    await asyncio.gather(*(self._handle(row["payload"]) for row in taken))
                else:
                    await asyncio.sleep(POLL_INTERVAL / 2)

    async def _handle(self, _payload: str) -> None:
        self._begun()

    async def _settle(self, conn: Any, taken: Sequence[Any], holder: str) -> bool:
        """Record the ended tasks and advance their runs; return whether a run has ended."""
        ends = Counter(row["run_id"] for row in taken)
        runs = await conn.fetch(HOLD, list(ends))
        ids, fences = [row["id"] for row in taken], [row["fence"] for row in taken]
        await conn.execute(bare.END, ids, fences, ["null"] * len(taken), holder)
        rows, begun = [], []
        for run in runs:
            letters, awaited = run["letters"], run["awaited"] - ends[run["id"]]
            if not awaited:
                letters, step = letters.replace("a", "s").replace(".", "a", 1), letters.index("a") + 1
                if step < len(letters):
                    awaited = self._widths[step]
                    begun.append((run["id"], step, awaited))
            rows.append((run["id"], letters, awaited, "running" if awaited else "completed"))
        await conn.execute(ADVANCE, *map(list, zip(*rows, strict=True)))
        if begun:
            await _add(conn, begun)
        return any(state == "completed" for *_, state in rows)


async def _start(conn: Any, ids: Sequence[UUID], widths: Sequence[int]) -> None:
    await conn.execute(START, ids, "a" + "." * (len(widths) - 1), widths[0])
    await _add(conn, [(id_, 0, widths[0]) for id_ in ids])


async def _add(conn: Any, steps: Sequence[tuple[UUID, int, int]]) -> None:
    """Insert the tasks of steps, given as (run, step, number of tasks)."""
    await conn.execute(ADD, [uuid4() for _ in steps], *map(list, zip(*steps, strict=True)))


if __name__ == "__main__":
    perform({"prepare_chains": prepare_chains, "chains": chains, "fan_out": fan_out}, SETTINGS)
