"""Logs of runs and tasks: the last lines, all lines as a file, and a stream of new lines."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from tests.web.serving import data, fields, served, working
from tests.web.streaming import Event, reading
from windlass import Context, Windlass

CHATTY = {
    "name": "chatty",
    "tasks": {
        "talk": {"job": "demo.talk.v1"},
        "each": {"needs": ["talk"], "parallel": 2, "job": "demo.each.v1"},
    },
}
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
async def http(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    async with served(app) as client:
        await client.post("/workflows", json=CHATTY)
        yield client


async def start(http: httpx.AsyncClient) -> str:
    return str(data(await http.post("/workflows/chatty/trigger"), 201)["run_id"])


async def write_lines(conn: "asyncpg.Connection[Any]", run: str, first: int, count: int) -> None:
    """Lines of the run's first job, one a second."""
    job = await conn.fetchval("select id from workflow.workflow_run where run_id = $1 order by step limit 1", run)
    lines = [(job, 1, n, BEGAN + timedelta(seconds=n), "INFO", f"line {n}") for n in range(first, first + count)]
    await conn.executemany(
        "insert into windlass.job_log (job_id, attempt, line, at, level, message) values ($1, $2, $3, $4, $5, $6)",
        lines,
    )


async def test_logs_return_the_last_lines_or_all_lines_as_a_file(
    http: httpx.AsyncClient, conn: "asyncpg.Connection[Any]"
) -> None:
    run = await start(http)
    await write_lines(conn, run, 1, 12_000)
    for path in (f"/runs/{run}/logs", f"/workflows/chatty/runs/{run}/tasks/talk/logs"):
        last = data(await http.get(path, params={"tail": 3}))
        assert [line["message"] for line in last] == ["line 11998", "line 11999", "line 12000"]
    async with httpx.AsyncClient(base_url=http.base_url) as plain:
        whole = await plain.get(f"/runs/{run}/tasks/talk/logs?format=text")
        asked = await plain.get(f"/runs/{run}/logs", headers={"accept": "text/plain"})
        some = await plain.get(f"/runs/{run}/logs?tail=2&format=text")
    lines = whole.text.splitlines()
    assert (len(lines), lines[-1]) == (12_000, "2026-01-01 03:20:00.000Z INFO    talk: line 12000")
    assert whole.headers["content-type"] == "text/plain; charset=utf-8"
    assert whole.headers["content-disposition"] == f'attachment; filename="chatty-{run}-talk.log"'
    assert asked.text == whole.text
    assert some.text.splitlines() == lines[-2:]
    assert fields(await http.get(f"/runs/{run}/logs?tail=0&format=pdf")) == ["tail", "format"]
    assert fields(await http.get(f"/runs/{run}/logs?tail=1&after=x")) == ["after"]
    assert (await http.get(f"/runs/{run}/tasks/nobody/logs?tail=1")).status_code == 404


async def test_lines_are_streamed_as_logged_until_the_task_ends(app: Windlass, http: httpx.AsyncClient) -> None:
    heard = asyncio.Event()

    @app.job("demo.talk.v1")
    async def talk(ctx: Context) -> None:
        ctx.log.info("first")
        await heard.wait()
        ctx.log.info("second")

    @app.job("demo.each.v1")
    async def each(ctx: Context) -> None:
        ctx.log.info("again")

    run = await start(http)
    async with (
        reading(http.base_url, f"/runs/{run}/tasks/talk/logs/stream") as one,
        reading(http.base_url, f"/runs/{run}/logs/stream") as whole,
        working(app),
    ):
        first = await anext(one)
        assert (first.name, first.data["task"], first.data["message"]) == ("line", "talk", "first")
        heard.set()
        rest = [event async for event in one]
        assert [(event.name, event.data.get("message")) for event in rest] == [("line", "second"), ("end", None)]
        told = [event.data.get("message") async for event in whole]
        assert told == ["first", "second", "again", "again", None]
    async with reading(http.base_url, f"/runs/{run}/logs/stream", last=first.id) as stream:
        assert [event.data.get("message") async for event in stream] == ["second", "again", "again", None]
    async with reading(http.base_url, f"/runs/{run}/logs/stream", tail=1) as stream:
        last = [event async for event in stream]
    assert [event.data.get("message") for event in last] == ["again", None]
    async with httpx.AsyncClient(base_url=http.base_url) as plain:
        again = await plain.get(f"/runs/{run}/logs/stream", headers={"last-event-id": last[-1].id})
    assert again.status_code == 204


async def test_a_client_that_reconnects_receives_every_line_once(
    http: httpx.AsyncClient, conn: "asyncpg.Connection[Any]"
) -> None:
    run = await start(http)
    await write_lines(conn, run, 1, 5)
    seen: list[Event] = []
    async with reading(http.base_url, f"/runs/{run}/logs/stream") as stream:
        seen += [await anext(stream) for _ in range(5)]
    assert [event.id for event in seen] == [""] * 5  # a backlog has no ids: a client that disconnects here starts over
    async with reading(http.base_url, f"/runs/{run}/logs/stream", tail=0) as stream:
        await conn.execute("update workflow.workflow_run set status = 'leased', leased_by = 'x' where run_id = $1", run)
        await conn.execute(
            "insert into workflow.workflow_event (workflow_id, event_type) "
            "select id, 'leased' from workflow.workflow_run where run_id = $1",
            run,
        )
        async with conn.transaction():
            await write_lines(conn, run, 6, 10)
        seen = [await anext(stream) for _ in range(3)]
    async with conn.transaction():
        await write_lines(conn, run, -3, 2)  # late: they are older than what was read
    while len(seen) < 12:
        async with reading(http.base_url, f"/runs/{run}/logs/stream", last=seen[-1].id) as stream:
            seen += [await anext(stream) for _ in range(min(4, 12 - len(seen)))]
    assert [event.data["message"] for event in seen] == [f"line {n}" for n in [*range(6, 16), -3, -2]]
