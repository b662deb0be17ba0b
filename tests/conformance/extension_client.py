"""A client of the extensions over real HTTP; each call names the status that it expects."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from windlass import Windlass
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

MEDIA_TYPE = "application/openjobspec+json"
Json = dict[str, Any]
Headers = Mapping[str, str] | None


class Client:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def call(
        self, method: str, path: str, body: Any = None, status: int = 200, headers: Headers = None
    ) -> httpx.Response:
        answer = await self.http.request(method, path, json=body, headers=headers)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text}"
        if status != 204:
            assert answer.headers["content-type"] == MEDIA_TYPE
        assert answer.headers["x-request-id"]
        if status >= 400:
            error = answer.json()["error"]
            assert isinstance(error["retryable"], bool)
            assert error["hint"]
            assert error["docs_url"]
        return answer

    async def get(self, path: str, status: int = 200, headers: Headers = None) -> Json:
        found: Json = (await self.call("GET", path, None, status, headers)).json()
        return found

    async def post(self, path: str, body: Any = None, status: int = 200, headers: Headers = None) -> Json:
        found: Json = (await self.call("POST", path, {} if body is None else body, status, headers)).json()
        return found

    async def put(self, path: str, body: Any, status: int = 200) -> Json:
        found: Json = (await self.call("PUT", path, body, status)).json()
        return found

    async def push(
        self, type_: str = "test.echo", *args: Any, status: int = 201, headers: Headers = None, **more: Any
    ) -> Json:
        return await self.post("/jobs", {"type": type_, "args": list(args), **more}, status, headers)

    async def fetch(self, *queues: str, worker: str = "w1", count: int = 1, headers: Headers = None) -> list[Json]:
        body = {"queues": list(queues) or ["default"], "worker_id": worker, "count": count}
        found: list[Json] = (await self.post("/workers/fetch", body, 200, headers))["jobs"]
        return found


@contextlib.asynccontextmanager
async def extended(app: Windlass, *, base: str = "/ojs/v1") -> AsyncIterator[Client]:
    listener = listen("127.0.0.1", 0, keys=())
    async with (
        serving(server.build(app, GuardOptions(host=listener.host)), listener),
        httpx.AsyncClient(base_url=listener.url + base, timeout=30) as http,
    ):
        yield Client(http)
