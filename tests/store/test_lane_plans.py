"""Statements of the engine that search for due jobs walk the index of lanes, also with statistics from a time without
pending jobs. Before, each lane read all pending jobs by the index of plain SQL until the next analyze."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.store.test_plans import LEASE, assert_bounded
from windlass.store.postgres.queries import sql, without_reports
from windlass.testing import Databases

EACH = 200  # pending jobs of each lane
QUEUES = [f"q{n}" for n in range(5)]
TYPES = [f"t.{n}.v1" for n in range(4)]
# Of each lane: the queue, the type, the priority, the `seq` to begin after, whether it is alone, and its room.
LANES = [(queue, type_, 100, 0, False, 5) for queue in QUEUES for type_ in TYPES]

FILL = """insert into workflow.workflow_run (queue, type, payload)
  select queue, type, '{}' from unnest($1::text[]) as queue, unnest($2::text[]) as type, generate_series(1, $3::int)"""


@pytest.fixture(scope="module")
async def outdated(databases: Databases) -> AsyncIterator[str]:
    """A queue that was analyzed when it was empty, and has filled since."""
    async with databases.fresh() as url:
        conn = await asyncpg.connect(url)
        await conn.execute("alter table workflow.workflow_run set (autovacuum_enabled = false)")
        for _ in range(2):
            await conn.execute("update workflow.workflow_run set status = 'succeeded'")
            await conn.execute("vacuum analyze workflow.workflow_run")
            await conn.execute(FILL, QUEUES, TYPES, EACH)
        await conn.close()
        yield url


NOWHERE: list[None] = [None] * len(QUEUES)
STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a search for lanes": (sql("jobs", "find_lanes"), (QUEUES, NOWHERE, NOWHERE, NOWHERE, None, [], 1000)),
    "a claim": (
        without_reports(sql("jobs", "claim")),
        (*map(list, zip(*LANES, strict=True)), 50, "w", LEASE, None),
    ),
    "a claim with reports": (
        sql("jobs", "claim"),
        (
            *map(list, zip(*LANES, strict=True)),
            50,
            "w",
            LEASE,
            None,
            [uuid4() for _ in range(50)],
            [1] * 50,
            ["1"] * 50,
        ),
    ),
    "a fetch over HTTP": (
        sql("claims", "fetch"),
        (QUEUES, 10, "w", None, LEASE, None, LEASE, "default", None, None),
    ),
    "a list": (sql("jobs", "list"), ("default", ["pending"], None, None, 2**62, 10, None, True)),
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
async def test_a_statement_walks_the_index_of_lanes(outdated: str, statement: str, plan: str) -> None:
    query, arguments = STATEMENTS[statement]
    await assert_bounded(f"{outdated}&options=-c%20plan_cache_mode%3D{plan}", query, *arguments)
