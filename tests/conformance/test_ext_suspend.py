"""A worker in any language suspends a job: until a time, or until a message arrives."""

from datetime import timedelta
from typing import Any

import pytest

from tests.conformance.extension_client import extended
from windlass import Windlass
from windlass.engine import messages, upkeep


async def deliver_messages(app: Windlass) -> None:
    """Route messages to their waiters and wake the suspended jobs."""
    db = (await app.open()).database
    while await messages.route(db):
        pass
    await messages.wake_handlers(db)


async def test_a_job_is_suspended_for_a_time_with_its_state(app: Windlass, conn: Any) -> None:
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        await client.fetch()
        state = {"page": 3}
        suspended = await client.post("/workers/suspend", {"job_id": id_, "for_ms": 3_600_000, "state": state})
        assert (suspended["suspended"], suspended["job_id"], suspended["job"]["attempt"]) == (True, id_, 0)
        assert await client.fetch() == []
        await client.post("/workers/suspend", {"job_id": id_, "for_ms": 1}, 409)
        await conn.execute("update workflow.workflow_run set run_at = run_at - $1::interval", timedelta(hours=2))
        await conn.execute("update windlass.checkpoint set until = until - $1::interval", timedelta(hours=2))
        await upkeep.become_due((await app.open()).database)
        [job] = await client.fetch()
        assert (job["attempt"], job["checkpoint"]["state"], "wait" in job) == (1, state, False)
        await client.post("/workers/ack", {"job_id": id_})


async def test_a_job_waits_for_a_signal_and_for_an_event(app: Windlass) -> None:
    db = await app.open()
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        [job] = await client.fetch()
        await client.post("/workers/suspend", {"job_id": id_, "wait_for": {"name": "paid"}})
        await messages.signal(db, job["id"], "paid", payload={"cents": 5})
        await deliver_messages(app)
        [job] = await client.fetch()
        assert (job["wait"], "checkpoint" in job) == ({"payload": {"cents": 5}, "timed_out": False}, False)
        await client.post("/workers/suspend", {"job_id": id_, "wait_for": {"name": "ok", "key": "k"}, "state": 1})
        await messages.publish(db, "ok", key="k", payload="second")
        await deliver_messages(app)
        [job] = await client.fetch()
        assert (job["wait"]["payload"], job["checkpoint"]["state"]) == ("second", 1)


async def test_a_wait_that_timed_out_is_marked_as_timed_out(app: Windlass, conn: Any) -> None:
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        await client.fetch()
        await client.post("/workers/suspend", {"job_id": id_, "wait_for": {"name": "paid"}, "for_ms": 3_600_000})
        await conn.execute("update workflow.workflow_run set run_at = run_at - $1::interval", timedelta(hours=2))
        await conn.execute("update windlass.checkpoint set until = until - $1::interval", timedelta(hours=2))
        await upkeep.become_due((await app.open()).database)
        [job] = await client.fetch()
        assert job["wait"] == {"payload": None, "timed_out": True}
        assert await conn.fetchval("select state from windlass.waiter") == "closed"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"for_ms": 0},
        {"for_ms": "1s"},
        {"wait_for": "paid"},
        {"wait_for": {}},
        {"wait_for": {"name": "x", "count": 0}},
        {"wait_for": {"name": "x", "key": 7}},
        {"for_ms": 1, "state": "\x00"},
    ],
    ids=str,
)
async def test_an_invalid_suspend_is_rejected_and_the_job_stays_active(app: Windlass, body: dict[str, Any]) -> None:
    async with extended(app) as client:
        id_ = (await client.push())["id"]
        await client.fetch()
        await client.post("/workers/suspend", {"job_id": id_, **body}, 400)
        assert (await client.get(f"/jobs/{id_}"))["job"]["state"] == "active"
