"""Streams read only new events, and logs only their own lines, however long the history is."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from tests.store.test_plans import cost, nodes
from windlass.core.events.cursor import Snapshot
from windlass.store.postgres.pool import BEGIN_POOLED
from windlass.store.postgres.queries import sql
from windlass.testing import Databases

MANY = 40_000
BOUND = 500
RUN = UUID(int=7)

FILL = [
    "insert into windlass.workflow (id, org, name, live) values (lpad('1', 32, '0')::uuid, 'default', 'w', 1)",
    """insert into windlass.version (workflow_id, number, document, fingerprint)
    values (lpad('1', 32, '0')::uuid, 1, '{}', '')""",
    f"""insert into windlass.run (id, org, workflow_id, version_id, state, steps, input, expires_at)
    select lpad(to_hex(n), 32, '0')::uuid, 'default', lpad('1', 32, '0')::uuid, 1, 'running', 'aa', '{{}}', now()
      from generate_series(1, {MANY} / 20) n""",
    f"""insert into windlass.event (run_id, step, word)
    select lpad(to_hex(1 + n / 20), 32, '0')::uuid, n % 2, 'active' from generate_series(0, {MANY} - 1) n""",
    f"""insert into workflow.workflow_run (id, type, payload, run_id, version_id, step, item, settled)
    select lpad(to_hex(n), 32, '0')::uuid, 't', '{{}}', lpad(to_hex(1 + n / 20), 32, '0')::uuid, 1, n % 2, n / 2 % 10,
           false
      from generate_series(0, {MANY} - 1) n""",
    """insert into workflow.workflow_event (workflow_id, event_type) select id, 'created' from workflow.workflow_run""",
    """insert into windlass.job_log (job_id, attempt, line, at, level, message)
    select id, 1, 1, now(), 'INFO', 'x' from workflow.workflow_run""",
    "analyze",
]


@pytest.fixture(scope="module")
async def history(databases: Databases) -> AsyncIterator[tuple[str, Snapshot]]:
    """A database with a long history and a few newer events, and the snapshot taken in between."""
    async with databases.fresh() as url:
        yield url, await fill(url)


async def fill(url: str) -> Snapshot:
    conn = await asyncpg.connect(url)
    await conn.execute("set synchronous_commit = off")
    for statement in FILL:
        await conn.execute(statement)
    found = Snapshot.parse(await conn.fetchval(sql("events", "here")))
    for _ in range(3):
        await conn.execute("insert into windlass.event (run_id, step, word) values ($1, 0, 'active')", RUN)
    await conn.execute(
        "insert into workflow.workflow_event (workflow_id, event_type) "
        "select id, 'leased' from workflow.workflow_run where run_id = $1",
        RUN,
    )
    await conn.close()
    return found


@pytest.mark.parametrize(
    ("noun", "name", "arguments"),
    [
        ("events", "since", (5000, None)),
        ("events", "since_of_run", (RUN, 0, 0, 5000)),
        ("inspect", "last_lines", (RUN, None, None, None, 100)),
        ("inspect", "lines_by_step", (RUN, None, None, None, 0, 3, 0, 0, 0, 5000)),
        ("inspect", "lines_since", (RUN, 1, None, None)),
        ("inspect", "leased_jobs", (RUN, None)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_stream_or_log_query_reads_only_the_requested_rows(
    history: tuple[str, Snapshot], noun: str, name: str, arguments: tuple[Any, ...]
) -> None:
    url, base = history
    snapshot = (str(base.xmax), [str(xid) for xid in base.under_way])
    if noun == "events":
        arguments = (*snapshot, *arguments)
    elif name == "lines_since":
        arguments = (*arguments, *snapshot)
    conn = await asyncpg.connect(url)
    await conn.execute(BEGIN_POOLED)
    try:
        [plan] = json.loads(await conn.fetchval(f"explain (analyze, format json) {sql(noun, name)}", *arguments))
    finally:
        await conn.execute("rollback")
        await conn.close()
    scans = [node for node in nodes(plan["Plan"]) if node.get("Relation Name")]
    told = [(scan["Node Type"], scan["Relation Name"], scan.get("Index Name"), cost(scan)) for scan in scans]
    large = [scan for scan in told if scan[1] not in ("workflow", "version")]
    assert not [scan for scan in large if scan[0] == "Seq Scan"], told
    assert sum(scan[3] for scan in large) < BOUND, told
