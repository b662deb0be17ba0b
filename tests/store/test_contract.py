"""The SQL contract: the statements of its design document and of its clients work unchanged."""

import asyncio
import json
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.store.contract_harness import (
    CANCEL,
    CHECK,
    CLAIM,
    CREATE,
    DEPTH,
    EVENT,
    EVENTS,
    EXTEND,
    FAIL,
    FIRE,
    GET,
    HEARTBEAT,
    LEASE,
    LIST,
    LOG,
    MOVE_ON,
    NOW,
    PAUSE,
    POLL_GO,
    POLL_PYTHON,
    SCHEDULE,
    SCHEDULE_GO,
    SCHEDULES,
    STOP,
    SUBMIT,
    SUCCEED,
    TICK,
    UNSCHEDULE,
    Connection,
    execute,
    polled,
    row,
    submitted,
)
from windlass.embedded.binaries import find_binaries

# Statements of the design document


async def test_the_documented_insert_creates_one_job_per_idempotency_key(conn: Connection) -> None:
    first = await conn.fetchval(CREATE)
    assert isinstance(first, UUID)
    assert await conn.fetchval(CREATE) is None
    job = await row(conn, first)
    assert (job["status"], job["priority"], job["attempt"], job["max_attempts"]) == ("pending", 100, 0, 3)
    assert json.loads(job["payload"]) == {"content_id": "c_123", "width": 300, "height": 300}
    assert (job["queue"], job["due"], job["result"], job["leased_by"]) == ("sql", True, None, None)


async def test_the_documented_worker_claims_heartbeats_and_sees_the_cancel(conn: Connection, database: str) -> None:
    first, second = [
        await conn.fetchval("insert into workflow.workflow_run (type, payload) values ($1, '{}') returning id", type_)
        for type_ in ("billing.invoice.v1", "payment.refund.v1")
    ]
    await conn.execute("insert into workflow.workflow_run (type, payload) values ('content.ocr.v1', '{}')")
    other = await asyncpg.connect(database)
    async with conn.transaction():
        [mine] = await execute(conn, CLAIM)
        async with other.transaction():
            [theirs] = await execute(other, CLAIM)  # skips what is locked
        await execute(conn, LEASE, worker_id="worker-1", run_id=mine["id"])
    await other.close()
    assert (mine["id"], theirs["id"]) == (first, second)
    leased = await row(conn, first)
    assert (leased["status"], leased["leased_by"]) == ("leased", "worker-1")
    await conn.execute("update workflow.workflow_run set lease_until = now() where id = $1", first)
    await execute(conn, HEARTBEAT, run_id=first)
    assert (await row(conn, first))["lease_until"] > datetime.now(UTC) + timedelta(seconds=20)
    await execute(conn, LOG, run_id=first)
    await execute(conn, CANCEL, run_id=first)
    assert [r["status"] for r in await execute(conn, CHECK, run_id=first)] == ["cancelled"]
    assert (await row(conn, first))["leased_by"] is None
    events = await conn.fetch("select * from workflow.workflow_event where workflow_id = $1 order by id", first)
    assert [event["event_type"] for event in events] == ["created", "heartbeat", "cancelled"]
    event = events[1]
    assert (event["event_type"], json.loads(event["data"])) == ("heartbeat", {"extended_by_seconds": 30})


def test_the_documented_statements_work_in_psql(database: str, tmp_path: Path) -> None:
    script = tmp_path / "contract.sql"
    billing = CREATE.replace("'content.thumbnail.v1'", "'billing.invoice.v1'")
    take = "begin;" + CLAIM.rstrip().rstrip(";") + r" \gset" + "\n\\set run_id '''' :id ''''\n" + LEASE + "commit;"
    script.write_text(
        "\\set worker_id '''psql-1'''\n" + billing + take + HEARTBEAT + LOG + CHECK + CANCEL + CHECK + CANCEL + billing
    )
    psql = find_binaries(None, tmp_path).program("psql")  # the embedded server's
    done = subprocess.run(
        [str(psql), "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", str(script), database],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"]},
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    inserted, *rest = said
    assert UUID(inserted)
    assert [word for word in rest if word in {"leased", "cancelled"}] == ["leased", "cancelled"]
    tags = re.findall(r"^(INSERT 0 \d|UPDATE \d|BEGIN|COMMIT)$", done.stdout, re.MULTILINE)
    assert tags == [
        *("INSERT 0 1", "BEGIN", "UPDATE 1", "COMMIT"),  # recorded, claimed, leased
        *("UPDATE 1", "INSERT 0 1", "UPDATE 1", "UPDATE 0"),  # heartbeat, event, cancelled, cancelled already
        "INSERT 0 0",  # a duplicate is accepted and not recorded
    ]


# Statements of the clients


async def test_a_client_submits_a_job_and_a_duplicate_returns_no_row(client: Connection) -> None:
    given = (uuid4(), "content.ocr.v1", '{"a": 1}', 100, NOW, "key-1", 3)
    assert await client.fetchval(SUBMIT, *given) == given[0]
    await client.execute(EVENT, given[0], "created", None)
    assert await client.fetchval(SUBMIT, uuid4(), *given[1:]) is None
    [event] = await client.fetch(EVENTS, given[0])
    assert (event["event_type"], event["data"]) == ("created", None)


async def test_a_client_cancels_live_jobs_and_updates_no_finished_one(client: Connection) -> None:
    waiting, leased, done = [await submitted(client, priority=n) for n in (30, 20, 10)]
    assert [await polled(client), await polled(client)] == [done, leased]
    await client.execute(SUCCEED, done, "{}")
    assert [await client.execute(STOP, id_) for id_ in (waiting, leased, done)] == ["UPDATE 1", "UPDATE 1", "UPDATE 0"]
    assert await client.execute(STOP, waiting) == "UPDATE 0"


@pytest.mark.parametrize("statement", [POLL_PYTHON, POLL_GO], ids=["python", "go"])
async def test_a_client_polls_by_priority_then_age_and_by_prefix(client: Connection, statement: str) -> None:
    low = await submitted(client, priority=200)
    old = await submitted(client, "payment.refund.v1")
    new = await submitted(client)
    await submitted(client, "content.ocr.v1", priority=1)
    await submitted(client, run_at=NOW + timedelta(hours=1), priority=1)
    hidden = await submitted(client, priority=1)
    await client.execute("UPDATE workflow_run SET deleted_at = now() WHERE id = $1", hidden)
    assert [await polled(client, statement=statement) for _ in range(4)] == [old, new, low, None]


async def test_a_go_poller_takes_over_an_expired_lease_and_a_python_poller_does_not(client: Connection) -> None:
    id_ = await submitted(client)
    await polled(client, "crashed")
    assert await polled(client, "go-1", POLL_GO) is None
    await client.execute("UPDATE workflow_run SET lease_until = now() - interval '1 second' WHERE id = $1", id_)
    assert await polled(client, "python-1", POLL_PYTHON) is None
    assert await polled(client, "go-1", POLL_GO) == id_
    assert (await row(client, id_))["leased_by"] == "go-1"


async def test_a_client_records_a_success(client: Connection) -> None:
    id_ = await submitted(client)
    await polled(client)
    await client.execute(EVENT, id_, "leased", '{"worker_id": "billing-1", "attempt": 0}')
    await client.execute(EVENT, id_, "started", '{"worker_id": "billing-1"}')
    await client.execute(SUCCEED, id_, '{"url": "s3://x"}')
    await client.execute(EVENT, id_, "succeeded", None)
    job = await client.fetchrow(GET, id_)
    assert (job["status"], json.loads(job["result"]), job["leased_by"]) == ("succeeded", {"url": "s3://x"}, None)
    assert [(e["event_type"], e["data"]) for e in await client.fetch(EVENTS, id_)][-1] == ("succeeded", None)


async def test_a_client_retries_with_backoff_until_the_attempts_are_exhausted(client: Connection) -> None:
    id_ = await submitted(client)
    before = await row(client, id_)
    for failures in (1, 2, 3):
        await client.execute("UPDATE workflow_run SET run_at = now() WHERE id = $1", id_)
        assert await polled(client) == id_
        later = datetime.now(UTC) + timedelta(minutes=failures**2)
        status = "pending" if failures < 3 else "failed"
        await client.execute(FAIL, id_, status, failures, later, "boom")
        await client.execute(EVENT, id_, "retried" if failures < 3 else "failed", json.dumps({"attempt": failures}))
        job = await row(client, id_)
        assert (job["status"], job["attempt"], job["last_error"]) == (status, failures, "boom")
        assert (job["leased_by"], job["lease_until"]) == (None, None)
        if failures < 3:
            assert (job["run_at"], job["due"]) == (later, False)
            assert await polled(client) is None
    assert (await row(client, id_))["seq"] > before["seq"]
    assert all(
        event["data"] == json.dumps({"attempt": n}) for n, event in enumerate((await client.fetch(EVENTS, id_))[1:], 1)
    )


async def test_a_client_extends_a_lease_only_while_the_job_is_leased(client: Connection) -> None:
    id_ = await submitted(client)
    assert await client.execute(EXTEND, id_, 30) == "UPDATE 0"
    await polled(client)
    assert await client.execute(EXTEND, id_, 300) == "UPDATE 1"
    assert (await row(client, id_))["lease_until"] > datetime.now(UTC) + timedelta(seconds=200)
    await client.execute(STOP, id_)
    assert await client.execute(EXTEND, id_, 30) == "UPDATE 0"
    assert await client.fetchval("SELECT status FROM workflow_run WHERE id = $1", id_) == "cancelled"


async def test_a_client_counts_gets_and_lists_jobs(client: Connection) -> None:
    ids = [await submitted(client) for _ in range(3)]
    await submitted(client, "content.ocr.v1")
    assert await client.fetchval(DEPTH, "billing.%") == 3
    assert (await client.fetchrow(GET, ids[0]))["type"] == "billing.invoice.v1"
    assert [r["id"] for r in await client.fetch(LIST, "billing.invoice.v1", "pending", 50, 0)] == ids[::-1]
    assert [r["id"] for r in await client.fetch(LIST, "billing.invoice.v1", "pending", 1, 1)] == [ids[1]]
    await client.execute("UPDATE workflow_run SET deleted_at = now() WHERE id = $1", ids[0])
    assert await client.fetchrow(GET, ids[0]) is None
    assert await client.fetchval(DEPTH, "billing.%") == 2


async def test_a_client_creates_pauses_resumes_and_deletes_schedules(client: Connection) -> None:
    later = NOW + timedelta(hours=1)
    id_ = await client.fetchval(SCHEDULE, "billing.close.v1", '{"m": 1}', "0 2 * * *", "Europe/Berlin", later, 100, 3)
    await client.execute(SCHEDULE_GO, uuid4(), "billing.open.v1", "{}", "0 1 * * *", "UTC", later, 50, 1)
    assert [r["type"] for r in await client.fetch(SCHEDULES)] == ["billing.close.v1", "billing.open.v1"]
    assert await client.execute(PAUSE, id_, False) == "UPDATE 1"
    assert await client.execute(PAUSE, id_, True) == "UPDATE 1"
    assert await client.execute(UNSCHEDULE, id_) == "UPDATE 1"
    assert await client.execute(UNSCHEDULE, id_) == await client.execute(PAUSE, id_, True) == "UPDATE 0"
    assert [r["type"] for r in await client.fetch(SCHEDULES)] == ["billing.open.v1"]


async def test_a_client_fires_each_due_schedule_once(client: Connection) -> None:
    due = NOW.replace(microsecond=0) - timedelta(minutes=1)
    id_ = await client.fetchval(SCHEDULE, "billing.close.v1", '{"m": 1}', "* * * * *", "UTC", due, 7, 2)
    paused = await client.fetchval(SCHEDULE, "billing.off.v1", "{}", "* * * * *", "UTC", due, 7, 2)
    await client.execute(PAUSE, paused, False)
    async with client.transaction():
        [schedule] = await client.fetch(TICK)
        assert schedule["id"] == id_
        key = f"schedule:{id_}:{int(schedule['next_run_at'].timestamp())}"
        fire = (schedule["type"], schedule["payload"], schedule["priority"], schedule["max_attempts"], key)
        fired = await client.fetchval(FIRE, *fire)
        assert await client.fetchval(FIRE, *fire) is None
        await client.execute(MOVE_ON, id_, NOW + timedelta(hours=1))
    job = await row(client, fired)
    assert (job["type"], job["priority"], job["max_attempts"], job["due"]) == ("billing.close.v1", 7, 2, True)
    assert await client.fetch(TICK) == []


async def test_a_time_without_a_zone_is_utc(client: Connection) -> None:
    """The Python client writes `datetime.now()`, the Go client UTC text without a zone."""
    await client.execute(
        "INSERT INTO workflow_run (id, type, payload, run_at) VALUES ($1, 'a', '{}', '2030-01-01 12:00')", NIL
    )
    assert (await row(client, NIL))["run_at"] == datetime(2030, 1, 1, 12, tzinfo=UTC)


NIL = UUID(int=0)
REPLAY = """
create table if not exists workflow_run (id uuid primary key);
create table if not exists workflow_event (id bigserial primary key);
create table if not exists workflow_registry (id uuid primary key);
create table if not exists workflow_schedule (id uuid primary key);
create index if not exists idx_workflow_run_claim on workflow_run (status, run_at, priority, created_at)
  where status = 'pending';
create index if not exists idx_workflow_run_type_prefix on workflow_run (type text_pattern_ops, status, run_at)
  where status = 'pending';
create index if not exists idx_workflow_run_idempotency on workflow_run (idempotency_key)
  where idempotency_key is not null;
create index if not exists idx_workflow_run_type_status on workflow_run (type, status, created_at desc);
create index if not exists idx_workflow_run_deleted_at on workflow_run (deleted_at) where deleted_at is null;
"""


# DDL of the clients


async def test_the_ddl_of_the_clients_changes_nothing(conn: Connection) -> None:
    indexes = "select indexname, indexdef from pg_indexes where schemaname = 'workflow' order by 1"
    await conn.execute("set search_path to workflow")
    before = await conn.fetch(indexes)
    await conn.execute(REPLAY)
    assert await conn.fetch(indexes) == before


async def test_the_registry_keeps_one_runtime_for_each_workflow(client: Connection) -> None:
    register = (
        "INSERT INTO workflow_registry (workflow_name, runtime) VALUES ('content.ocr.v1', $1) RETURNING intent_type"
    )
    assert await client.fetchval(register, "python") == "workflow"
    with pytest.raises(asyncpg.UniqueViolationError):
        await client.fetchval(register, "go")
    await client.execute("UPDATE workflow_registry SET runtime = 'go' WHERE workflow_name = 'content.ocr.v1'")


async def test_unknown_statuses_and_event_types_are_rejected(client: Connection) -> None:
    id_ = await submitted(client)
    with pytest.raises(asyncpg.CheckViolationError):
        await client.execute("UPDATE workflow_run SET status = 'running' WHERE id = $1", id_)
    with pytest.raises(asyncpg.CheckViolationError):
        await client.execute(EVENT, id_, "exploded", None)


async def test_concurrent_foreign_pollers_never_share_a_job(database: str, conn: Connection) -> None:
    await conn.execute(
        "insert into workflow.workflow_run (type, payload) select 'billing.x.v1', '{}' from generate_series(1, 60)"
    )

    async def poll(worker: str) -> list[UUID]:
        client = await asyncpg.connect(database, server_settings={"search_path": "workflow"})
        taken = []
        while id_ := await polled(client, worker, POLL_GO):
            taken.append(id_)
        await client.close()
        return taken

    taken = [id_ for ids in await asyncio.gather(*(poll(f"w{n}") for n in range(6))) for id_ in ids]
    assert len(taken) == len(set(taken))
    # A poller may find every candidate locked and stop early: the remaining jobs are still pending.
    assert len(taken) + await conn.fetchval("select count(*) from workflow.workflow_run where status = 'pending'") == 60
