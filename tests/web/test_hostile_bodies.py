"""Every operation with a body, as the OpenAPI document lists them, with hostile bodies: a 4xx that names the problem,
and no row is written or changed."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx

from tests.web.serving import API, problem, served
from tests.web.test_api_openapi import DOCUMENT, METHODS
from windlass import RunSpec, Windlass

JSON = {"content-type": "application/json"}
KNOWN: dict[str, Any] = {"name": "known", "trigger": {"cron": "0 5 * * *"}, "tasks": {"work": {"job": "known.v1"}}}
DEEP = b"[" * 65 + b"]" * 65
# Body, the field that the error names, and a part of its message.
HOSTILE: dict[str, tuple[bytes, str, str]] = {
    "cut off": (b'{"a": ', "body", "line 1 column 7"),
    "no JSON": (b"a=1&b=2", "body", "line 1 column 1"),
    "two values": (b'{} {"a": 1}', "body", "line 1 column 4"),
    "trailing comma": (b'{"a":\n 1,}', "body", "line 2 column"),  # where exactly depends on the version of Python
    "no UTF-8": (b'{"a": "\xff"}', "body", "byte 7"),
    "NaN": (b'{"a": [1, NaN]}', "body.a[1]", "NaN"),
    "Infinity": (b'{"a": {"b": -Infinity}}', "body.a.b", "-Infinity"),
    "NUL": (b'{"a": {"b": "x\\u0000"}}', "body.a.b", "NUL"),
    "NUL in a key": (b'{"a": {"b\\u0000": 1}}', "body.a", "NUL"),
    "half a character": (b'{"a": "\\ud800"}', "body.a", "surrogate"),
    "deep": (b'{"a": ' + DEEP + b"}", "body", "deeper than 64 levels at body.a[0]"),
    "very deep": (b"[" * 20_000 + b"]" * 20_000, "body", "deeper than 64 levels"),
    "a number of many digits": (b'{"a": ' + b"9" * 5000 + b"}", "body", "digits"),
    "a key twice": (b'{"a": {"b": 1, "b": 2}}', "body", "'b' is a duplicate"),
    "control character": (b'{"a": "\x00"}', "body", "control character"),
}
WRONG_TYPES = {
    "text/plain": b"{}",
    "application/x-www-form-urlencoded": b"a=1",
    "multipart/form-data": b"--",
    "": b"{}",
}
TAKES_ANYTHING = "/api/v1/workflows/{ref}/trigger"  # the payload as it is
WRONG = (b"[]", b'"text"', b"7", b"true", b"null", b'{"no such thing": {}}')
MORE = 3 * 1_048_576  # above the limit of nearly all operations
LARGE = {"/api/v1/jobs/batch": 40 * 1_048_576}
WRITING = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if method in METHODS and "requestBody" in operation and path.startswith(API)
]
BODILESS = [
    (method.upper(), path)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if method in METHODS - {"get"} and "requestBody" not in operation and path.startswith(API)
]
EVERYTHING = """select string_agg(
  format('select %L, count(*), md5(string_agg(t::text, chr(10) order by t::text)) from %s t',
    c.oid::regclass, c.oid::regclass), ' union all ')
from pg_class c where c.relnamespace in ('workflow'::regnamespace, 'windlass'::regnamespace) and c.relkind = 'r'"""


async def state(conn: "asyncpg.Connection[Any]") -> dict[str, tuple[int, str]]:
    """Return the row count and a checksum of every table."""
    return {name: (count, mark) for name, count, mark in await conn.fetch(await conn.fetchval(EVERYTHING))}


async def known(app: Windlass) -> dict[str, object]:
    """Return path parameters that refer to existing objects, so that only the bodies are invalid."""
    await app.deploy(KNOWN)
    [run] = await app.start_many("known", [RunSpec(input={})])
    job = await app.submit("known.job.v1")
    return {"ref": "known", "run_id": run.id, "job_id": job, "name": "default", "task": "work", "worker_id": "w"} | {
        "kind": "run",
        "key": "x",
        "email": "a@example.com",
        "org": "default",
        "role": "x",
        "signal": "x",
        "approval_id": run.id,
    }


async def test_hostile_bodies_are_refused_and_write_nothing(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    names = await known(app)
    before = await state(conn)
    async with served(app) as http:
        for method, path in WRITING:
            url = path.removeprefix(API).format(**names)
            await _refused(http, method, path, url)
            await hung_up(http, method, url)
            assert await state(conn) == before, (method, path)


async def _refused(http: httpx.AsyncClient, method: str, path: str, url: str) -> None:
    for name, (body, field, told) in HOSTILE.items():
        found = problem(await http.request(method, url, content=body, headers=JSON), 422)
        assert (path, name, found["errors"][0]["field"]) == (path, name, field)
        assert told in found["detail"], (path, name)
    for media, body in WRONG_TYPES.items():
        headers = {"content-type": media} if media else {}
        problem(await http.request(method, url, content=body, headers=headers), 415)
    too_large = await http.request(method, url, content=pieces(LARGE.get(path, MORE)), headers=JSON)
    assert problem(too_large, 413)["title"] == "Too large", path
    for body in WRONG if path != TAKES_ANYTHING else ():
        found = problem(await http.request(method, url, content=body, headers=JSON), 422)
        assert found["errors"], (path, body)


async def test_a_body_causes_no_server_error_in_operations_without_one(app: Windlass) -> None:
    names = await known(app)
    async with served(app) as http:
        for method, path in BODILESS:
            url = path.removeprefix(API).format(**names)
            for body in (b"[" * 100_000, b'{"a": NaN}', b"\xff"):
                assert (await http.request(method, url, content=body, headers=JSON)).status_code < 500, path
            assert (await http.request(method, url, content=b"{}")).status_code == 415, path


async def pieces(size: int) -> AsyncIterator[bytes]:
    """Yield a body without a content length."""
    for _ in range(size // 65_536):
        yield b" " * 65_536


async def hung_up(http: httpx.AsyncClient, method: str, url: str) -> None:
    """Send less than the announced content length and disconnect."""
    reader, writer = await asyncio.open_connection(http.base_url.host, http.base_url.port)
    lines = (
        f"{method} {API}{url} HTTP/1.1",
        "host: 127.0.0.1",
        "content-type: application/json",
        "content-length: 100",
    )
    writer.write("\r\n".join((*lines, "", "")).encode() + b'{"input": {}')
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert await reader.read() == b""
