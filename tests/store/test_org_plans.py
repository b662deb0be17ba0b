"""A list of the jobs of one org costs a page of its own jobs, however many jobs the other orgs have."""

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import asyncpg
import pytest

from tests.store.test_plans import cost, nodes
from windlass.store import jobs
from windlass.store.jobs import Filter
from windlass.store.postgres.pool import BEGIN_POOLED, Connection
from windlass.testing import Databases

OTHERS = 3_000  # finished jobs, and as many pending ones, of each other org
OWN, PAGE, BOUND = 200, 20, 60
OF_ORG = "idx_workflow_run_org_seq"

# All orgs have the same types, as those of one product do. Acme's jobs are spread over the history of the others. The
# triggers are not what is tested: replica mode skips them.
FILL = [
    "insert into windlass.org (name) values ('acme'), ('rival')",
    "select windlass.create_api_role()",
    """insert into workflow.workflow_run (org, type, payload, queue, status, result, due)
       select org, 'mail.send.v1', '{}', case org when 'default' then '' else org || '/' end || 'mail', status,
              case status when 'succeeded' then '{}'::jsonb end, true
         from generate_series(1, $1) n
        cross join (values ('default'), ('rival'), ('acme')) as o(org)
        cross join (values ('succeeded'), ('pending')) as s(status)
        where org <> 'acme' or n % ($1 / $2) = 0""",
    "vacuum analyze workflow.workflow_run",
]


class Explained:
    """A connection that keeps the plan of each statement."""

    def __init__(self, conn: "asyncpg.Connection[Any]") -> None:
        self._conn = conn
        self.scans: list[tuple[str | None, int]] = []  # (index, rows) of each scan of the inbox

    async def fetch(self, query: str, *arguments: Any) -> Any:
        await self._conn.execute(f"prepare listed as {query}")  # the generic plan, as for the statements of the pool
        values = ", ".join(literal(value) for value in arguments)
        text = await self._conn.fetchval(f"explain (analyze, format json) execute listed({values})")
        scans = [node for node in nodes(json.loads(text)[0]["Plan"]) if node.get("Relation Name") == "workflow_run"]
        self.scans = [(scan.get("Index Name"), cost(scan)) for scan in scans]
        return await self._conn.fetch(query, *arguments)


def literal(value: Any) -> str:
    if isinstance(value, list):
        return f"array[{', '.join(map(literal, value))}]"
    return "null" if value is None else f"'{value}'"


@pytest.fixture(scope="module")
async def shared(databases: Databases) -> AsyncIterator[str]:
    """A database with the jobs of three orgs."""
    async with databases.fresh() as url:
        await fill(url)
        yield url


async def fill(url: str) -> None:
    conn = await asyncpg.connect(url)
    await conn.execute("set session_replication_role = replica; set synchronous_commit = off")
    for statement in FILL:
        await conn.execute(statement, *([OTHERS, OWN] if "$1" in statement else []))
    await conn.close()


async def listed(url: str, filter_: Filter, *, isolated: bool) -> tuple[list[jobs.Job], list[tuple[str | None, int]]]:
    conn = await asyncpg.connect(url)
    try:
        await conn.execute(BEGIN_POOLED)
        if isolated:
            await conn.execute(f"set local role windlass_api; set local windlass.org = '{filter_.org}'")
        explained = Explained(conn)
        return await jobs.list_(cast(Connection, explained), filter_), explained.scans
    finally:
        await conn.close()


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize(
    "filter_",
    [
        Filter(org="acme", limit=PAGE),
        Filter(org="acme", statuses=["succeeded"], limit=PAGE),
        Filter(org="acme", statuses=["succeeded", "pending"], queue="mail", limit=PAGE),
        Filter(org="acme", type="mail.%", limit=PAGE),
        Filter(org="acme", steps=False, before=2**60, limit=PAGE),
    ],
)
async def test_a_list_of_another_org_reads_the_index_of_that_org(shared: str, filter_: Filter, isolated: bool) -> None:
    page, scans = await listed(shared, filter_, isolated=isolated)
    assert (len(page), [job.seq for job in page]) == (PAGE, sorted((job.seq for job in page), reverse=True))
    [(index, rows)] = scans
    assert (index, rows <= BOUND) == (OF_ORG, True), scans


@pytest.mark.parametrize("isolated", [False, True])
async def test_a_list_of_pending_jobs_reads_at_most_the_pending_jobs_of_its_org(shared: str, isolated: bool) -> None:
    for statuses in (["pending"], ["pending", "leased"]):
        page, scans = await listed(shared, Filter(org="acme", statuses=statuses, limit=PAGE), isolated=isolated)
        assert (len(page), {job.queue for job in page}) == (PAGE, {"mail"})
        assert sum(rows for _, rows in scans) <= OWN + BOUND, scans


async def test_pending_jobs_of_the_default_org_are_not_searched_in_the_queues_of_others(shared: str) -> None:
    page, scans = await listed(shared, Filter(org="default", statuses=["pending"], limit=PAGE), isolated=False)
    assert len(page) == PAGE
    assert sum(rows for _, rows in scans) <= BOUND, scans
