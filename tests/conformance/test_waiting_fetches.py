"""Fetches by type, and fetches that wait: for a job, for their timeout, for a disconnect or a shutdown of the
server."""

import asyncio
import contextlib

import httpx
import pytest

from tests.conformance.ojs_client import OjsClient, ojs_client
from windlass import Windlass
from windlass.engine.runs.inspect import serves
from windlass.engine.workers.remote import Job
from windlass.runtime import waiting
from windlass.runtime.waiting import WaitingFetches
from windlass.testing import Databases
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")

LONG = 30_000


@pytest.fixture(autouse=True)
def only_wakeups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable polling, so that only a wake-up ends a wait."""
    monkeypatch.setattr(waiting, "POLL", 3600.0)


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> "Counted":
    return Counted(monkeypatch)


class Counted:
    """Lets a test wait until a number of fetches wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._changed = asyncio.Event()
        self.number = 0
        wait = WaitingFetches.wait

        async def counted(*arguments: object, **options: object) -> object:
            self._add(1)
            try:
                return await wait(*arguments, **options)  # type: ignore[arg-type]
            finally:
                self._add(-1)

        monkeypatch.setattr(WaitingFetches, "wait", counted)

    def _add(self, number: int) -> None:
        self.number += number
        self._changed.set()

    async def until(self, number: int) -> None:
        async with asyncio.timeout(30):
            while self.number != number:
                self._changed.clear()
                await self._changed.wait()


async def test_a_worker_gets_only_the_types_it_names(ojs: OjsClient) -> None:
    for name in ("mail.send", "orders.new", "orders.paid", "report"):
        await ojs.push(name)
        await ojs.push(name, priority=5)
    assert [job["type"] for job in await ojs.fetch(count=9, types=["orders.%"])] == [
        "orders.new",
        "orders.paid",
        "orders.new",
        "orders.paid",
    ]
    assert await ojs.fetch(count=9, types=["mail", "orders.%"]) == []
    assert [job["type"] for job in await ojs.fetch(count=9, types=["report", "none.%"])] == ["report"] * 2
    assert [job["type"] for job in await ojs.fetch(count=9)] == ["mail.send"] * 2


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"types": []}, "types"),
        ({"types": "a.b"}, "types"),
        ({"types": ["a\\"]}, "types"),
        ({"types": [""]}, "types"),
        ({"types": ["a"] * 1001}, "types"),
        ({"wait_ms": -1}, "wait_ms"),
        ({"wait_ms": 30_001}, "wait_ms"),
        ({"wait_ms": "1"}, "wait_ms"),
    ],
)
async def test_an_invalid_fetch_is_rejected_with_the_field(ojs: OjsClient, more: dict[str, object], field: str) -> None:
    error = await ojs.refused("POST", "/workers/fetch", {"queues": ["q"], **more}, 400, "invalid_request")
    assert error["details"] == {"field": field}


async def test_a_fetch_waits_until_a_job_arrives(ojs: OjsClient, fetches: Counted) -> None:
    waiting_fetch = asyncio.create_task(ojs.fetch(wait_ms=LONG, types=["a.%"]))
    await fetches.until(1)
    await ojs.push("b.other")
    await ojs.push("a.mine")
    async with asyncio.timeout(20):
        assert [job["type"] for job in await waiting_fetch] == ["a.mine"]


async def test_a_fetch_that_finds_a_job_does_not_wait(ojs: OjsClient, fetches: Counted) -> None:
    await ojs.push()
    assert len(await ojs.fetch(wait_ms=LONG)) == 1
    assert fetches.number == 0


async def test_a_fetch_returns_no_jobs_after_its_timeout(ojs: OjsClient) -> None:
    assert await ojs.fetch(wait_ms=1) == []


async def test_many_waiting_fetches_get_one_job_each(ojs: OjsClient, fetches: Counted) -> None:
    workers = [asyncio.create_task(ojs.fetch(wait_ms=LONG, worker_id=f"w{n}")) for n in range(25)]
    await fetches.until(25)
    await ojs.ask("POST", "/jobs/batch", {"jobs": [{"type": "a.b", "args": [n]} for n in range(25)]}, 201)
    async with asyncio.timeout(30):
        fetched = await asyncio.gather(*workers)
    assert sorted(job["args"][0] for jobs in fetched for job in jobs) == list(range(25))


async def test_a_quiet_worker_does_not_keep_jobs_from_others(
    ojs: OjsClient, fetches: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "POLL", 0.01)
    await ojs.ask("POST", "/workers/heartbeat", {"worker_id": "quiet", "active_jobs": [], "state": "quiet"})
    quiet = asyncio.create_task(ojs.fetch(wait_ms=LONG, worker_id="quiet"))
    await fetches.until(1)
    running = asyncio.create_task(ojs.fetch(wait_ms=LONG, worker_id="running"))
    await fetches.until(2)
    await ojs.push()
    async with asyncio.timeout(20):
        assert len(await running) == 1
    quiet.cancel()
    await fetches.until(0)


async def test_a_client_that_disconnects_gets_no_job(ojs: OjsClient, fetches: Counted) -> None:
    async with httpx.AsyncClient(base_url=ojs.http.base_url, timeout=60) as http:
        body = {"queues": ["default"], "worker_id": "gone", "wait_ms": LONG}
        gone = asyncio.create_task(http.post("/ojs/v1/workers/fetch", json=body))
        await fetches.until(1)
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
    await fetches.until(0)
    await ojs.push()
    assert (await ojs.one(worker_id="other"))["attempt"] == 1


async def test_jobs_claimed_for_a_disconnected_client_are_released(
    ojs: OjsClient, fetches: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client disconnects while the query for its fetch is in progress."""
    claimed, go_on = asyncio.Event(), asyncio.Event()
    answer = waiting.Group._answer

    async def slow(group: waiting.Group, fetch: waiting.WaitingFetch, jobs: list[Job]) -> None:
        if jobs:
            claimed.set()
            await go_on.wait()
        await answer(group, fetch, jobs)

    monkeypatch.setattr(waiting.Group, "_answer", slow)
    async with httpx.AsyncClient(base_url=ojs.http.base_url, timeout=60) as http:
        body = {"queues": ["default"], "worker_id": "gone", "wait_ms": LONG}
        gone = asyncio.create_task(http.post("/ojs/v1/workers/fetch", json=body))
        await fetches.until(1)
        job = await ojs.push()
        await claimed.wait()
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone
    other = asyncio.create_task(ojs.fetch(wait_ms=LONG, worker_id="other"))
    await fetches.until(2)
    go_on.set()
    async with asyncio.timeout(20):
        [received] = await other
    assert (received["id"], received["attempt"], received["fence"]) == (job["id"], 1, 2)


async def test_too_many_waiting_fetches_are_refused(
    ojs: OjsClient, fetches: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "MOST_WAITING", 1)
    first = asyncio.create_task(ojs.fetch(wait_ms=LONG))
    await fetches.until(1)
    body = {"queues": ["default"], "wait_ms": LONG}
    error = await ojs.refused("POST", "/workers/fetch", body, 503, "backend_error")
    assert "1 fetches wait in this process already" in error["message"]
    await ojs.push()
    assert len(await first) == 1


async def test_a_job_submitted_by_another_process_ends_the_wait(databases: Databases, fetches: Counted) -> None:
    async with databases.fresh() as url, ojs_client(url) as here, Windlass(url) as other:
        waiting_fetch = asyncio.create_task(here.fetch(wait_ms=LONG))
        await fetches.until(1)
        await other.submit("a.b", {"x": 1})
        async with asyncio.timeout(20):
            [job] = await waiting_fetch
        assert job["args"] == [{"x": 1}]


async def test_a_stopping_server_ends_waiting_fetches(ojs: OjsClient, fetches: Counted) -> None:
    listener = listen("127.0.0.1", 0)
    async with httpx.AsyncClient(base_url=listener.url, timeout=60) as http:
        async with serving(server.build(ojs.app, GuardOptions(host=listener.host)), listener):
            body = {"queues": ["default"], "wait_ms": LONG}
            waiting_fetch = asyncio.create_task(http.post("/ojs/v1/workers/fetch", json=body))
            await fetches.until(1)
        assert (await waiting_fetch).json() == {"jobs": []}


async def test_a_fetch_registers_its_worker_with_its_queues_and_types(ojs: OjsClient) -> None:
    await ojs.fetch("mail", "bulk", worker_id="registered", types=["mail.%"])
    await ojs.fetch("mail", worker_id="all types")
    rows = {row.id: row for row in await ojs.app.workers()}
    assert (rows["registered"].queues, rows["registered"].types) == (["mail", "bulk"], ["mail.%"])
    assert (rows["all types"].queues, rows["all types"].types, rows["all types"].alive) == (["mail"], ["%"], True)
    assert serves(rows["registered"], "mail", "mail.send.v1")
    assert not serves(rows["registered"], "mail", "orders.new.v1")
    assert not serves(rows["registered"], "acme/mail", "mail.send.v1")
    await ojs.fetch("other", worker_id="registered")
    assert {row.id: row.queues for row in await ojs.app.workers()}["registered"] == ["other"]
