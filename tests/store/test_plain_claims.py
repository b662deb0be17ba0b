"""Claims by programs that use plain SQL, as the manual and the Go SDK write them: they walk the index of the queue,
whatever the statistics of the table are. Sorting all pending jobs for each claim made them slow."""

import json
import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.store.roles import PAGE
from tests.store.test_plans import nodes

PENDING = 20_000
INDEX = "idx_workflow_run_claim"
GO = Path(__file__).parents[2] / "sdk/go/inbox/claim.go"
FILL = """insert into workflow.workflow_run (type, payload, priority)
  select 'billing.charge.v1', '{}', n % 7 from generate_series(1, $1) n"""


def of_the_manual() -> str:
    statement: str
    [statement] = re.findall(r"^select [^;]*? for update skip locked[^;]*", PAGE.read_text("utf-8"), re.MULTILINE)
    return statement


def of_the_go_sdk() -> str:
    statement: str
    [statement] = re.findall(r"const claimStatement = `(.*?)`", GO.read_text("utf-8"), re.DOTALL)
    return statement


CLAIMS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "the manual": (of_the_manual(), ()),
    "the Go SDK": (of_the_go_sdk(), ("{billing.%}", "{}", 10, "w", 30.0)),
}


@pytest.fixture
async def queue(conn: "asyncpg.Connection[Any]", request: pytest.FixtureRequest) -> "asyncpg.Connection[Any]":
    await conn.execute("alter table workflow.workflow_run set (autovacuum_enabled = false)")
    if request.param == "analyzed when it was empty":
        await conn.execute("analyze workflow.workflow_run")
    await conn.execute(FILL, PENDING)
    return conn


@pytest.mark.parametrize("queue", ["never analyzed", "analyzed when it was empty"], indirect=True)
@pytest.mark.parametrize("plan", ["force_custom_plan", "force_generic_plan"])
@pytest.mark.parametrize("client", CLAIMS)
async def test_a_claim_uses_the_index_of_the_queue(queue: "asyncpg.Connection[Any]", client: str, plan: str) -> None:
    statement, values = CLAIMS[client]
    await queue.execute(f"set plan_cache_mode = {plan}")
    async with queue.transaction():
        [[text]] = await queue.fetch(f"explain (analyze, format json) {statement}", *values)
    found = list(nodes(json.loads(text)[0]["Plan"]))
    [walk] = [node for node in found if node["Node Type"] == "Index Scan" and node["Index Name"] == INDEX]
    assert walk["Actual Rows"] + walk.get("Rows Removed by Filter", 0) <= 20
    assert all(node["Actual Rows"] <= 20 for node in found)
