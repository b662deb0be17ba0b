"""Fills the archive of Windlass with runs of three steps that ended more than a day ago, by a few large statements.

The rows are like those that the engine archives: ids in chronological order, results, fences, sequence numbers; every
tenth run has events. Later measurements run on the tables and indexes of a system that has been in use for a while.
"""

from collections.abc import Iterable
from typing import Any

import asyncpg

STEPS = 3
DAYS = 3
CHUNK = 50_000  # runs in one statement
WITH_TRAIL = 10  # one run of so many has events, to save time and disk

VERSION = """
select w.id as workflow_id, v.id
  from windlass.workflow w join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.org = 'default' and w.name = $1
"""

# An id of version 7 for the moment and the number given: the past in its order, the tail without any.
ID = """
create function pg_temp.past_id(at timestamptz, number bigint) returns uuid language sql immutable
  return (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(md5(number::text), 1, 3)
          || '8' || substr(md5(number::text), 4, 15))::uuid
"""

PAST = """
create temp view past as
select n as number, at, pg_temp.past_id(at, n) as id
  from (select n, now() - interval '1 day' - interval '{days} days' * (1 - n::float8 / {runs}) as at
          from generate_series({first}, {last}) as n) as moment
"""

RUNS = """
insert into windlass.run_archive_{week} (id, org, workflow_id, version_id, state, steps, input, created_at, started_at,
                                         finished_at, expires_at)
select id, 'default', $1, $2, 'completed', repeat('s', {steps}), '{{}}', at, at, at + interval '1 second',
       at + interval '30 days'
  from past where windlass.archive_week(at + interval '1 second') = '{week}'
"""

JOBS = """
insert into windlass.job_archive_{week} (id, type, payload, status, run_at, created_at, updated_at, result, queue,
                                        claim_no, run_id, version_id, step, item, needs_created_event, seq)
select pg_temp.past_id(at, number * 10 + step + 1), 'bench.step.v1', '{{}}', 'succeeded', at, at,
       at + interval '1 second', 'null', 'default', 1, id, $1, step, 0, false,
       nextval('workflow.workflow_run_seq_seq')
  from past cross join generate_series(0, {steps} - 1) as step
 where windlass.archive_week(at + interval '1 second') = '{week}'
"""

JOB_EVENTS = """
insert into workflow.workflow_event (workflow_id, event_type, actor, attempt, created_at)
select pg_temp.past_id(at, number * 10 + step + 1), word, case word when 'created' then 'windlass' else 'bench' end,
       case word when 'created' then null else 1 end, at
  from past cross join generate_series(0, {steps} - 1) as step
 cross join unnest(array['created', 'leased', 'succeeded']) as word
 where number % {share} = 0
"""

RUN_EVENTS = """
insert into windlass.event (run_id, word, actor, created_at)
select id, word, case word when 'running' then 'windlass' else 'bench' end, at
  from past cross join unnest(array['running', 'completed']) as word
 where number % {share} = 0
"""


async def fill(url: str, count: int, workflow: str) -> int:
    """Insert `count` ended jobs of a deployed workflow of three steps; return the number of their runs."""
    conn = await asyncpg.connect(url)
    await conn.execute("set synchronous_commit = off")
    await conn.execute("set windlass.writes_events = on")  # as the engine does; a trigger would write events otherwise
    await conn.execute(ID)
    weeks = set()
    for days in range(1, DAYS + 2):
        await conn.execute("select windlass.make_event_partition(now() - $1 * interval '1 day')", days)
        weeks.add(await conn.fetchval("select windlass.archive_week(now() - $1 * interval '1 day')", days))
    for week in weeks:
        await conn.execute("select windlass.make_archive($1)", week)
    version = await conn.fetchrow(VERSION, workflow)
    assert version is not None
    runs = count // STEPS
    for first in range(1, runs + 1, CHUNK):
        await _past(conn, version, runs, first, min(first + CHUNK - 1, runs), weeks)
    await conn.close()
    return runs


async def _past(conn: Any, version: Any, runs: int, first: int, last: int, weeks: Iterable[str]) -> None:
    numbers = {"days": DAYS, "runs": runs, "first": first, "last": last, "steps": STEPS, "share": WITH_TRAIL}
    async with conn.transaction():
        await conn.execute(PAST.format(**numbers))
        for week in weeks:
            await conn.execute(RUNS.format(**numbers, week=week), version["workflow_id"], version["id"])
            await conn.execute(JOBS.format(**numbers, week=week), version["id"])
        await conn.execute(JOB_EVENTS.format(**numbers))
        await conn.execute(RUN_EVENTS.format(**numbers))
        await conn.execute("drop view past")
