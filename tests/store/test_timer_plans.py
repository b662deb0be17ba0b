"""The cost of taking due timers depends on the size of the batch, not on how many are due: ten thousand sleeps may end
in the same second."""

from typing import Any

import asyncpg

from windlass.store.postgres.pool import PLANNER
from windlass.store.postgres.queries import sql

FILL = """insert into windlass.timer (run_id, step, due_at)
  select gen_random_uuid(), 0, now() - interval '1 minute' from generate_series(1, 10000)"""


async def test_due_timers_are_taken_through_the_primary_key_index(database: str) -> None:
    conn: Any = await asyncpg.connect(database, server_settings=PLANNER)
    await conn.execute(FILL)
    await conn.execute(f"prepare take(uuid[]) as {sql('timers', 'take_due')}")
    some = await conn.fetchval("select array_agg(run_id)::text from (select run_id from windlass.timer limit 500) as x")
    lines = [row[0] for row in await conn.fetch(f"explain (analyze, costs off) execute take('{some}')")]
    await conn.close()
    plan = "\n".join(lines)
    assert "timer_pkey" in plan
    assert "timer_due" not in plan
    assert "Rows Removed" not in plan
