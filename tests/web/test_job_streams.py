"""The stream of a handler's output: delivered as it is written, in order, once, and removed with its job."""

import asyncio
import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from click.testing import CliRunner

from tests.web.serving import fields, served, working
from tests.web.streaming import Event, reading
from windlass import Context, Invalid, Retry, Windlass
from windlass.cli.commands import cli
from windlass.client import AsyncClient
from windlass.core.jobs.streams import START, NewChunk, Position, StreamPage
from windlass.effects import streams as effects
from windlass.engine import upkeep
from windlass.engine.jobs import streams
from windlass.testing import run_until_idle


async def page_of(app: Windlass, job: UUID, after: Position = START) -> StreamPage:
    [page] = await streams.read((await app.open()).database, [(job, after)])
    return page


async def test_chunks_arrive_while_the_handler_runs_and_the_stream_ends_with_the_job(app: Windlass) -> None:
    go_on = asyncio.Event()

    @app.job("say.v1")
    async def say(ctx: Context) -> None:
        ctx.stream("once ")
        await ctx.stream("upon ")
        await go_on.wait()
        ctx.stream({"tokens": 2})

    job = await app.submit("say.v1")
    async with served(app) as http, working(app), reading(http.base_url, f"/jobs/{job}/stream") as events:
        first, second = await anext(events), await anext(events)
        assert [(first.data["data"], first.id), (second.data["data"], second.id)] == [
            ("once ", "1.1"),
            ("upon ", "1.2"),
        ]
        go_on.set()  # only now: the chunks above were read from a running handler
        rest = [event async for event in events]
    assert [(event.name, event.data.get("data")) for event in rest] == [("chunk", {"tokens": 2}), ("end", None)]
    assert rest[-1].data == {"status": "succeeded"}
    assert {key: first.data[key] for key in ("section", "number", "attempt")} == {
        "section": 1,
        "number": 1,
        "attempt": 1,
    }


async def test_a_reader_resumes_after_the_last_chunk_it_received(app: Windlass) -> None:
    @app.job("count.v1")
    async def count(ctx: Context) -> None:
        for n in range(5):
            ctx.stream(n)

    job = await app.submit("count.v1")
    await run_until_idle(app)
    path = f"/jobs/{job}/stream"
    async with served(app) as http:

        async def chunks(**how: Any) -> list[Event]:
            async with reading(http.base_url, path, **how) as events:
                return [event async for event in events if event.name == "chunk"]

        assert [event.data["data"] for event in await chunks()] == [0, 1, 2, 3, 4]
        assert [event.data["data"] for event in await chunks(last="1.3")] == [3, 4]
        assert [event.data["data"] for event in await chunks(after="1.4")] == [4]
        assert (await http.get(path, headers={"last-event-id": "1.5"})).status_code == 204
        assert fields(await http.get(path, params={"after": "later"})) == ["after"]
        assert fields(await http.get(path, params={"after": "9999999999.1"})) == ["after"]
        assert (await http.get(f"/jobs/{uuid4()}/stream")).status_code == 404


async def test_a_retry_begins_a_new_section(app: Windlass) -> None:
    @app.job("again.v1", retry=Retry(base=0))
    async def again(ctx: Context) -> None:
        ctx.stream(f"attempt {ctx.attempt}")
        if ctx.attempt == 1:
            raise ValueError("the first attempt fails")

    job = await app.submit("again.v1")
    await run_until_idle(app)
    page = await page_of(app, job)
    assert [(chunk.position, chunk.attempt, chunk.data) for chunk in page.chunks] == [
        (Position(1, 1), 1, "attempt 1"),
        (Position(2, 1), 2, "attempt 2"),
    ]
    assert page.ended == "succeeded"


async def test_a_sync_handler_streams_from_its_thread(app: Windlass) -> None:
    @app.job("sync.v1")
    def sync(ctx: Context) -> None:
        threads = [threading.Thread(target=ctx.stream, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    job = await app.submit("sync.v1")
    await run_until_idle(app)
    page = await page_of(app, job)
    assert [chunk.position.number for chunk in page.chunks] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert sorted(chunk.data for chunk in page.chunks) == list(range(8))


async def test_an_attempt_that_lost_its_lease_cannot_write(app: Windlass, conn: Any) -> None:
    db = (await app.open()).database
    job = await app.submit("a.b.v1")
    await conn.execute("update workflow.workflow_run set status = 'leased', leased_by = 'second', claim_no = 2")
    now = datetime.now(UTC)
    stale, held = NewChunk(job, 1, 1, 1, now, '"stale"'), NewChunk(job, 2, 1, 2, now, '"held"')
    await streams.append(db, [stale, held])
    await streams.append(db, [held])  # sent again after a lost response
    assert [chunk.data for chunk in (await page_of(app, job)).chunks] == ["held"]


async def test_a_chunk_that_cannot_be_stored_is_dropped_alone(app: Windlass, conn: Any) -> None:
    db = (await app.open()).database
    job = await app.submit("a.b.v1")
    await conn.execute("update workflow.workflow_run set status = 'leased', leased_by = 'me', claim_no = 1")
    texts = ["1", "2", '"\\u0000"', "4"]  # Postgres refuses the third
    await streams.append(db, [NewChunk(job, 1, n, 1, datetime.now(UTC), text) for n, text in enumerate(texts, 1)])
    assert [chunk.data for chunk in (await page_of(app, job)).chunks] == [1, 2, 4]


async def test_a_stream_is_bounded(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "MAX_CHUNKS", 3)

    @app.job("long.v1")
    async def long(ctx: Context) -> None:
        with pytest.raises(Invalid, match="chunk is 70002 bytes"):
            ctx.stream("x" * 70_000)
        for n in range(10):
            ctx.stream(n)

    job = await app.submit("long.v1")
    await run_until_idle(app)
    page = await page_of(app, job)
    assert [chunk.data for chunk in page.chunks] == [0, 1, 2]
    assert page.ended == "succeeded"
    messages = [line.message for line in await app.logs(job)]
    assert messages == ["the stream is longer than its limit: the rest of this attempt is not stored"]


async def test_a_stream_is_deleted_with_its_job(app: Windlass, conn: Any) -> None:
    @app.job("short.v1")
    async def short(ctx: Context) -> None:
        ctx.stream("kept for a while")

    await app.submit("short.v1")
    flow = app.workflow("streaming")
    flow.step("one", "short.v1")
    await app.start("streaming")
    await run_until_idle(app)
    assert await conn.fetchval("select count(*) from windlass.stream_chunk") == 2
    await upkeep.prune((await app.open()).database, age=timedelta())
    assert await conn.fetchval("select count(*) from windlass.stream_chunk") == 0


async def test_many_readers_of_many_streams_share_one_query(app: Windlass, conn: Any) -> None:
    live = await app.live()
    jobs = [await app.submit("a.b.v1") for _ in range(20)]
    await conn.execute("update workflow.workflow_run set status = 'leased', leased_by = 'me', claim_no = 1")
    followers = [live.streams.follow(job) for job in jobs for _ in range(3)]
    pages = [asyncio.ensure_future(anext(follower)) for follower in followers]
    chunks = [NewChunk(job, 1, 1, 1, datetime.now(UTC), f'"{job}"') for job in jobs]
    await streams.append((await app.open()).database, chunks)
    assert [page.chunks[0].data for page in await asyncio.gather(*pages)] == [
        str(job) for job in jobs for _ in range(3)
    ]
    for follower in followers:
        await follower.aclose()


async def test_the_client_and_the_command_line_read_a_stream(
    app: Windlass, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job("talk.v1")
    async def talk(ctx: Context) -> None:
        for chunk in ("hello ", "world\n", {"tokens": 2}):
            ctx.stream(chunk)

    async def command(*words: object) -> str:
        return (await asyncio.to_thread(CliRunner().invoke, cli, ["jobs", "stream", *map(str, words)])).output

    job = await app.submit("talk.v1")
    silent = await app.submit("talk.v1", run_at=datetime(9000, 1, 1, tzinfo=UTC))
    await run_until_idle(app)
    await app.cancel(silent)
    monkeypatch.setenv("WINDLASS_DATABASE_URL", database)
    text = 'hello world\n{"tokens": 2}\n'
    assert await command(job) == text
    assert await command(silent) == "nothing was streamed\n"
    async with served(app) as http:
        url = str(http.base_url.copy_with(path="/"))
        async with AsyncClient(url) as client:
            chunks = [event.data["data"] async for event in client.jobs.stream(str(job)) if event.event == "chunk"]
        assert chunks == ["hello ", "world\n", {"tokens": 2}]
        monkeypatch.setenv("WINDLASS_URL", url)
        assert await command(job) == text
        assert json.loads((await command(job, "--json")).splitlines()[0])["data"] == "hello "
