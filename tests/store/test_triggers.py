"""The tables of triggers: the cost of a search follows the due schedules, not the size of the table."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from windlass.store.postgres.pool import BEGIN_POOLED
from windlass.store.postgres.queries import sql

Connection = Any
ORG = "default"
FILL = """
insert into windlass.workflow (id, org, name, live, token_hash)
select gen_random_uuid(), 'default', 'w' || n, 1, sha256(n::text::bytea) from generate_series(1, 2000) n;
insert into windlass.schedule
  (id, org, workflow_id, cron, timezone, input, overlap, catch_up, next_run_at, paused, buffered_at)
select gen_random_uuid(), 'default', id, '0 0 * * *', 'UTC', '{}', 'buffer', 'one',
       now() + (row_number() over (order by name) - 3) * interval '1 hour', name like '%9',
       case when name = 'w7' then now() end
  from windlass.workflow;
insert into windlass.run
  (id, org, workflow_id, version_id, state, steps, input, expires_at, idempotency_key, finished_at)
select gen_random_uuid(), 'default', w.id, 1, case when n <= 5 then 'running' else 'completed' end, 's', '{}',
       now() + interval '1 day', case when n > 3 then 'schedule/' else 'mine/' end || w.id || '/' || n,
       case when n > 5 then now() end
  from windlass.workflow w, generate_series(1, 10) n;
analyze
"""


async def explained(conn: Connection, query: str, *arguments: Any) -> list[dict[str, Any]]:
    await conn.execute(BEGIN_POOLED)
    try:
        text = await conn.fetchval(f"explain (analyze, format json) {query}", *arguments)
    finally:
        await conn.execute("rollback")
    return list(nodes(json.loads(text)[0]["Plan"]))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


@pytest.mark.parametrize(
    ("query", "bound"),
    [
        ("find_due", 30),
        ("next_due", 30),
        ("lock_due", 10),
        ("lock_named", 10),
        ("live_runs", 10),
        ("list", 110),
        ("get", 10),
        ("missing", 10),
        ("of_token", 10),
        ("remove", 10),
        ("disable", 10),
        ("put", 10),
    ],
)
async def test_the_cost_of_a_query_follows_its_result(conn: Connection, query: str, bound: int) -> None:
    await conn.execute(FILL)
    workflow, schedule = await conn.fetchrow(
        "select workflow_id, id from windlass.schedule order by next_run_at limit 1"
    )
    arguments: dict[str, tuple[Any, ...]] = {
        "find_due": (100,),
        "lock_due": (schedule,),
        "lock_named": (ORG, "w17"),
        "live_runs": (workflow,),
        "list": (ORG, "w17", 50),
        "get": (ORG, "w17"),
        "missing": ([workflow], [workflow]),
        "of_token": (b"x" * 32,),
        "remove": ([workflow],),
        "disable": (workflow,),
        "put": ([uuid4()], [workflow], ["@daily"], ["UTC"], ["{}"], ["skip"], ["all"], [None], ORG),
    }
    found = await explained(conn, sql("schedules", query), *arguments.get(query, ()))
    assert [node["Node Type"] for node in found if node["Node Type"] == "Seq Scan"] == []
    touched = [node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0) for node in found]
    assert max(touched) < bound, [(node["Node Type"], rows) for node, rows in zip(found, touched, strict=True)]


async def test_the_runs_of_schedules_have_their_own_index(conn: Connection) -> None:
    """A workflow may have many live runs started by requests: the scheduler does not read them."""
    await conn.execute(FILL)
    workflow = await conn.fetchval("select id from windlass.workflow limit 1")
    found = await explained(conn, sql("schedules", "live_runs"), workflow)
    assert {node["Index Name"] for node in found if "Index Name" in node} == {"run_scheduled"}


async def test_a_workflow_has_one_schedule_and_a_token_one_workflow(conn: Connection) -> None:
    await conn.execute(FILL)
    another = """insert into windlass.schedule (id, org, workflow_id, cron, timezone, input, overlap, catch_up)
                 select gen_random_uuid(), org, workflow_id, cron, timezone, input, overlap, catch_up
                   from windlass.schedule limit 1"""
    for statement in (another, "update windlass.workflow set token_hash = sha256('1') where name = 'w2'"):
        with pytest.raises(asyncpg.UniqueViolationError):
            await conn.execute(statement)
