"""Batches over HTTP while their server is killed again and again: exactly the right callbacks are called, each once."""

import asyncio
import contextlib
import logging
import random
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.harness import Crew, Inbox, WorkerProcess, dice, eventually

_log = logging.getLogger(__name__)
JOBS = 20
CONNECTIONS = 8
LEASE_MS = 6000  # long enough to report on all that was fetched, on a busy machine too
AT_ONCE = 5
PATIENT = {"retry": {"max_attempts": 1000, "initial_interval": "PT0.01S"}}
CALLBACKS = {
    word: {"type": f"cb.{word}", "args": [], "options": PATIENT} for word in ("on_complete", "on_success", "on_failure")
}


class Server:
    """`windlass server` on one port, which can be killed and restarted."""

    def __init__(self, crew: Crew) -> None:
        self._crew, self._port = crew, _free_port()
        self.process: WorkerProcess = self._start()
        self.kills = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/ojs/v1"

    def kill(self) -> None:
        self.kills += 1
        self.process.kill()
        self.process = self._start()

    def _start(self) -> WorkerProcess:
        number = len(self._crew.members)
        return self._crew.run(f"server-{number}", ["server", "--port", str(self._port)])


class Client:
    """One connection. Requests without a response are repeated."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def post(self, path: str, body: Any) -> httpx.Response:
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = await self._http.post(path, json=body)
                if answer.status_code < 500:
                    return answer
            assert time.monotonic() < deadline, "the server does not respond again"
            await asyncio.sleep(0.05)


async def play(inbox: Inbox, folder: Path, *, batches: int, kills: int, within: float) -> tuple[int, float]:
    """Create and process batches while the server is killed; return the number of kills and the duration."""
    with dice() as rng, Crew(inbox.url, folder) as crew:
        server = Server(crew)
        started = time.monotonic()
        done = asyncio.Event()
        async with connected(server.url) as clients:
            workers = [asyncio.create_task(work(client, done, random.Random(rng.random()))) for client in clients]
            killer = asyncio.create_task(killing(inbox, server, rng, kills=kills, jobs=batches * JOBS))
            await asyncio.gather(*(create(client, range(n, batches, CONNECTIONS)) for n, client in enumerate(clients)))
            await eventually(
                lambda: ended(inbox, batches), "every batch had ended", within=within, every=0.2 + batches / 50_000
            )
            took = time.monotonic() - started
            await killer
            done.set()
            await asyncio.gather(*workers)
        await check(inbox, batches)
        return server.kills, took


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[list[Client]]:
    async with contextlib.AsyncExitStack() as stack:
        limits = httpx.Limits(max_connections=2)  # one that creates beside one that works
        opened = [httpx.AsyncClient(base_url=url, timeout=20, limits=limits) for _ in range(CONNECTIONS)]
        yield [Client(await stack.enter_async_context(http)) for http in opened]


async def create(client: Client, numbers: range) -> None:
    for n in numbers:
        jobs = [{"type": "work.item", "args": [n, m], "options": PATIENT} for m in range(JOBS)]
        body = {"type": "batch", "id": f"batch-{n}", "jobs": jobs, "callbacks": CALLBACKS}
        answer = await client.post("/workflows", body)
        assert answer.status_code in (201, 409), answer.text  # 409: the response was lost, not the batch


async def work(client: Client, done: asyncio.Event, rng: random.Random) -> None:
    """Fetch and report jobs; in every other batch one job fails permanently."""
    wish = {"queues": ["default"], "count": AT_ONCE, "visibility_timeout_ms": LEASE_MS}
    while not done.is_set():
        jobs = (await client.post("/workers/fetch", wish)).json()["jobs"]
        rng.shuffle(jobs)
        for job in jobs:
            await report(client, job)
        if not jobs:
            await asyncio.sleep(0.02)


async def report(client: Client, job: dict[str, Any]) -> None:
    if job["type"] == "work.item" and job["args"][0] % 2 and job["args"][1] == 7:
        error = {"code": "handler_error", "message": "no", "retryable": False}
        answer = await client.post("/workers/nack", {"job_id": job["id"], "error": error})
    else:
        answer = await client.post("/workers/ack", {"job_id": job["id"], "result": job["args"]})
    assert answer.status_code in (200, 409), answer.text  # 409: already reported, or leased by another worker


async def killing(inbox: Inbox, server: Server, rng: random.Random, *, kills: int, jobs: int) -> None:
    """Kill the server after random numbers of succeeded jobs."""
    for after in sorted(rng.sample(range(jobs // 20, jobs), kills)):

        async def far_enough(after: int = after) -> bool:
            return await inbox.count("succeeded") >= after

        await eventually(far_enough, f"{after} jobs had succeeded", within=600, every=0.05 + jobs / 1_000_000)
        server.kill()


async def ended(inbox: Inbox, batches: int) -> bool:
    states = dict(await inbox.fetch("select state, count(*) from windlass.run group by state"))
    assert set(states) <= {"running", "completed"}, states
    return bool(states.get("completed") == batches)


async def check(inbox: Inbox, batches: int) -> None:
    called = await inbox.fetch(
        """select c.alias, array_agg(j.type order by j.type), count(*) filter (where j.status <> 'succeeded')
             from windlass.composition c join workflow.workflow_run j on j.run_id = c.run_id and j.step >= $1
            group by c.alias""",
        JOBS,
    )
    assert len(called) == batches
    for alias, types, unfinished in called:
        fails = int(alias.removeprefix("batch-")) % 2
        assert types == ["cb.on_complete", "cb.on_failure" if fails else "cb.on_success"], alias
        assert unfinished == 0
    fired = await inbox.fetch("select run_id, step, count(*) from windlass.event where word = 'active' group by 1, 2")
    assert len(fired) == 2 * batches
    assert [row for row in fired if row[2] != 1] == []
    twice = """select count(*) from (select workflow_id from workflow.workflow_event
                where event_type = 'created' group by 1 having count(*) > 1) as x"""
    assert await inbox.value(twice) == 0
    assert await inbox.value("select count(*) from windlass.version") == 1
    assert await inbox.value("select count(*) from workflow.workflow_run") == batches * (JOBS + 2)


async def test_each_callback_is_called_once_while_the_server_is_killed(inbox: Inbox, tmp_path: Path) -> None:
    kills, _ = await play(inbox, tmp_path, batches=20, kills=3, within=90)
    assert kills == 3


@pytest.mark.soak
@pytest.mark.parametrize(
    ("batches", "kills", "within"),
    [
        pytest.param(1_000, 20, 1700, id="thousand", marks=pytest.mark.timeout(1800)),
        pytest.param(100_000, 200, 28_000, id="hundred-thousand", marks=pytest.mark.timeout(28_800)),
    ],
)
async def test_callbacks_of_many_batches_are_called_once(
    inbox: Inbox, tmp_path: Path, batches: int, kills: int, within: float
) -> None:
    told, took = await play(inbox, tmp_path, batches=batches, kills=kills, within=within)
    _log.warning("%d batches, %d kills: %.0f s, %.0f jobs/s", batches, told, took, batches * (JOBS + 2) / took)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
