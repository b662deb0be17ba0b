"""Lists of runs use an index: the cost of a page does not depend on the length of the history."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.store.test_plans import cost, nodes
from windlass.core import ids
from windlass.core.ids import earliest
from windlass.store.postgres.pool import BEGIN_POOLED
from windlass.store.postgres.queries import sql
from windlass.store.runs import NEWEST, OLDEST
from windlass.testing import Databases

MANY = 300_000
BOUND = 2_000
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)  # the first run; then one a second
WORKFLOW = UUID(int=1)

# Nearly all completed, one in a thousand failed, the last fifty running; one in ten has labels.
FILL = """insert into windlass.run
  (id, org, workflow_id, version_id, state, steps, input, labels, created_at, expires_at)
select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'))::uuid,
       'default', lpad(case n % 100 when 0 then '1' else '2' end, 32, '0')::uuid, 1,
       case when n > $1 - 50 then 'running' when n % 1000 = 0 then 'failed' else 'completed' end,
       's', '{}', case n % 10 when 0 then
         jsonb_build_object('team', case n % 20 when 0 then 'blue' else 'green' end, 'order', n::text) end,
       at, at + interval '30 days'
  from generate_series(1, $1) n cross join lateral (select $2::timestamptz + n * interval '1 second' as at) t"""


@pytest.fixture(scope="module")
async def long_history(databases: Databases) -> AsyncIterator[str]:
    async with databases.fresh() as url:
        await fill(url)
        yield url


async def fill(url: str) -> None:
    conn = await asyncpg.connect(url)
    await conn.execute("set synchronous_commit = off")
    for n in (1, 2):
        await conn.execute(
            "insert into windlass.workflow (id, org, name, live) values ($1, 'default', $2, 1)", UUID(int=n), f"w{n}"
        )
    await conn.execute(
        "insert into windlass.version (workflow_id, number, document, fingerprint) values ($1, 1, '{}', '')", WORKFLOW
    )
    await conn.execute(FILL, MANY, BEGAN)
    await conn.execute("analyze windlass.run")
    await conn.close()


LONG_AGO = BEGAN + timedelta(seconds=MANY // 10)


def asked(
    states: list[str] | None = None, workflow: UUID | None = None, before: UUID = NEWEST, around: datetime | None = None
) -> tuple[Any, ...]:
    """Return the arguments of a list; `around` selects the minute that starts then, with a tolerance for clocks."""
    page = ("default", workflow, states, None, before, 50)
    if around is None:
        return (*page, OLDEST, None, None)
    page = ("default", workflow, states, None, earliest(around + timedelta(minutes=1)), 50)
    return (*page, earliest(around), around, around + timedelta(minutes=1))


def also(
    arguments: tuple[Any, ...], text: str | None = None, *, retrying: bool = False, labels: str | None = None
) -> tuple[Any, ...]:
    """Add the arguments of filters that only some queries accept."""
    found = ids.beginning_with(text) if text else None
    return (*arguments[:3], labels, *arguments[4:], text, *(found or (None, None)), retrying)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list", asked()),
        ("list", asked(["completed"])),
        ("list", asked(before=earliest(LONG_AGO))),
        ("list", asked(around=LONG_AGO)),
        ("list_of_workflow", asked(workflow=WORKFLOW)),
        ("list_of_workflow", asked(workflow=WORKFLOW, before=earliest(LONG_AGO))),
        ("list_by_state", also(asked(["pending", "running"]))),
        ("list_by_state", also(asked(["pending", "running"]), "blu", retrying=True)),
        ("list_by_state", also(asked(["failed", "timeout"]))),
        ("list_by_state", also(asked(["failed", "timeout"]), "w")),
        ("list_by_state", also(asked(["failed"], around=LONG_AGO))),
        ("find_live", also(asked(["pending", "running"]), "w")),
        ("find_bad", also(asked(["failed", "timeout"]))),
        ("list_about", also(asked(), "019b")),
        ("list_about", also(asked(), "w")),
        ("list_about", also(asked(), "te")),
        ("list_about", also(asked(["completed"]), "blu", labels='{"team": "blue"}')),
        ("list_about", also(asked(), "29999")),
        ("list_labelled", (*also(asked(), labels='{"team": "blue"}')[:9], "team", "blue")),
        ("list_labelled", (*also(asked(before=earliest(LONG_AGO)), labels='{"team": "blue"}')[:9], "team", "blue")),
        ("list_retrying", also(asked(), retrying=True)),
    ],
)
async def test_the_cost_of_a_page_does_not_depend_on_the_history(
    long_history: str, name: str, arguments: tuple[Any, ...]
) -> None:
    conn = await asyncpg.connect(long_history)
    await conn.execute(BEGIN_POOLED)
    try:
        query = f"explain (analyze, format json) {sql('runs', name)}"
        [plan] = json.loads(await conn.fetchval(query, *arguments))
    finally:
        await conn.execute("rollback")
        await conn.close()
    scans = [node for node in nodes(plan["Plan"]) if node.get("Relation Name") in ("run", "label", "workflow_run")]
    told = [(scan["Node Type"], scan.get("Index Name"), cost(scan)) for scan in scans]
    assert not [scan for scan in told if scan[0] == "Seq Scan"], told
    assert sum(rows for _, _, rows in told) < BOUND, told
    assert name == "list_retrying" or sum(rows for _, _, rows in told) > 0, told


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("running", (WORKFLOW,)), ("list_by_state", also(asked(["pending", "running"])))],
    ids=["counting the running ones", "a page"],
)
async def test_the_cost_of_reading_live_runs_does_not_grow_with_pending_runs(
    long_history: str, name: str, arguments: tuple[Any, ...]
) -> None:
    conn = await asyncpg.connect(long_history)
    await conn.execute(BEGIN_POOLED)
    try:
        await conn.execute(
            """insert into windlass.run (id, org, workflow_id, version_id, state, steps, input, expires_at)
            select windlass.new_id(), 'default', $1, 1, 'pending', '.', '{}', now() from generate_series(1, 5000)""",
            WORKFLOW,
        )
        query = f"explain (analyze, format json) {sql('runs', name)}"
        [plan] = json.loads(await conn.fetchval(query, *arguments))
    finally:
        await conn.execute("rollback")
        await conn.close()
    assert sum(cost(node) for node in nodes(plan["Plan"]) if node.get("Relation Name") == "run") < 200
