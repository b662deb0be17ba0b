"""Both clients on a real server, and on a faulty one."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.client.stub import answer, events, stub
from windlass import Conflict, Context, Invalid, InvalidWorkflow, NotFound, Unavailable, Windlass
from windlass.client import AsyncClient, Client
from windlass.errors import Refused
from windlass.web import server as web_server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

KEY = "0123456789abcdef"
RUN = "01890a5d-ac96-774b-bcce-b302099a8057"
DOUBLED: dict[str, Any] = {
    "name": "doubled",
    "tasks": {"double": {"job": "math.double.v1", "input": {"n": "{{trigger.body.n}}"}}},
}
BUSY = answer(503, '{"detail": "busy", "status": 503}', "application/problem+json", retry_after="0")
WORKERS = answer(200, '{"data": [], "next": null}')


@pytest.fixture
async def url(app: Windlass) -> AsyncIterator[str]:
    @app.job("math.double.v1", max_attempts=1)
    async def double(ctx: Context, n: int = 1) -> int:
        ctx.log.info("doubling %d", n)
        return n * 2

    listener, stop = listen("127.0.0.1", 0, keys=(KEY,)), asyncio.Event()
    async with serving(web_server.build(app, GuardOptions(host=listener.host, keys=(KEY,))), listener):
        working = asyncio.create_task(app.work(stop=stop))
        yield listener.url
        stop.set()
        await working


async def test_a_workflow_is_deployed_started_watched_and_steered(url: str) -> None:
    async with AsyncClient(url, key=KEY) as client:
        made = await client.workflows.deploy(DOUBLED)
        assert (made.name, made.version, made.changed) == ("doubled", 1, True)
        done = await client.start("doubled", {"n": 4}, labels={"team": "data"}, wait=30)
        assert (done.status, done.output, done.tasks["double"].status) == ("completed", 8, "success")
        seen = [event async for event in client.runs.stream(done.run_id, after="0+0")]
        assert not seen or seen[-1].event == "end"
        run = await client.runs.get(done.run_id)
        assert (run.labels, run.has_ended, run.input) == ({"team": "data"}, True, {"n": 4})
        assert [line.message async for line in client.runs.logs(done.run_id)] == ["doubling 4"]
        assert (await client.runs.explain(done.run_id)).tasks[0].task == "double"
        with pytest.raises(Conflict, match="only pending and running runs"):
            await client.runs.cancel(done.run_id)
        again = await client.runs.rerun(done.run_id, "double", input={"n": 5})
        assert again.retried == 1
        assert (await client.runs.wait(done.run_id, timeout=30)).status == "completed"
        assert await client.runs.output(done.run_id) == 10
        await client.workflows.disable("doubled")
        with pytest.raises(Conflict):
            await client.start("doubled")
        await client.workflows.delete("doubled")
        with pytest.raises(NotFound) as refused:
            await client.workflows.get("doubled")
        assert (refused.value.what, refused.value.key) == ("workflow", "doubled")


async def test_the_blocking_client_has_the_same_behaviour(url: str) -> None:
    def script() -> None:
        with Client(url, key=KEY) as client:
            client.workflows.deploy(DOUBLED)
            first = client.start("doubled", {"n": 1}, idempotency_key="once", wait=30)
            assert client.start("doubled", {"n": 1}, idempotency_key="once").run_id == first.run_id
            with pytest.raises(Conflict, match="another input"):
                client.start("doubled", {"n": 2}, idempotency_key="once")
            for n in range(4):
                client.start("doubled", {"n": n})
            pages = client.runs.list(workflow="doubled", limit=2)
            assert len(pages.page().items) == 2
            assert len({run.id for run in pages}) == 5
            job = client.jobs.submit("math.double.v1", {"n": 3}, tags=["a"])
            assert {one.id for one in client.jobs.list(tag="a")} == {job.id}
            assert client.stats().workers.up == 1
            with pytest.raises(NotFound):
                client.runs.wait(RUN)

    await asyncio.to_thread(script)


async def test_error_responses_raise_windlass_errors_with_all_fields(url: str) -> None:
    async with AsyncClient(url, key=KEY) as client, AsyncClient(url, key="x" * 16) as stranger:
        with pytest.raises(InvalidWorkflow) as wrong:
            await client.workflows.deploy({"name": "a", "tasks": {"b": {"needs": ["c"]}, "d": {"sleep": "soon"}}})
        assert {path.split(".")[1] for path, _ in wrong.value.errors} == {"b", "d"}
        with pytest.raises(Invalid) as bad:
            await client.jobs.submit("x", queue=7, priority="high")  # type: ignore[arg-type]
        assert [field for field, _ in bad.value.errors] == ["queue", "priority"]
        await client.workflows.deploy(DOUBLED)
        with pytest.raises(NotFound, match="did you mean doubled"):
            await client.start("double")
        with pytest.raises(Refused, match="send a key"):
            await stranger.stats()


async def test_requests_are_retried_if_that_is_safe() -> None:
    async with stub([BUSY, b"", WORKERS]) as server, AsyncClient(server.url) as client:
        assert [one async for one in client.workers.list()] == []
        assert len(server.heads) == 3
    async with stub([BUSY]) as server, AsyncClient(server.url) as client:
        with pytest.raises(Unavailable, match="busy"):
            await client.start("a")
        assert len(server.heads) == 1
        with pytest.raises(Unavailable, match="busy"):
            await client.start("a", idempotency_key="k")
        assert len(server.heads) == 5
        assert "idempotency-key: k" in server.heads[-1].lower()
    patient = answer(429, '{"detail": "slow down"}', "application/problem+json", retry_after="3600")
    async with stub([patient]) as server, AsyncClient(server.url) as client:
        with pytest.raises(Unavailable, match="slow down"):
            await client.stats()
        assert len(server.heads) == 1  # no retry after a delay of an hour


async def test_a_stream_resumes_after_the_last_event_received() -> None:
    first = events(
        "retry: 1\n\n", 'id: 1+1\nevent: hello\ndata: {}\n\n: alive\n\nid: 2+1\nevent: run\ndata: {"a":\ndata: 1}\n\n'
    )
    half = events("id: 3+1\nevent: run\nda")
    last = events('id: 3+1\nevent: task\ndata: {"b": 2}\n\nid: 4+1\nevent: end\ndata: {}\n\n')
    async with stub([first, half, BUSY, last]) as server:
        async with AsyncClient(server.url) as client:
            seen = [(one.id, one.event, one.data) async for one in client.stream()]
        assert seen == [("1+1", "hello", {}), ("2+1", "run", {"a": 1}), ("3+1", "task", {"b": 2}), ("4+1", "end", {})]
        resumed = [head.lower().partition("last-event-id: ")[2].partition("\r")[0] for head in server.heads]
        assert resumed == ["", "2+1", "2+1", "2+1"]
        server.heads.clear()

        def script() -> list[str]:
            with Client(server.url) as blocking:
                return [one.event for one in blocking.runs.stream(RUN)]

        assert await asyncio.to_thread(script) == ["hello", "run", "task", "end"]


async def test_a_stream_that_cannot_be_opened_fails_immediately() -> None:
    gone = answer(404, '{"detail": "no run 7", "what": "run", "key": "7"}', "application/problem+json")
    async with stub([gone]) as server, AsyncClient(server.url) as client:
        with pytest.raises(NotFound, match="no run 7"):
            _ = [one async for one in client.runs.stream("7")]
    async with stub([answer(204)]) as server, AsyncClient(server.url) as client:
        assert [one async for one in client.runs.stream(RUN)] == []


NOT_OURS = {
    "a web page": (answer(200, "<html>", "text/html"), "not a response of Windlass"),
    "another 404": (answer(404, "nothing here", "text/plain"), "answered 404, which is not a response of Windlass"),
    "wrong path": (answer(404, '{"detail": "Not Found"}'), "no address .*/api/v1/stats: check that a Windlass server"),
    "a proxy": (answer(502, "bad gateway", "text/plain"), "answered 502"),
}


@pytest.mark.parametrize(("given", "told"), NOT_OURS.values(), ids=NOT_OURS)
async def test_a_response_that_is_not_from_windlass_is_reported(given: bytes, told: str) -> None:
    async with stub([given]) as server, AsyncClient(server.url, retries=0) as client:
        with pytest.raises((Unavailable, NotFound), match=told):
            await client.stats()


async def test_an_unreachable_server_is_reported_with_its_address() -> None:
    async with stub([b""]) as server:
        address = server.url
    async with AsyncClient(address, retries=0) as client:
        with pytest.raises(Unavailable, match=f"cannot reach the server at {address}"):
            await client.stats()


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8080", "http://", "http://x:port", "http://x/?a=1"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="url is"):
        Client(url)


def test_the_url_and_the_key_default_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("WINDLASS_"):
            monkeypatch.delenv(name)
    assert Client().transport.options.url == "http://127.0.0.1:8080"
    monkeypatch.setenv("WINDLASS_URL", "https://w.example/api/v1/")
    monkeypatch.setenv("WINDLASS_API_KEY", "first-key-of-two, second")
    assert (Client().transport.options.url, Client().transport.options.key) == ("https://w.example", "first-key-of-two")
    assert "first-key" not in repr(Client().transport.options)
