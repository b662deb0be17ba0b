"""A real server for a test, and a client that checks every response against the OpenAPI document."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
from openapi_schema_validator import OAS31Validator

from windlass import Windlass
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

API = "/api/v1"
Document = dict[str, Any]
_documents: list[Document] = []


@contextlib.asynccontextmanager
async def working(app: Windlass) -> AsyncIterator[None]:
    """Run a worker in this process during the block."""
    stop = asyncio.Event()
    work = asyncio.create_task(app.work(stop=stop))
    yield
    stop.set()
    await work


@contextlib.asynccontextmanager
async def served(app: Windlass, *, keys: tuple[str, ...] = (), **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Serve the app and yield a client of /api/v1 that checks all responses."""
    listener = listen("127.0.0.1", 0, keys=keys)
    guard = GuardOptions(host=listener.host, keys=keys, **options)
    headers = {"x-api-key": keys[0]} if keys else {}
    async with (
        serving(server.build(app, guard), listener),
        httpx.AsyncClient(base_url=listener.url, headers=headers, timeout=30, verify=False) as http,
    ):
        document = _document(app)

        async def conforms(answer: httpx.Response) -> None:
            await answer.aread()
            check(document, answer)

        http.event_hooks["response"].append(conforms)
        http.base_url = httpx.URL(listener.url + API)
        yield http


def _document(app: Windlass) -> Document:
    """Return the OpenAPI document, built once for all tests: it takes longer than most of them."""
    if not _documents:
        _documents.append(server.main_app(app, asyncio.Event()).openapi())
    return _documents[0]


def check(document: Document, answer: httpx.Response) -> None:
    """Check that the status is documented and that the body matches its schema."""
    operation = find(document, answer.request)
    if operation is None:
        assert answer.status_code in (404, 405)
        return
    told = operation["responses"].get(str(answer.status_code))
    assert told is not None, f"{answer.request.method} {answer.request.url}: {answer.status_code} is not documented"
    told = resolved(document, told)
    media = answer.headers.get("content-type", "").partition(";")[0]
    assert "x-request-id" in answer.headers
    if "content" not in told:
        assert answer.status_code == 204
        return
    if "*/*" in told["content"]:  # a file
        return
    schema = {**told["content"][media]["schema"], "components": document["components"]}
    problems = [*OAS31Validator(schema).iter_errors(answer.json())]
    assert not problems, problems[:3]


def find(document: Document, request: httpx.Request) -> Document | None:
    """Return the operation of a request; paths with fewer parameters take precedence."""
    found = [path for path in document["paths"] if matches(path, request.url.path)]
    for path in sorted(found, key=lambda path: path.count("{")):
        operation: Document | None = document["paths"][path].get(request.method.lower())
        if operation is not None:
            return operation
    return None


def matches(template: str, path: str) -> bool:
    pattern = "[^/]+".join(map(re.escape, re.split(r"\{[^}]+\}", template)))
    return re.fullmatch(pattern, path) is not None


def resolved(document: Document, part: Document) -> Document:
    while "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def data(answer: httpx.Response, status: int = 200) -> Any:
    """Check the status of a response and return its data."""
    assert answer.status_code == status, answer.text
    return answer.json()["data"]


def problem(answer: httpx.Response, status: int) -> Document:
    """Check the status of an error response and return its problem document."""
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json"), answer.text
    found: Document = answer.json()
    assert found["status"] == status
    return found


def fields(answer: httpx.Response) -> list[str]:
    """Return the fields that a 422 names."""
    return [error["field"] for error in problem(answer, 422)["errors"]]
