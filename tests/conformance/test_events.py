"""Polling for events: the event types of the spec, filters, and a cursor that loses nothing."""

import re

import pytest

from tests.conformance.ojs_client import OjsClient
from windlass.core.events.cursor import Cursor

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_job_emits_events_with_the_types_of_the_spec(ojs: OjsClient) -> None:
    await ojs.push(queue="q", retry={"initial_interval": "PT1S", "jitter": False})
    await ojs.nack(await ojs.one("q"))
    await ojs.pass_time(seconds=1)
    await ojs.ack(await ojs.one("q"))
    events = (await ojs.events())["events"]
    assert [event["type"] for event in events] == [
        "job.enqueued", "job.started", "job.failed", "job.retrying", "job.started", "job.completed"
    ]  # fmt: skip
    last = events[-1]
    assert (last["data"]["job_type"], last["data"]["queue"], last["data"]["attempt"]) == ("email.send", "q", 2)
    assert last["data"]["duration_ms"] >= 0
    assert last["subject"] == last["data"]["job_id"]
    assert all(event["specversion"] == "1.0" and event["source"] and event["time"] for event in events)


async def test_events_are_filtered_by_type_and_queue_and_invalid_filters_are_rejected(ojs: OjsClient) -> None:
    for queue in ("a", "b"):
        await ojs.push(queue=queue)
        await ojs.ask("DELETE", f"/jobs/{(await ojs.one(queue))['id']}")
    found = (await ojs.events("job.cancelled", "job.started", queues=["b"]))["events"]
    assert [event["type"] for event in found] == ["job.started", "job.cancelled"]
    for wrong in ("after=nowhere", "after=1-1", "types=job.strated", "types=job.started,workflow.done", "queue=b"):
        error = await ojs.refused("GET", f"/events?{wrong}", None, 400, "invalid_request")
        assert error["message"].startswith(wrong.partition("=")[0]), error


async def test_a_polling_reader_receives_every_event_exactly_once(ojs: OjsClient) -> None:
    seen: list[str] = []
    after = ""
    for n in range(12):
        await ojs.ask("POST", "/jobs/batch", {"jobs": [{"type": "a.b", "args": [n]} for _ in range(25)]}, 201)
        answer = await ojs.http.get("/ojs/v1/events", params={"limit": "20", **({"after": after} if after else {})})
        page = answer.json()
        seen += [event["id"] for event in page["events"]]
        after = page["next"]
    while page["has_more"] or page["events"]:
        answer = await ojs.http.get("/ojs/v1/events", params={"limit": "20", "after": after})
        page = answer.json()
        seen += [event["id"] for event in page["events"]]
        after = page["next"]
    assert len(seen) == len(set(seen)) == 300


async def test_next_is_url_safe_and_event_ids_are_valid_cursors(ojs: OjsClient) -> None:
    for n in range(3):
        await ojs.ask("POST", "/jobs/batch", {"jobs": [{"type": "a.b", "args": [n, m]} for m in range(4)]}, 201)
    every = (await ojs.events())["events"]
    assert len(every) == 12
    seen, page = [], await ojs.ask("GET", "/events?limit=5")
    while page["events"]:
        seen += page["events"]
        assert re.fullmatch(r"[A-Za-z0-9._~-]+", page["next"])
        page = await ojs.ask("GET", f"/events?limit=5&after={page['next']}")
    assert seen == every
    for n, event in enumerate(every):
        assert (await ojs.ask("GET", f"/events?after={event['id']}"))["events"] == every[n + 1 :]
    old = str(Cursor.parse(page["next"]))  # the earlier format: without escaping, its plus becomes a space
    assert "+" in old
    assert (await ojs.ask("GET", f"/events?after={old}"))["events"] == []
