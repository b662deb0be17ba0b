"""Queries of the Open Job Spec extensions use indexes on a long history; their cost depends only on what they count."""

import json
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from tests.store.test_plans import cost, nodes
from windlass.store.postgres.pool import BEGIN_POOLED
from windlass.store.postgres.queries import sql

MANY, CAP = 5_000, 200
JOB = UUID(int=7)
FILLS = [
    """insert into workflow.workflow_run (id, type, payload, queue, status, meta, claim_no, leased_by)
       select lpad(to_hex(n), 32, '0')::uuid, 'done.x.v1', '{}', 'default', 'succeeded',
              jsonb_build_object('tenant_id', 't' || n % 20), 1, null from generate_series(1, $1) n""",
    """insert into workflow.workflow_run (type, payload, queue)
       select 'x.v' || n % 5, '{}', 'q' from generate_series(1, $1) n""",
    """insert into workflow.workflow_run (type, payload, queue, run_at, due)
       select 'x.v1', '{}', 'q', now() + interval '1 day', false from generate_series(1, $1) n""",
    """insert into windlass.checkpoint (job_id, name, state, input)
       select lpad(to_hex(n), 32, '0')::uuid, 'step', '1', md5('{}') from generate_series(1, $1) n""",
    """insert into windlass.artifact
         (job_id, fence, name, org, run_id, step, index, attempt, key, media_type, size, remove_at)
       select lpad(to_hex(n), 32, '0')::uuid, 1, 'a', 'default', lpad(to_hex(n / 10), 32, '0')::uuid, 's' || n % 5,
              n % 10, 1, 'k', 'text/plain', 1, case when n % 100 = 0 then now() + interval '1 day' end
         from generate_series(1, $1) n""",
    "insert into windlass.progress (job_id, fraction) select job_id, 0.5 from windlass.checkpoint where $1 > 0",
    """insert into workflow.workflow_event (workflow_id, event_type)
       select lpad(to_hex(n), 32, '0')::uuid, 'succeeded' from generate_series(1, $1) n""",
]
ASKED: dict[str, tuple[str, str, tuple[Any, ...], int]] = {
    "recorded calls": ("checkpoints", "recorded", ([JOB],), 40),
    "a timeline": ("checkpoints", "timeline", (JOB, 100, 0), 20),
    "what handlers wait for": ("checkpoints", "waits", ([JOB],), 20),
    "a handler is suspended": (
        "checkpoints",
        "suspend",
        ([JOB], [1], ["w"], "w", [JOB], ["s"], ["sleep"], [0], ["null"], [True], [timedelta(hours=1)], [JOB], ["s"]),
        40,
    ),
    "a checkpoint": ("checkpoints", "get", (JOB,), 20),
    "checkpoints of fetched jobs": ("checkpoints", "of_jobs", ([JOB, UUID(int=8)],), 20),
    "a call is recorded": ("checkpoints", "record", (JOB, 1, ["x"], ["step"], [0], ["1"], [False], [None]), 20),
    "an artifact is reserved": ("artifacts", "reserve", (JOB, 1, "x", JOB, "s1", 0, 1, "k", "text/plain", 1000), 20),
    "an artifact is complete": ("artifacts", "complete", (JOB, 1, "a", 1), 20),
    "artifacts of a run": ("artifacts", "list", (JOB, "default", None, "", -1, "", -1, CAP), 60),
    "an artifact": ("artifacts", "find", (JOB, "default", "s1", 1, "a", None, False), 20),
    "artifacts of a job": ("artifacts", "list_of_job", (JOB, "default", "", -1, CAP), 20),
    "an artifact of a job": ("artifacts", "find_of_job", (JOB, "default", "a", None), 20),
    "artifacts of steps": ("artifacts", "of_steps", ([JOB], ["s1"], ["a"], CAP), 40),
    "artifacts to remove": ("artifacts", "removable", (CAP,), CAP),
    "progress": ("progress", "get", (JOB,), 20),
    "progress is reported": ("progress", "report", ([JOB], [1], [0.1], [None], [None]), 20),
    "how full a queue is": ("queues", "depth", ("q", CAP), 20 * CAP),
    "ends of the last minute": ("queues", "ends", (CAP, "default"), 6 * CAP),
    "tenants": ("tenants", "list", ("default", 1000), 100),
    "jobs of a tenant": ("tenants", "counts", ("default", "t1", CAP), 3 * CAP),
    "a target": ("subscriptions", "target", (JOB, timedelta(hours=24), JOB), 20),
    "where the reader is": ("subscriptions", "place", (), 20),
    "new jobs are counted": ("usage", "count", ("999999", ["999"], "1000999"), 20),
    "limits of orgs": ("usage", "allowances", (["default", "acme"],), 20),
    "leased jobs of orgs": ("usage", "leased", (["default", "acme"],), 20),
    "live runs of an org": ("usage", "live_runs", ("default", 10), 20),
    "workflows of an org": ("usage", "workflow_names", ("default",), 20),
    "what an org uses": ("usage", "list", ("default", "", 1, CAP), 40),
}


async def test_the_cost_of_a_query_does_not_depend_on_the_history(conn: "asyncpg.Connection[Any]") -> None:
    await conn.execute("set session_replication_role = replica")
    for fill in FILLS:
        await conn.execute(fill, MANY)
    await conn.execute("vacuum analyze")
    for name, (noun, query, arguments, bound) in ASKED.items():
        await conn.execute(BEGIN_POOLED)
        [plan] = json.loads(await conn.fetchval(f"explain (analyze, format json) {sql(noun, query)}", *arguments))
        await conn.execute("rollback")
        scans = [node for node in nodes(plan["Plan"]) if "Scan" in node["Node Type"] and "Relation Name" in node]
        told = [(scan["Node Type"], scan["Relation Name"], scan.get("Index Name"), cost(scan)) for scan in scans]
        assert sum(map(cost, scans)) <= bound, (name, told)
        small = {"subscription", "bookmark", "org"}
        assert not [scan for scan in told if scan[0] == "Seq Scan" and scan[1] not in small], (name, told)
