"""A client of the Open Job Spec over real HTTP, with a manual clock and loops that run when a test moves it."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import httpx

from tests.keys import KEYS
from windlass import Windlass
from windlass.engine import upkeep
from windlass.engine.runs import sweep
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.workers import remote_reports
from windlass.settings import Settings
from windlass.testing import Clock
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

Json = dict[str, Any]
MEDIA_TYPE = "application/openjobspec+json"
ERROR = {"code": "handler_error", "message": "boom"}


@contextlib.asynccontextmanager
async def ojs_client(
    database: str, clock: Clock | None = None, *, test_mode: bool = False
) -> AsyncIterator["OjsClient"]:
    settings = Settings(test_mode=test_mode, master_keys=KEYS)
    opened = Windlass(database, settings=settings, clock=clock.now if clock else None)
    async with opened as app, of_app(app, clock) as ojs:
        yield ojs


@contextlib.asynccontextmanager
async def of_app(app: Windlass, clock: Clock | None = None) -> AsyncIterator["OjsClient"]:
    listener = listen("127.0.0.1", 0)
    async with (
        serving(server.build(app, GuardOptions(host=listener.host)), listener),
        httpx.AsyncClient(base_url=listener.url, timeout=30) as http,
    ):
        yield OjsClient(app, http, clock)


class OjsClient:
    def __init__(self, app: Windlass, http: httpx.AsyncClient, clock: Clock | None) -> None:
        self.app, self.http, self.clock = app, http, clock

    async def ask(self, method: str, path: str, body: Any = None, status: int = 200) -> Json:
        """Send a request and check the status and the headers of the spec; return the body of the response."""
        answer = await self.http.request(method, f"/ojs/v1{path}", json=body)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.headers["ojs-version"] == "1.0"
        assert answer.headers["x-request-id"]
        found: Json = answer.json()
        return found

    async def refused(self, method: str, path: str, body: Any, status: int, code: str) -> Json:
        error: Json = (await self.ask(method, path, body, status))["error"]
        assert error["code"] == code, error
        assert all(isinstance(error[name], str) for name in ("message", "hint", "docs_url", "request_id", "type"))
        assert isinstance(error["retryable"], bool)
        return error

    async def push(self, type_: str = "email.send", *args: Any, status: int = 201, **options: Any) -> Json:
        body = {"type": type_, "args": [*args], "options": options}
        found: Json = (await self.ask("POST", "/jobs", body, status))["job"]
        return found

    async def fetch(self, *queues: str, count: int = 1, **more: Any) -> list[Json]:
        body = {"queues": [*(queues or ["default"])], "count": count, **more}
        found: list[Json] = (await self.ask("POST", "/workers/fetch", body))["jobs"]
        return found

    async def one(self, *queues: str, **more: Any) -> Json:
        [job] = await self.fetch(*queues, **more)
        return job

    async def ack(self, job: Json, result: Any = None, status: int = 200, **more: Any) -> Json:
        return await self.ask("POST", "/workers/ack", {"job_id": job["id"], "result": result, **more}, status)

    async def nack(self, job: Json, error: Json | None = None, status: int = 200, **more: Any) -> Json:
        body = {"job_id": job["id"], "error": ERROR if error is None else error, **more}
        return await self.ask("POST", "/workers/nack", body, status)

    async def get(self, job: Json) -> Json:
        found: Json = (await self.ask("GET", f"/jobs/{job['id']}"))["job"]
        return found

    async def state(self, job: Json) -> str:
        return str((await self.get(job))["state"])

    async def events(self, *types: str, after: str = "", queues: Sequence[str] = ()) -> Json:
        query = {"types": ",".join(types), "after": after, "queues": ",".join(queues), "limit": "100"}
        answer = await self.http.get("/ojs/v1/events", params={name: text for name, text in query.items() if text})
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def pass_time(self, **span: float) -> None:
        """Move the clock and run each loop once."""
        assert self.clock is not None
        self.clock.move(timedelta(**span))
        db = await self.app.open()
        await upkeep.become_due(db)
        await upkeep.release_expired(db)
        await upkeep.expire(db)
        await remote_reports.end_overdue(db)
        await ojs_schedules.tick(db)
        await sweep.sweep_runs(db)
