"""The cost of claims, searches and lists depends on what they return, not on the size of the inbox.

Three times thirty thousand rows here, a million as a soak test: finished, due but of a type that the worker does not
serve, and not yet due.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from windlass.store.postgres.pool import BEGIN_POOLED
from windlass.store.postgres.queries import sql, without_reports
from windlass.store.workers import ALL_PENDING
from windlass.testing import Databases

SOME, MILLION = 30_000, 1_000_000
BOUND = 2_000  # rows or index entries a statement may touch
LEASE = timedelta(seconds=30)
CLAIM = without_reports(sql("jobs", "claim"))

# Replica mode skips the triggers, so `due` is given by hand; indexes come last, as one sort each; no WAL is written.
FILL = [
    """insert into workflow.workflow_run (type, payload, queue, status, result, due)
       select 'done.x.v1', '{}', 'default', 'succeeded', '{}', true from generate_series(1, $1)""",
    """insert into workflow.workflow_run (type, payload, queue, due)
       select 'theirs.x.v1', '{}', 'default', true from generate_series(1, $1)""",
    """insert into workflow.workflow_run (type, payload, queue, run_at, due)
       select 'ours.x.v1', '{}', 'default', now() + n * interval '1 second' + interval '1 day', false
         from generate_series(1, $1) n""",
    """insert into workflow.workflow_run (type, payload, queue, due)
       select 'ours.x.v1', '{}', 'default', true from generate_series(1, greatest($1 / 10000, 100))""",
]


KEYS = """select conname as name, pg_get_constraintdef(oid) as made from pg_constraint
  where conrelid = 'workflow.workflow_run'::regclass and contype in ('p', 'u')"""
INDEXES = """select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as made from pg_index
  where indrelid = 'workflow.workflow_run'::regclass and not indisunique"""


@pytest.fixture(
    scope="module", params=[SOME, pytest.param(MILLION, marks=[pytest.mark.soak, pytest.mark.timeout(900)])]
)
async def crowded(request: pytest.FixtureRequest, databases: Databases) -> AsyncIterator[str]:
    """One database for the module."""
    async with databases.fresh() as url:
        await fill(url, request.param)
        yield url


async def fill(url: str, count: int) -> None:
    conn = await asyncpg.connect(url)
    await conn.execute("set session_replication_role = replica; set synchronous_commit = off")
    await conn.execute("alter table workflow.workflow_run set unlogged")
    async with without_indexes(conn):
        for statement in FILL:
            await conn.execute(statement, count)
    await conn.execute("analyze workflow.workflow_run")
    await conn.close()


@asynccontextmanager
async def without_indexes(conn: "asyncpg.Connection[Any]") -> AsyncIterator[None]:
    """Drop the indexes of the inbox for the block, so that filling it is fast."""
    async with conn.transaction():
        await conn.execute("set local maintenance_work_mem = '512MB'")
        keys, indexes = await conn.fetch(KEYS), await conn.fetch(INDEXES)
        for key in keys:
            await conn.execute(f"alter table workflow.workflow_run drop constraint {key['name']}")
        for index in indexes:
            await conn.execute(f"drop index {index['name']}")
        yield
        for key in keys:
            await conn.execute(f"alter table workflow.workflow_run add constraint {key['name']} {key['made']}")
        for index in indexes:
            await conn.execute(index["made"])


async def touched(url: str, query: str, *arguments: Any) -> tuple[int, list[dict[str, Any]]]:
    """Execute and roll back a statement; return how many rows of the inbox it touched, and its scans."""
    conn = await asyncpg.connect(url)
    await conn.execute(BEGIN_POOLED)
    try:
        [plan] = json.loads(await conn.fetchval(f"explain (analyze, buffers, format json) {query}", *arguments))
    finally:
        await conn.execute("rollback")
        await conn.close()
    scans = [
        node
        for node in nodes(plan["Plan"])
        if node.get("Relation Name") == "workflow_run" and "Scan" in node["Node Type"]
    ]
    return sum(cost(scan) for scan in scans), scans


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def cost(scan: dict[str, Any]) -> int:
    rows = scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0)
    return int(rows * scan["Actual Loops"])


async def assert_bounded(url: str, query: str, *arguments: Any) -> None:
    rows, scans = await touched(url, query, *arguments)
    told = [(scan["Node Type"], scan.get("Index Name"), cost(scan)) for scan in scans]
    assert not [scan for scan in told if scan[0] == "Seq Scan"], told
    assert rows < BOUND, told
    blocks = sum(scan["Shared Hit Blocks"] + scan["Shared Read Blocks"] for scan in scans)
    assert blocks < 10 * BOUND, told


async def test_a_full_scan_skips_from_lane_to_lane(crowded: str) -> None:
    nowhere: list[None] = [None, None]
    places = (["default", "sql"], nowhere, nowhere, nowhere)
    await assert_bounded(crowded, sql("jobs", "find_lanes"), *places, None, [], 1000)
    rows, _ = await touched(crowded, sql("jobs", "find_lanes"), *places, ["ours.x.v1", "none.x.v1"], [], 1000)
    assert rows < 10
    rows, _ = await touched(crowded, sql("jobs", "find_lanes"), *places, ["ours.x.v1"], ["done.%"], 1000)
    assert rows < 10


async def test_a_claim_reads_only_the_jobs_it_takes(crowded: str) -> None:
    lanes = (["default"], ["ours.x.v1"], [100], [0], [False], [100])
    await assert_bounded(crowded, CLAIM, *lanes, 100, "w1", LEASE, None)


async def test_a_claim_with_reports_reads_only_the_jobs_it_takes_and_records(crowded: str) -> None:
    lanes = (["default"], ["ours.x.v1"], [100], [0], [False], [100])
    reports = ([uuid4() for _ in range(100)], [1] * 100, ["null"] * 100)
    await assert_bounded(crowded, sql("jobs", "claim"), *lanes, 100, "w1", LEASE, None, *reports)


async def test_a_claim_from_many_lanes_reads_only_the_jobs_it_takes(crowded: str) -> None:
    types = ["ours.x.v1", *(f"none{n}.x.v1" for n in range(98)), "theirs.x.v1"]
    lanes = (["default"] * 100, types, [100] * 100, [0] * 100, [False] * 100, [100] * 100)
    await assert_bounded(crowded, CLAIM, *lanes, 100, "w1", LEASE, None)


async def test_a_fetch_by_queue_reads_only_the_jobs_it_takes(crowded: str) -> None:
    arguments = (["none", "default"], 100, "w1", None, LEASE, None, LEASE, "default")
    await assert_bounded(crowded, sql("claims", "fetch"), *arguments, None, [])
    await assert_bounded(crowded, sql("claims", "fetch"), *arguments, ["ours.x.v1"], ["ours.%"])


async def test_a_claim_of_one_job_reads_few_rows(crowded: str) -> None:
    lanes = (["default"], ["ours.x.v1"], [100], [0], [False], [1])
    rows, _ = await touched(crowded, CLAIM, *lanes, 1, "w1", LEASE, None)
    assert rows < 10


@pytest.mark.parametrize(
    ("noun", "name", "arguments"),
    [
        ("jobs", "become_due", [1000, None]),
        ("timers", "next_due", []),
        ("jobs", "release_expired", [500, "upkeep", [], [], None, None]),
        ("runs", "find_unsettled", [500]),
        ("runs", "find_pending", [500, UUID(int=0)]),
        ("pending", "runs", [["run"]]),
        ("pending", "jobs", []),
        ("pending", "process", ["recovery", True]),
        ("workers", "date_open_leases", [LEASE, LEASE]),
        ("queues", "wake_rate_limited", []),
        ("runs", "live_below", [[UUID(int=0)], 10_000]),
        ("runs", "find_expired", [500]),
        ("timers", "find_due", [500]),
        ("claims", "overdue", [500]),
        ("claims", "expire", [500, "upkeep", None]),
        ("dead_letters", "list_by_queue", ["default", None, 50, 0]),
        ("claims", "find_unique", [["k"], ['["due"]'], [None]]),
        ("crons", "find_due", [100]),
    ],
)
async def test_queries_of_the_loops_are_bounded_when_nothing_is_due(
    crowded: str, noun: str, name: str, arguments: list[Any]
) -> None:
    await assert_bounded(crowded, sql(noun, name), *arguments)


async def test_the_query_for_pending_work_of_all_loops_is_bounded(crowded: str) -> None:
    await assert_bounded(crowded, ALL_PENDING, "recovery", True, ["run"])


@pytest.mark.parametrize(
    ("noun", "name", "arguments"),
    [
        ("jobs", "release_expired", [500, "upkeep", [], [], None, None]),
        ("jobs", "find_expired", [500]),
        ("workers", "find_under_lease", [2, LEASE]),
        ("workers", "close_lease", [2]),
        ("workers", "forget_leases", [LEASE]),
    ],
)
async def test_lease_recovery_does_not_read_the_jobs_of_live_workers(
    database: str, noun: str, name: str, arguments: list[Any]
) -> None:
    conn = await asyncpg.connect(database)
    await conn.execute("select set_config('windlass.now', (now() - interval '1 hour')::text, false)")
    await conn.execute("insert into windlass.worker_lease (worker, until) select 'w', now() + interval '1 day'")
    await conn.execute("insert into windlass.worker_lease (worker, until) select 'dead', windlass.now()")
    await conn.execute(
        """insert into workflow.workflow_run (type, payload, status, leased_by, worker_lease)
           select 'a.b.v1', '{}', 'leased', 'w', case when n > 3 then 1 else 2 end from generate_series(1, 5000) as n"""
    )
    for analyzed in (False, True):
        if analyzed:
            await conn.execute("analyze")
        rows, _ = await touched(database, sql(noun, name), *arguments)
        assert rows < 50, analyzed
    await conn.close()


async def test_pruning_reads_only_a_batch(crowded: str) -> None:
    await assert_bounded(crowded, sql("jobs", "prune"), timedelta(days=30), 500)


ANYTHING: dict[str, Any] = {"statuses": None, "queue": None, "type": None, "before": 2**62, "limit": 50, "tag": None}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"statuses": ["succeeded"]},
        {"statuses": ["pending"]},
        {"statuses": ["leased"]},
        {"statuses": ["failed", "cancelled"]},
        {"type": "ours.%"},
        {"before": 15_000},
        {"statuses": ["succeeded"], "before": 15_000, "type": "done.x.v1", "queue": "default"},
    ],
    ids=str,
)
async def test_the_cost_of_a_page_does_not_depend_on_the_history(crowded: str, wanted: dict[str, Any]) -> None:
    asked = {**ANYTHING, **wanted}
    await assert_bounded(crowded, sql("jobs", "list"), "default", *asked.values(), True)


# The claim of a foreign poller names no lane, but it must not sort a million rows either.
FOREIGN = """update workflow.workflow_run set status = 'leased', leased_by = 'go-1', updated_at = now(),
  lease_until = now() + interval '30 s' where id = (select id from workflow.workflow_run where status = 'pending'
  and run_at <= now() and deleted_at is null and type like 'theirs.%' order by priority, created_at
  for update skip locked limit 1) returning id"""


async def test_a_foreign_claim_at_the_head_of_the_queue_reads_few_rows(crowded: str) -> None:
    await assert_bounded(crowded, FOREIGN)
