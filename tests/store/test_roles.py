"""The rights of the manual's roles on the inbox, and their limits."""

import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.engine.harness import ManualWorker
from tests.store.contract_harness import CANCEL, CREATE, HEARTBEAT, LEASE, LOG, execute
from tests.store.roles import acting
from windlass.core.jobs.spec import JobSpec
from windlass.engine import upkeep, workflows
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import control as run_engine
from windlass.engine.runs import start, sweep
from windlass.engine.runs.start import RunSpec

Client = Any
DENIED = asyncpg.InsufficientPrivilegeError
ROLES = ("shop_producer", "billing_worker", "wide")
BULK = "insert into workflow.workflow_run (type, payload) select 'a.b.v1', '{}' from generate_series(1, 25)"
COMMAND = json.dumps({"run": "id", "input": {}, "runs_on": "local"})
ANSWER = '{"status_code": 200, "headers": {}, "body": "paid", "is_truncated": false, "duration_ms": 1}'


@pytest.fixture(params=ROLES)
async def client(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Client]:
    async with acting(database, request.param) as client:
        yield client


@pytest.fixture
async def producer(database: str) -> AsyncIterator[Client]:
    async with acting(database, "shop_producer") as client:
        yield client


@pytest.fixture
async def worker(database: str) -> AsyncIterator[Client]:
    async with acting(database, "billing_worker") as client:
        yield client


async def trail(conn: Client, id_: UUID) -> list[tuple[str, str | None]]:
    rows = await conn.fetch(
        "select event_type, actor from workflow.workflow_event where workflow_id = $1 order by id", id_
    )
    return [(row["event_type"], row["actor"]) for row in rows]


async def step_of_a_run(db: Tenant) -> tuple[UUID, UUID]:
    """A run, and the job of its HTTP step."""
    step = {"url": "https://pay.example/charge", "headers": {"Authorization": "Bearer sk_live_SECRET"}}
    await workflows.publish_many(db, [{"name": "charge", "tasks": {"pay": step}}])
    [run] = await start.start(db, "charge", [RunSpec()])
    [job] = (await jobs.list_(db, run=run)).jobs
    return run, job.id


# Permitted statements


async def test_a_producer_submits_reads_and_cancels_jobs_with_the_documented_statements(producer: Client) -> None:
    [created] = await producer.fetch(CREATE)
    assert await producer.fetch(CREATE) == []
    await execute(producer, CANCEL, run_id=created["id"])
    found = await producer.fetchrow("select status, result from workflow.workflow_run where id = $1", created["id"])
    assert tuple(found) == ("cancelled", None)


async def test_a_worker_leases_extends_and_reports_with_the_documented_statements(worker: Client, conn: Client) -> None:
    [created] = await worker.fetch(CREATE)
    await execute(worker, LEASE, worker_id="w", run_id=created["id"])
    await execute(worker, HEARTBEAT, run_id=created["id"])
    await execute(worker, LOG, run_id=created["id"])
    done = "update workflow.workflow_run set status = 'succeeded', result = '1', updated_at = now() where id = $1"
    await worker.execute(done, created["id"])
    assert await conn.fetchval("select status from workflow.workflow_run") == "succeeded"


async def test_a_workers_report_of_a_job_step_advances_its_run(worker: Client, db: Tenant) -> None:
    await workflows.publish_many(db, [{"name": "bill", "tasks": {"a": {"job": "billing.invoice.v1"}}}])
    [run] = await start.start(db, "bill", [RunSpec()])
    id_ = await worker.fetchval("select id from workflow.workflow_run where type = 'billing.invoice.v1' for update")
    await execute(worker, LEASE, worker_id="w", run_id=id_)
    await worker.execute("update workflow.workflow_run set status = 'succeeded', result = '1' where id = $1", id_)
    await sweep.sweep_runs(db)
    assert (await run_engine.get(db, run)).state == "completed"


# Denied statements


@pytest.mark.parametrize("type_", ["windlass.command.v1", "windlass.http.v1", "windlass.webhook.v1", "windlass.x"])
async def test_no_role_submits_a_reserved_type(client: Client, conn: Client, type_: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match=f"type {type_} is reserved for the engine"):
        await client.execute("insert into workflow.workflow_run (type, payload) values ($1, $2)", type_, COMMAND)
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 0


async def test_the_owner_cannot_submit_a_reserved_type_or_queue(conn: Client) -> None:
    for statement in (
        "insert into workflow.workflow_run (type, payload, queue) values ('windlass.command.v1', '{}', 'windlass')",
        "insert into workflow.workflow_run (type, payload, queue) values ('a.b.v1', '{}', 'windlass')",
        "select windlass.submit('windlass.command.v1', '{}')",
        "select windlass.submit('a.b.v1', '{}', queue => 'windlass')",
        """insert into workflow.workflow_schedule (type, schedule, next_run_at)
           values ('windlass.command.v1', '* * * * *', now())""",
    ):
        with pytest.raises(asyncpg.CheckViolationError, match="reserved"):
            await conn.execute(statement)


async def test_no_role_sees_the_secrets_of_http_steps(client: Client, db: Tenant) -> None:
    _, job = await step_of_a_run(db)
    seen = await client.fetch("select id from workflow.workflow_run")
    assert (job in {row["id"] for row in seen}, len(seen)) == (False, 0)


async def test_no_role_forges_the_result_of_an_http_step(client: Client, db: Tenant, conn: Client) -> None:
    _, job = await step_of_a_run(db)
    for statement in (
        "update workflow.workflow_run set status = 'cancelled', updated_at = now() where id = $1",
        f"update workflow.workflow_run set status = 'succeeded', result = '{ANSWER}' where id = $1",
        f"update workflow.workflow_run set status = 'succeeded', settled = false, result = '{ANSWER}' where id = $1",
    ):
        try:
            assert await client.execute(statement, job) == "UPDATE 0"
        except DENIED:
            continue
    assert await conn.fetchval("select status from workflow.workflow_run where id = $1", job) == "pending"


@pytest.mark.parametrize(
    "column",
    [
        "run_id",
        "version_id",
        "step",
        "org",
        "settled",
        "needs_created_event",
        "epoch",
        "status",
        "leased_by",
        "claim_no",
    ],
)
async def test_no_role_sets_a_column_of_the_engine(client: Client, column: str) -> None:
    values = {"run_id": f"'{uuid4()}'", "org": "'other'", "settled": "false", "needs_created_event": "false",
              "status": "'succeeded'", "leased_by": "'me'"}  # fmt: skip
    value = values.get(column, "7")
    with pytest.raises(DENIED):
        await client.execute(
            f"insert into workflow.workflow_run (type, payload, {column}) values ('a.b.v1', '{{}}', {value})"
        )


async def test_no_role_turns_its_job_into_a_step_of_a_run(client: Client, db: Tenant) -> None:
    run, _ = await step_of_a_run(db)
    [created] = await client.fetch(CREATE)
    for change in (
        f"run_id = '{run}'",
        "queue = 'windlass'",
        "type = 'windlass.command.v1'",
        "org = 'other'",
        "epoch = 5",
    ):
        with pytest.raises(DENIED):
            await client.execute(f"update workflow.workflow_run set {change} where id = $1", created["id"])


async def test_a_producer_reads_no_payloads_and_writes_no_results(producer: Client, conn: Client) -> None:
    [created] = await producer.fetch(CREATE)
    for statement in (
        "select payload from workflow.workflow_run",
        "select * from workflow.workflow_run",
        "update workflow.workflow_run set result = '1'",
        "update workflow.workflow_run set leased_by = 'me'",
        "update workflow.workflow_registry set is_enabled = false",
        "delete from workflow.workflow_run",
        "select * from windlass.server_key",
    ):
        with pytest.raises(DENIED):
            await producer.execute(statement)
    for status in ("succeeded", "failed", "leased"):
        with pytest.raises(DENIED, match="producers_may_only_cancel"):
            await producer.execute("update workflow.workflow_run set status = $1", status)
    assert await conn.fetchval("select status from workflow.workflow_run where id = $1", created["id"]) == "pending"


async def test_no_role_deletes_jobs_or_forges_the_actor_of_an_event(client: Client, conn: Client) -> None:
    [created] = await client.fetch(CREATE)
    await conn.execute(f"grant delete on workflow.workflow_run to {await client.fetchval('select session_user')}")
    assert await client.execute("delete from workflow.workflow_run where id = $1", created["id"]) == "DELETE 0"
    if "wide" in await client.fetchval("select session_user"):
        return
    line = "insert into workflow.workflow_event (workflow_id, event_type, actor) values ($1, 'succeeded', 'w1')"
    with pytest.raises(DENIED):
        await client.execute(line, created["id"])


# Events of their statements


async def test_an_insert_and_a_cancel_by_plain_sql_have_one_event_each(client: Client, conn: Client) -> None:
    role = await client.fetchval("select session_user")
    [created] = await client.fetch(CREATE)
    assert await trail(conn, created["id"]) == [("created", role)]
    await execute(client, CANCEL, run_id=created["id"])
    await execute(client, CANCEL, run_id=created["id"])  # already cancelled: nothing changes
    assert await trail(conn, created["id"]) == [("created", role), ("cancelled", role)]


async def test_a_bulk_insert_gets_its_created_events_from_upkeep(client: Client, db: Tenant, conn: Client) -> None:
    ids = [row["id"] for row in await client.fetch(f"{BULK} returning id")]
    assert await trail(conn, ids[0]) == []
    assert await upkeep.log_created(db) == 25
    assert [await trail(conn, id_) for id_ in ids] == [[("created", "sql")]] * 25
    assert await upkeep.log_created(db) == 0


async def test_a_bulk_inserted_job_that_is_claimed_before_upkeep_has_its_created_event_first(
    client: Client, db: Tenant, conn: Client
) -> None:
    await client.execute(BULK)
    player = await ManualWorker.registered(db)
    [job, *_] = await player.take()
    assert [word for word, _ in await trail(conn, job.id)] == ["created", "leased"]
    await upkeep.log_created(db)
    assert [word for word, _ in await trail(conn, job.id)] == ["created", "leased"]


async def test_inserts_in_one_transaction_have_one_created_event_per_row(client: Client, conn: Client) -> None:
    one = "insert into workflow.workflow_run (type, payload) values ('a.b.v1', '{}') returning id"
    async with client.transaction():
        ids = [await client.fetchval(one) for _ in range(30)]
    assert [len(await trail(conn, id_)) for id_ in ids] == [1] * 30


async def test_events_written_by_a_client_are_merged_with_the_automatic_ones(client: Client, conn: Client) -> None:
    [created] = await client.fetch(CREATE)
    line = "insert into workflow.workflow_event (workflow_id, event_type, data) values ($1, $2, $3)"
    await client.execute(line, created["id"], "created", None)
    await execute(client, CANCEL, run_id=created["id"])
    await client.execute(line, created["id"], "cancelled", '{"reason": "changed my mind"}')
    assert [word for word, _ in await trail(conn, created["id"])] == ["created", "cancelled"]
    data = await conn.fetchval("select data from workflow.workflow_event where event_type = 'cancelled'")
    assert json.loads(data) == {"reason": "changed my mind"}


async def test_a_cancel_that_a_worker_notices_has_one_event(client: Client, db: Tenant, conn: Client) -> None:
    [created] = await client.fetch(CREATE)
    player = await ManualWorker.registered(db)
    [job] = await player.take()
    await execute(client, CANCEL, run_id=created["id"])
    assert not await player.end(job, 1)
    assert [word for word, _ in await trail(conn, created["id"])] == ["created", "leased", "cancelled"]


async def test_jobs_of_the_engine_and_of_windlass_submit_have_one_event_per_change(db: Tenant, conn: Client) -> None:
    [ours] = await jobs.submit(db, [JobSpec(type="a.b.v1")])
    theirs = await conn.fetchval("select windlass.submit('a.b.v1', '{}')")
    run, step = await step_of_a_run(db)
    await jobs.cancel(db, ours, reason="no")
    assert await trail(conn, ours) == [("created", "windlass"), ("cancelled", "windlass")]
    assert [word for word, _ in await trail(conn, theirs)] == ["created"]
    await run_engine.cancel(db, run)
    assert [word for word, _ in await trail(conn, step)] == ["created", "cancelled"]
