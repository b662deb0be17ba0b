"""Health probes and metrics over real HTTP, and errors as problem documents."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from windlass import Windlass
from windlass.errors import Conflict, Invalid, InvalidCron, NotFound, Unavailable, WindlassError
from windlass.settings import Settings
from windlass.web import problems, server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

KEY = "a-key-of-sixteen-characters"


@contextlib.asynccontextmanager
async def client(
    app: Windlass, stopping: asyncio.Event | None = None, *, keys: tuple[str, ...] = ()
) -> AsyncIterator[httpx.AsyncClient]:
    listener = listen("127.0.0.1", 0)
    web = server.build(app, GuardOptions(host=listener.host, keys=keys), stopping=stopping)
    async with serving(web, listener), httpx.AsyncClient(base_url=listener.url) as opened:
        yield opened


async def test_a_process_with_a_current_database_is_alive_and_ready(app: Windlass) -> None:
    async with client(app) as http:
        for path in ("/health", "/ready"):
            answer = await http.get(path)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_an_outdated_schema_makes_the_process_unready(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    await conn.execute("delete from windlass.migration where version = 1")
    async with client(app) as http:
        answer, health = await http.get("/ready"), await http.get("/health")
    assert (answer.status_code, health.status_code) == (503, 200)
    assert answer.headers["content-type"] == "application/problem+json"
    assert "run windlass db migrate: 0001 inbox" in answer.json()["detail"]


async def test_an_unreachable_database_makes_the_process_unready_and_keeps_the_metrics() -> None:
    free = listen("127.0.0.1", 0)
    free.socket.close()
    app = Windlass(f"postgresql://nobody@127.0.0.1:{free.port}/none", settings=Settings())
    async with client(app, keys=(KEY,)) as http:
        answer, metrics = await http.get("/ready"), await http.get("/metrics", headers={"x-api-key": KEY})
    assert (answer.status_code, metrics.status_code) == (503, 200)
    assert "the database did not answer" in answer.json()["detail"]


async def test_a_stopping_process_is_alive_but_not_ready(app: Windlass) -> None:
    stopping = asyncio.Event()
    stopping.set()
    async with client(app, stopping) as http:
        answer, health = await http.get("/ready"), await http.get("/health")
    assert (answer.status_code, health.status_code) == (503, 200)


async def test_metrics_count_due_jobs_by_type(app: Windlass) -> None:
    async with client(app) as http:
        await app.submit_many([{"type": "deep.queue.v1"}] * 2 + [{"type": "deep.queue.v1", "queue": "other"}])
        await app.submit("later.job.v1", delay=3600)
        full = await http.get("/metrics")
        for job in (await app.list()).jobs:
            await app.cancel(job.id)
        empty = await http.get("/metrics")
    depth = 'workflow_run_queue_depth{status="pending",workflow_type="deep.queue.v1"} 3.0'
    assert full.headers["content-type"].startswith("text/plain")
    assert depth in full.text.splitlines()
    assert "later.job.v1" not in full.text
    assert "deep.queue.v1" not in empty.text


async def test_unknown_paths_and_methods_return_problem_documents(app: Windlass) -> None:
    async with client(app) as http:
        lost, wrong = await http.get("/nowhere"), await http.post("/health")
        docs = [await http.get(path) for path in ("/docs", "/redoc", "/docs/oauth2-redirect")]
    assert lost.headers["content-type"] == wrong.headers["content-type"] == "application/problem+json"
    assert (lost.json()["status"], wrong.json()["status"]) == (404, 405)
    assert wrong.headers["allow"] == "GET"
    assert [answer.status_code for answer in docs] == [200, 404, 404]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (Invalid("no", field="payload"), 422),
        (InvalidCron("no"), 422),
        (NotFound("job", 7), 404),
        (Conflict("no"), 409),
        (Unavailable("no"), 503),
        (WindlassError("no"), 500),
    ],
)
def test_each_error_has_its_status(error: WindlassError, status: int) -> None:
    answer = problems.of(error)
    assert answer.status_code == status
    assert answer.media_type == "application/problem+json"
    assert (b'"field":"payload"' in bytes(answer.body)) == (getattr(error, "field", None) is not None)
