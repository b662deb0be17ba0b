"""Every list of the API uses an index: the cost of a page does not depend on the length of the history.

Ten thousand runs, jobs and dead letters here, a million of each as a soak test.
"""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.store.test_plans import cost, nodes, without_indexes
from tests.store.test_run_plans import FILL as RUNS
from windlass.store.dead_letters import LATEST
from windlass.store.postgres.pool import BEGIN_POOLED
from windlass.store.postgres.queries import sql
from windlass.store.runs import RunFilter
from windlass.testing import Databases

BOUND = 2_000  # rows or index entries a statement may touch
SOME, MILLION = 10_000, 1_000_000
WORKFLOW = UUID(int=1)
RUN = UUID(int=7)

# The triggers are not tested here: replica mode skips them, so `due` is set explicitly.
FILLS = [
    "insert into windlass.workflow (id, org, name, live) select lpad(n::text, 32, '0')::uuid, 'default', 'w' || n, 1 "
    "from generate_series(1, 2) n",
    "insert into windlass.version (workflow_id, number, document, fingerprint) "
    """select id, 1, '{"trigger": "api", "tasks": []}', '' from windlass.workflow""",
    """update windlass.run set finished_at = created_at, started_at = created_at
        where state not in ('pending', 'running')""",
    """insert into workflow.workflow_run (type, payload, queue, status, result)
       select 'done.x.v1', '{}', 'default', 'succeeded', '{}' from generate_series(1, $1)""",
    """insert into workflow.workflow_run (type, payload, queue, status, last_error)
       select 'bad.x.v1', '{}', 'default', 'failed', 'no order ' || n from generate_series(1, $1) n""",
    """insert into workflow.workflow_run (type, payload, queue, status, last_error)
       select 'bad.x.v' || n % 20, '{}', 'default', 'failed', 'kind ' || chr(65 + n % 20)
         from generate_series(1, 200) n""",
    """insert into workflow.workflow_run (type, payload, queue, meta)
       select 'ours.x.v1', '{}', 'default', case when n % ($1 / 100) = 0 then '{"tenant_id": "berlin"}'::jsonb end
         from generate_series(1, $1) n""",
    """insert into workflow.workflow_run (type, payload, queue, run_at, due)
       select 'ours.x.v1', '{}', 'q' || n % 3, now() + interval '1 day', false from generate_series(1, $1) n""",
    """insert into workflow.workflow_run (type, payload, queue, status, leased_by, lease_until, run_id, step, item)
       select 'step.x.v1', '{}', 'default', 'leased', 'w' || n % 10, now(), lpad('7', 32, '0')::uuid, 0, n
         from generate_series(1, 500) n""",
    """insert into workflow.workflow_event (workflow_id, event_type)
       select gen_random_uuid(), 'succeeded' from generate_series(1, $1)""",
    """insert into windlass.event (run_id, word) select lpad(to_hex(n % 1000), 32, '0')::uuid, 'running'
         from generate_series(1, $1) n""",
    """insert into windlass.job_log (job_id, attempt, line, at, level, message)
       select lpad(to_hex(n % 1000), 32, '0')::uuid, 1, n, now(), 'INFO', 'x' from generate_series(1, $1) n""",
]


@pytest.fixture(
    scope="module", params=[SOME, pytest.param(MILLION, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
async def long_history(databases: Databases, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    async with databases.fresh() as url:
        await fill(url, request.param)
        yield url


async def fill(url: str, count: int) -> None:
    conn = await asyncpg.connect(url)
    await conn.execute("set synchronous_commit = off; set session_replication_role = replica")
    began = datetime.now(UTC) - timedelta(seconds=count)  # one a second
    await conn.execute(RUNS, count, began)
    async with without_indexes(conn):
        for statement in FILLS:
            await conn.execute(statement, *([count] if "$1" in statement else []))
    await conn.execute("vacuum analyze")
    await conn.close()


JOBS = ("default", None, None, None, 2**62, 50, None)
ALL_JOBS = (*JOBS, True)
DEAD = ("default", None, None, None, None, LATEST)
CAP = 500  # the limit of a count; ten thousand in production

LISTS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "GET /workflows": ("workflows", "list", ("default", "", 50)),
    "its numbers": ("stats", "of_workflows", ([WORKFLOW, UUID(int=2)], 100, 20)),
    "GET /runs": ("runs", "list", RunFilter(org="default").arguments),
    "GET /runs?status=failed": (
        "runs",
        "list_by_state",
        RunFilter(org="default", states=["failed", "timeout"]).more_arguments,
    ),
    "GET /runs?status=running": ("runs", "list_by_state", RunFilter(org="default", states=["running"]).more_arguments),
    "GET /workflows/{ref}/runs": ("runs", "list_of_workflow", RunFilter(org="default", workflow_id=WORKFLOW).arguments),
    "GET /runs/{id}/events": ("runs", "trail", (RUN, 100, 0, 0, None, [0, 1], datetime(2020, 1, 1, tzinfo=UTC), None)),
    "GET /jobs": ("jobs", "list", ALL_JOBS),
    "GET /jobs?status=failed": ("jobs", "list", ("default", ["failed"], *ALL_JOBS[2:])),
    "GET /jobs?status=pending&queue=q1": ("jobs", "list", ("default", ["pending"], "q1", *ALL_JOBS[3:])),
    "GET /jobs with a label": ("jobs", "list_of_label", (*ALL_JOBS, "berlin")),
    "GET /jobs?run=": ("jobs", "list_of_run", (*JOBS, RUN, None)),
    "GET /jobs/{id}/events": ("events", "of_job", (RUN, 100, 0)),
    "GET /jobs/{id}/logs": ("events", "log_lines", (RUN, None, -1, 0, 0, 100)),
    "GET /workers/{id}": ("jobs", "list_held", ("w1", "default", 1000)),
    "GET /dead-letters": ("dead_letters", "groups", (*DEAD, 50, CAP)),
    "GET /dead-letters/jobs": ("dead_letters", "list", (*DEAD, 50)),
    "POST /dead-letters/retry": ("dead_letters", "find", ("default", "bad.x.v1", *DEAD[2:], 100)),
    "GET /stats, runs": ("stats", "live_runs", ("default", CAP)),
    "GET /stats, jobs": ("stats", "ended_jobs", ("default", CAP)),
    "GET /stats, ticks": ("stats", "next_ticks", ("default", 10)),
}
# These queries count rows: their bound is the number of rows that they count.
COUNTS: dict[str, tuple[str, str, tuple[Any, ...], int]] = {
    "GET /queues": ("queues", "list", ("", 100, CAP, None, "default"), 12 * CAP),
    "the rate": ("queues", "rates", (CAP, timedelta(minutes=1), "default"), 5 * CAP),
    "GET /stats, hours": ("stats", "hours", ("default", CAP), 50 * CAP),
}
ALL = {name: (*asked, BOUND) for name, asked in LISTS.items()} | COUNTS


@pytest.mark.parametrize("name", ALL)
async def test_the_cost_of_a_page_does_not_depend_on_the_history(long_history: str, name: str) -> None:
    noun, query, arguments, bound = ALL[name]
    conn = await asyncpg.connect(long_history)
    await conn.execute(BEGIN_POOLED)
    try:
        [plan] = json.loads(await conn.fetchval(f"explain (analyze, format json) {sql(noun, query)}", *arguments))
    finally:
        await conn.execute("rollback")
        await conn.close()
    scans = [node for node in nodes(plan["Plan"]) if node.get("Relation Name")]
    told = [(scan["Node Type"], scan["Relation Name"], scan.get("Index Name"), cost(scan)) for scan in scans]
    assert not [scan for scan in told if scan[0] == "Seq Scan" and scan[3] > 100], told
    assert sum(rows for *_, rows in told) < bound, told
