"""Polling for events: the spec's words, filters, and a place to go on from that loses nothing."""

import pytest

from tests.conformance.talking import Talk

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_job_leaves_its_trail_in_the_words_of_the_spec(talk: Talk) -> None:
    await talk.push(queue="q", retry={"initial_interval": "PT1S", "jitter": False})
    await talk.nack(await talk.one("q"))
    await talk.pass_time(seconds=1)
    await talk.ack(await talk.one("q"))
    events = (await talk.events())["events"]
    assert [event["type"] for event in events] == [
        "job.enqueued", "job.started", "job.failed", "job.retrying", "job.started", "job.completed"
    ]  # fmt: skip
    last = events[-1]
    assert (last["data"]["job_type"], last["data"]["queue"], last["data"]["attempt"]) == ("email.send", "q", 2)
    assert last["data"]["duration_ms"] >= 0
    assert last["subject"] == last["data"]["job_id"]
    assert all(event["specversion"] == "1.0" and event["source"] and event["time"] for event in events)


async def test_filters_choose(talk: Talk) -> None:
    for queue in ("a", "b"):
        await talk.push(queue=queue)
        await talk.ask("DELETE", f"/jobs/{(await talk.one(queue))['id']}")
    found = (await talk.events("job.cancelled", "job.started", queues=["b"]))["events"]
    assert [event["type"] for event in found] == ["job.started", "job.cancelled"]
    await talk.refused("GET", "/events?after=nowhere", None, 400, "invalid_request")


async def test_a_reader_that_goes_on_misses_nothing_and_sees_nothing_twice(talk: Talk) -> None:
    seen: list[str] = []
    after = ""
    for n in range(12):
        await talk.ask("POST", "/jobs/batch", {"jobs": [{"type": "a.b", "args": [n]} for _ in range(25)]}, 201)
        answer = await talk.http.get("/ojs/v1/events", params={"limit": "20", **({"after": after} if after else {})})
        page = answer.json()
        seen += [event["id"] for event in page["events"]]
        after = page["next"]
    while page["has_more"] or page["events"]:
        answer = await talk.http.get("/ojs/v1/events", params={"limit": "20", "after": after})
        page = answer.json()
        seen += [event["id"] for event in page["events"]]
        after = page["next"]
    assert len(seen) == len(set(seen)) == 300
