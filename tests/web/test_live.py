"""Streams: events of runs and jobs as they happen."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.web.serving import data, fields, problem, served, working
from tests.web.streaming import Event, reading
from windlass import Windlass
from windlass.runtime import live

GREET: dict[str, Any] = {
    "name": "greet",
    "tasks": {
        "hello": {"job": "demo.hello.v1", "retries": 1, "retry": {"kind": "constant", "base": 0}},
        "pause": {"needs": ["hello"], "sleep": 0},
        "each": {"needs": ["pause"], "parallel": 2, "job": "demo.each.v1"},
        "never": {"needs": ["each"], "if": "false", "sleep": 1},
    },
}


@pytest.fixture
async def http(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    async with served(app) as client:
        await client.post("/workflows", json=GREET)
        yield client


def summaries(events: list[Event]) -> list[tuple[str | None, str]]:
    return [(event.data["task"], event.data["event"]) for event in events if event.name == "task"]


async def test_the_stream_of_a_run_delivers_every_event_from_the_cursor_to_the_end(
    app: Windlass, http: httpx.AsyncClient
) -> None:
    tries = iter(range(100))

    @app.job("demo.hello.v1")
    async def hello() -> str:
        if next(tries) == 0:
            raise RuntimeError("not yet")
        return "hi"

    @app.job("demo.each.v1")
    async def each() -> None: ...

    run = data(await http.post("/workflows/greet/trigger"), 201)["run_id"]
    cursor = data(await http.get(f"/runs/{run}"))["cursor"]
    async with reading(http.base_url, f"/runs/{run}/stream", after=cursor) as stream, working(app):
        seen = [event async for event in stream]
    first, last = seen[0], seen[-1]
    assert (first.name, first.id, first.data["run_status"]) == ("hello", cursor, "running")
    assert (last.name, last.data) == ("end", {"run_id": run, "run_status": "completed"})
    story = summaries(seen)
    assert story[:6] == [
        ("hello", "running"),
        ("hello", "retrying"),
        ("hello", "running"),
        ("hello", "success"),
        ("pause", "sleeping"),
        ("pause", "success"),
    ]
    assert (story[6], story[-2]) == (("each", "running"), ("each", "success"))  # the task; between them its instances
    instances = [("each", word) for word in ("queued", "running", "success") for _ in "ab"]
    assert sorted(story[7:-2]) == sorted(instances)
    assert story[-1] == ("never", "skipped")
    retried = next(event.data for event in seen if event.data.get("event") == "retrying")
    assert (retried["reason"], retried["attempt"], "next_attempt_at" in retried) == ("not yet", 1, True)
    fanned = [event.data for event in seen if event.data.get("task") == "each"]
    assert {one.get("index") for one in fanned} == {None, 0, 1}
    assert fanned[-1]["instances"]["success"] == 2
    assert fanned[-1]["status"] == "success"
    assert len({event.id for event in seen[:-1]}) == len(seen) - 1


async def test_a_client_that_reconnects_to_an_ended_run_gets_the_remaining_events_or_204(
    app: Windlass, http: httpx.AsyncClient
) -> None:
    run = data(await http.post("/workflows/greet/trigger"), 201)["run_id"]
    async with reading(http.base_url, f"/workflows/greet/runs/{run}/stream") as stream:
        hello = await anext(stream)
    await http.post(f"/runs/{run}/cancel", json={"reason": "enough"})
    async with reading(http.base_url, f"/runs/{run}/stream", last=hello.id) as stream:
        seen = [event async for event in stream]
    [ended] = [event.data for event in seen if event.name == "run"]
    assert ended.pop("tasks") == dict.fromkeys(GREET["tasks"], "cancelled")
    assert ended | {"at": ""} == {
        "event": "cancelled",
        "at": "",
        "actor": "operator",
        "code": "cancelled",
        "reason": "enough",
        "run_id": run,
        "workflow": "greet",
        "run_status": "cancelled",
    }
    assert [event.data.get("task") for event in seen if event.name in ("run", "task")][-1] is None
    async with httpx.AsyncClient(base_url=http.base_url) as plain:
        again = await plain.get(f"/runs/{run}/stream", headers={"last-event-id": seen[-1].id})
    assert again.status_code == 204  # the only status that stops a browser from reconnecting


async def test_an_unfiltered_stream_delivers_all_events_and_a_filtered_one_only_matches(
    app: Windlass, http: httpx.AsyncClient
) -> None:
    async with (
        reading(http.base_url, "/stream") as everything,
        reading(http.base_url, "/stream", kind=["run", "job"]) as some,
        reading(http.base_url, "/stream", workflow="greet", kind="run") as runs,
    ):
        for stream in (everything, some, runs):
            assert set((await anext(stream)).data) == {"cursor"}
        job = await app.submit("demo.alone.v1", {})
        run = data(await http.post("/workflows/greet/trigger"), 201)["run_id"]
        seen = [await anext(everything) for _ in range(3)]
        assert [(event.name, event.data["event"]) for event in seen] == [
            ("job", "queued"),
            ("run", "running"),
            ("task", "queued"),
        ]
        assert seen[0].data["job_id"] == str(job)
        assert [(await anext(some)).id for _ in range(2)] == [seen[0].id, seen[1].id]
        assert (await anext(runs)).data["run_id"] == run


async def test_all_streams_share_one_query_and_none_runs_without_streams(
    app: Windlass, http: httpx.AsyncClient
) -> None:
    hub = await app.live()
    async with contextlib.AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(reading(http.base_url, "/stream")) for _ in range(20)]
        for stream in streams:
            await anext(stream)
        await app.submit("demo.alone.v1", {})
        assert len({(await anext(stream)).id for stream in streams}) == 1
        assert hub.watching == 20
    async with asyncio.timeout(30):
        await hub.idle()
    assert hub.watching == 0


@pytest.mark.exclusive
async def test_a_server_that_stops_ends_its_streams_at_once(app: Windlass) -> None:
    async with contextlib.AsyncExitStack() as stack:
        async with served(app) as http:
            stream = await stack.enter_async_context(reading(http.base_url, "/stream"))
            await anext(stream)
            began = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - began < 3  # requests under way would get 5
        assert [event async for event in stream] == []


async def test_a_slow_reader_is_disconnected_and_catches_up_after_reconnecting(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_WAITING", 10)
    hub = await app.live()
    batches = hub.follow()
    first = await anext(batches)
    await app.submit_many([{"type": "demo.many.v1"}] * 11)
    async with asyncio.timeout(30):
        assert [batch async for batch in batches if batch.entries] == []
    back = await anext(hub.follow(first.next))
    assert len(back.entries) == 11


async def test_the_number_of_streams_is_limited(
    app: Windlass, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 1)
    async with reading(http.base_url, "/stream") as stream:
        await anext(stream)
        refused = await http.get("/stream")
        assert "streams are open" in problem(refused, 503)["detail"]
        assert int(refused.headers["retry-after"]) > 0


@pytest.mark.parametrize("after", ["x", "1+1;2", "5+1,9", "1+1;1+1;-1;2", "9" * 30 + "+0", "9000000000+0"])
async def test_an_invalid_cursor_is_rejected(http: httpx.AsyncClient, after: str) -> None:
    assert fields(await http.get("/stream", params={"after": after})) == ["after"]


async def test_streams_of_unknown_runs_and_kinds_are_rejected(http: httpx.AsyncClient) -> None:
    problem(await http.get(f"/runs/{UUID(int=1)}/stream"), 404)
    assert fields(await http.get("/stream", params={"kind": "x"})) == ["kind.0"]
    answer: Any = await http.head("/stream")
    assert answer.status_code == 405


async def test_an_idle_stream_sends_keep_alives_with_its_position(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("windlass.web.live.ALIVE", 0.05)
    async with (
        httpx.AsyncClient(base_url=http.base_url, timeout=30) as plain,
        plain.stream("GET", "/stream") as answer,
        asyncio.timeout(30),
    ):
        lines = answer.aiter_lines()
        while await anext(lines) != ": still here":
            pass
        # Once the hub has read the events again, the keep-alive contains the position.
        while not (await anext(lines)).startswith("id: "):
            pass
