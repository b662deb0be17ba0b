"""The SQL contract: triggers guard finished rows, leases and the order of the queue against any statement."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.store.contract_harness import (
    EVENT,
    EVENTS,
    EXTEND,
    FAIL,
    GET,
    NOW,
    POLL_GO,
    STOP,
    SUCCEED,
    Connection,
    polled,
    row,
    submitted,
)
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.testing import Clock

ENDS = {
    "succeeded": (SUCCEED, '{"n": 1}'),
    "failed": (FAIL, "failed", 3, NOW, "boom"),
    "cancelled": (STOP,),
}
LATE = [
    (SUCCEED, '{"late": 1}'),
    (FAIL, "pending", 1, NOW + timedelta(minutes=1), "late"),
    (FAIL, "failed", 3, NOW, "late"),
    (STOP,),
    (EXTEND, 30),
    ("UPDATE workflow_run SET status = 'pending', leased_by = 'x', lease_until = now(), result = '1' WHERE id = $1",),
]


async def ended(client: Connection, how: str) -> UUID:
    id_ = await submitted(client)
    await polled(client)
    statement, *arguments = ENDS[how]
    await client.execute(statement, id_, *arguments)
    assert (await row(client, id_))["status"] == how
    return id_


@pytest.mark.parametrize("how", ENDS)
async def test_a_late_writer_changes_nothing_on_a_finished_row(client: Connection, how: str) -> None:
    id_ = await ended(client, how)
    before = await row(client, id_)
    for statement, *arguments in LATE:
        await client.execute(statement, id_, *arguments)
        assert await row(client, id_) == before
    assert await polled(client) is None


@pytest.mark.parametrize("how", ENDS)
async def test_a_finished_row_can_still_be_soft_deleted(client: Connection, how: str) -> None:
    id_ = await ended(client, how)
    await client.execute("UPDATE workflow_run SET deleted_at = now(), updated_at = now() WHERE id = $1", id_)
    assert await client.fetchrow(GET, id_) is None
    assert (await row(client, id_))["status"] == how


@pytest.mark.parametrize("how", ENDS)
async def test_an_event_that_contradicts_the_row_is_marked_as_late(client: Connection, how: str) -> None:
    id_ = await ended(client, how)
    for word in {"succeeded", "failed", "retried", "cancelled"} - {how}:
        for data, kept in ((None, {}), ('{"attempt": 1}', {"attempt": 1}), ("[1]", {"data": [1]})):
            await client.execute(EVENT, id_, word, data)
            told = await client.fetchval("SELECT data FROM workflow_event WHERE workflow_id = $1 ORDER BY id DESC", id_)
            assert json.loads(told) == {"late": True, **kept}


@pytest.mark.parametrize("how", ENDS)
async def test_an_event_that_agrees_with_the_row_is_stored_unchanged(client: Connection, how: str) -> None:
    id_ = await ended(client, how)
    await client.execute(EVENT, id_, how, '{"attempt": 1}')
    events = [event for event in await client.fetch(EVENTS, id_) if event["event_type"] == how]
    assert [json.loads(event["data"]) for event in events] == [{"attempt": 1}]


async def test_events_of_live_rows_are_stored_unchanged(client: Connection) -> None:
    id_ = await submitted(client)
    for word in ("created", "leased", "started", "heartbeat", "failed", "retried"):
        await client.execute(EVENT, id_, word, None)
    assert {event["data"] for event in await client.fetch(EVENTS, id_)} == {None}


WAYS_OUT = [
    "status = 'pending'",
    "status = 'pending', run_at = now() + interval '1 hour'",
    "status = 'succeeded'",
    "status = 'failed', attempt = attempt + 1",
    "status = 'cancelled'",
    "status = 'cancelled', lease_until = now() + interval '1 hour'",
    "status = 'pending', leased_by = 'somebody else'",
]


async def test_every_statement_that_ends_the_leased_status_clears_the_lease(client: Connection) -> None:
    for n, way_out in enumerate(WAYS_OUT):
        id_ = await submitted(client, priority=100 - n)  # before the jobs that are pending again
        assert await polled(client) == id_
        await client.execute(f"UPDATE workflow_run SET {way_out} WHERE id = $1", id_)
        job = await row(client, id_)
        assert (way_out, job["leased_by"], job["lease_until"]) == (way_out, None, None)


async def test_a_delayed_retry_leaves_the_queue_and_returns_at_its_end(
    conn: Connection, db: Tenant, clock: Clock
) -> None:
    await conn.execute("set search_path to workflow")
    id_ = await submitted(conn)
    await polled(conn)
    await conn.execute(FAIL, id_, "pending", 1, datetime.now(UTC) + timedelta(minutes=1), "boom")
    waiting = await submitted(conn)
    assert not (await row(conn, id_))["due"]
    assert await upkeep.become_due(db) == 0
    clock.move(timedelta(minutes=2))
    assert await upkeep.become_due(db) == 1
    back = await row(conn, id_)
    assert back["due"]
    assert back["seq"] > (await row(conn, waiting))["seq"]


async def test_an_immediate_retry_goes_to_the_end_of_the_queue(client: Connection) -> None:
    id_ = await submitted(client)
    await polled(client)
    waiting = await submitted(client)
    await client.execute(FAIL, id_, "pending", 1, NOW - timedelta(seconds=1), "boom")
    back = await row(client, id_)
    assert back["due"]
    assert back["seq"] > (await row(client, waiting))["seq"]


async def test_a_postponed_job_leaves_the_queue_and_a_job_brought_forward_joins_it(
    client: Connection,
) -> None:
    id_ = await submitted(client)
    await client.execute("UPDATE workflow_run SET run_at = now() + interval '1 hour' WHERE id = $1", id_)
    assert not (await row(client, id_))["due"]
    await client.execute("UPDATE workflow_run SET run_at = now() WHERE id = $1", id_)
    assert (await row(client, id_))["due"]


async def test_a_foreign_poller_that_takes_an_expired_lease_fences_out_the_worker(conn: Connection, db: Tenant) -> None:
    await conn.execute("set search_path to workflow")
    id_ = await submitted(conn)
    lease = timedelta(seconds=30)
    lanes = [(replace(lane, seq=0), 1) for lane in await turn.look(db, ["sql"])]
    [claimed], _ = await turn.turn(db, Turn(worker="ours", lease=lease, lanes=lanes, count=1))
    await conn.execute("update workflow_run set lease_until = now() - interval '1 second' where id = $1", id_)
    assert await polled(conn, "go-1", POLL_GO) == id_
    assert await turn.heartbeat(db, [claimed.fence], worker="ours", lease=lease) == []
    await conn.execute(SUCCEED, id_, '"theirs"')
    assert (await jobs.get(db, id_)).result == "theirs"
