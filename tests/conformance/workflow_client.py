"""A client and a worker of the Open Job Spec in one, over real HTTP, for the tests of workflows."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from windlass import Windlass
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

Json = dict[str, Any]
FATAL = {"code": "handler_error", "message": "boom", "retryable": False}


@contextlib.asynccontextmanager
async def flowing(app: Windlass) -> AsyncIterator["WorkflowClient"]:
    listener = listen("127.0.0.1", 0, keys=())
    async with (
        serving(server.build(app, GuardOptions(host=listener.host)), listener),
        httpx.AsyncClient(base_url=listener.url + "/ojs/v1", timeout=30) as http,
    ):
        yield WorkflowClient(http)


class WorkflowClient:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def create(self, **body: Any) -> Json:
        answer = await self.http.post("/workflows", json=body)
        assert answer.status_code == 201, answer.text
        assert answer.headers["content-type"] == "application/openjobspec+json"
        found: Json = answer.json()["workflow"]
        assert answer.headers["location"] == f"/ojs/v1/workflows/{quote(found['id'], safe='')}"
        return found

    async def refused(self, status: int, **body: Any) -> Json:
        answer = await self.http.post("/workflows", json=body)
        assert answer.status_code == status, answer.text
        error: Json = answer.json()["error"]
        assert error["retryable"] is False
        assert error["hint"]
        assert error["request_id"]
        return error

    async def get(self, id_: str) -> Json:
        answer = await self.http.get(f"/workflows/{id_}")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()["workflow"]
        return found

    async def state(self, id_: str) -> str:
        return str((await self.get(id_))["state"])

    async def states(self, id_: str) -> list[str]:
        return [step["state"] for step in (await self.get(id_))["steps"]]

    async def cancel(self, id_: str, status: int = 200) -> Json:
        answer = await self.http.delete(f"/workflows/{id_}")
        assert answer.status_code == status, answer.text
        found: Json = answer.json()
        return found

    async def fetch(self, count: int = 100, queues: Sequence[str] = ("default",)) -> list[Json]:
        answer = await self.http.post("/workers/fetch", json={"queues": [*queues], "count": count})
        assert answer.status_code == 200, answer.text
        found: list[Json] = answer.json()["jobs"]
        return found

    async def one(self, type_: str) -> Json:
        """Fetch the only due job and check its type."""
        [job] = await self.fetch()
        assert job["type"] == type_
        return job

    async def ack(self, job: Json, result: Any = None, status: int = 200) -> Json:
        answer = await self.http.post("/workers/ack", json={"job_id": job["id"], "result": result})
        assert answer.status_code == status, answer.text
        found: Json = answer.json()
        return found

    async def nack(self, job: Json, error: Json | None = None) -> Json:
        answer = await self.http.post("/workers/nack", json={"job_id": job["id"], "error": error or FATAL})
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def job(self, id_: str) -> Json:
        answer = await self.http.get(f"/jobs/{id_}")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()["job"]
        return found

    async def events(self) -> list[Json]:
        answer = await self.http.get("/events", params={"limit": 200})
        assert answer.status_code == 200, answer.text
        return [event for event in answer.json()["events"] if event["type"].startswith("workflow.")]


def job(type_: str, *args: Any, **more: Any) -> Json:
    return {"type": type_, "args": [*args], **more}
