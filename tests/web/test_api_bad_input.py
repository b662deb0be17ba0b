"""Malformed, oversized, deep and hostile: a 4xx that names the place, and nothing is written."""

import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from tests.web.serving import fields, problem, served
from windlass import Windlass
from windlass.core.document import PAYLOAD_LIMIT
from windlass.web.api.workflows import DOCUMENT_LIMIT

JSON = {"content-type": "application/json"}
ONE: dict[str, Any] = {"name": "one", "tasks": {"a": {"job": "a"}}}
DEEP = b"[" * 65 + b"]" * 65
HOSTILE: dict[str, tuple[bytes, str, str]] = {
    "cut off": (b'{"a": ', "body", "line 1 column 7"),
    "no JSON": (b"a=1&b=2", "body", "line 1 column 1"),
    "two values": (b'{} {"a": 1}', "body", "line 1 column 4"),
    "trailing comma": (b'{"a":\n 1,}', "body", "line 2 column 4"),
    "no UTF-8": (b'{"a": "\xff"}', "body", "byte 7"),
    "NaN": (b'{"a": [1, NaN]}', "body.a[1]", "NaN"),
    "Infinity": (b'{"a": {"b": -Infinity}}', "body.a.b", "-Infinity"),
    "NUL": (b'{"a": {"b": "x\\u0000"}}', "body.a.b", "NUL"),
    "NUL in a key": (b'{"a": {"b\\u0000": 1}}', "body.a", "NUL"),
    "half a character": (b'{"a": "\\ud800"}', "body.a", "surrogate"),
    "deep": (b'{"a": ' + DEEP + b"}", "body", "deeper than 64 levels at body.a[0]"),
    "very deep": (b"[" * 20_000 + b"]" * 20_000, "body", "deeper than 64 levels"),
    "a number of many digits": (b'{"a": ' + b"9" * 5000 + b"}", "body", "digits"),
    "control character": (b'{"a": "\x00"}', "body", "control character"),
}
PATHS = [
    ("POST", "/workflows"),
    ("PUT", "/workflows/one"),
    ("POST", "/workflows/one/trigger"),
    ("POST", "/workflows/one/runs"),
    ("POST", "/runs/{run}/cancel"),
    ("POST", "/runs/{run}/rerun"),
    ("POST", "/workflows/one/runs/{run}/cancel"),
    ("POST", "/runs/cancel"),
    ("POST", "/runs/retry"),
]
COUNTS = """select (select count(*) from windlass.workflow), (select count(*) from windlass.version),
  (select count(*) from windlass.run), (select count(*) from windlass.event),
  (select count(*) from workflow.workflow_run)"""


async def begun(http: httpx.AsyncClient) -> str:
    await http.post("/workflows", json=ONE)
    return str((await http.post("/workflows/one/trigger", json={})).json()["data"]["run_id"])


@pytest.mark.parametrize(("method", "path"), PATHS)
async def test_hostile_bodies_are_422_with_the_place(
    app: Windlass, conn: "asyncpg.Connection[Any]", method: str, path: str
) -> None:
    async with served(app) as http:
        url = path.format(run=await begun(http))
        before = await conn.fetchrow(COUNTS)
        for name, (body, field, told) in HOSTILE.items():
            found = problem(await http.request(method, url, content=body, headers=JSON), 422)
            assert (name, found["errors"][0]["field"]) == (name, field)
            assert told in found["detail"], name
        assert await conn.fetchrow(COUNTS) == before


async def test_a_number_that_no_float_holds_is_refused(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    async with served(app) as http:
        await begun(http)
        before = await conn.fetchrow(COUNTS)
        assert fields(await http.post("/workflows/one/trigger", content=b'{"a": 1e999}', headers=JSON)) == ["input"]
        assert await conn.fetchrow(COUNTS) == before


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/workflows", DOCUMENT_LIMIT),
        ("/workflows/one/trigger", PAYLOAD_LIMIT),
        ("/workflows/one/runs", PAYLOAD_LIMIT + 65_536),
        ("/runs/{run}/rerun", PAYLOAD_LIMIT + 65_536),
        ("/runs/{run}/cancel", 65_536),
        ("/runs/cancel", 65_536),
        ("/runs/retry", 65_536),
    ],
)
async def test_bodies_that_are_too_large_are_413_with_and_without_a_length(
    app: Windlass, conn: "asyncpg.Connection[Any]", path: str, limit: int
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(limit // 65_536 + 1):
            yield b" " * 65_536

    async with served(app) as http:
        url = path.format(run=await begun(http))
        before = await conn.fetchrow(COUNTS)
        for content in (b" " * (limit + 1), pieces()):
            found = problem(await http.post(url, content=content, headers=JSON), 413)
            assert (found["title"], str(limit) in found["detail"]) == ("Too large", True)
        assert await conn.fetchrow(COUNTS) == before


async def test_what_fits_a_body_may_still_be_too_large(app: Windlass) -> None:
    async with served(app) as http:
        await begun(http)
        assert fields(await http.post("/workflows/one/runs", json={"input": "x" * (PAYLOAD_LIMIT - 1)})) == ["input"]
        large = {**ONE, "description": "x" * 10_001}
        assert fields(await http.post("/workflows", json=large)) == ["description"]
        huge = {"name": "one", "tasks": {"a": {"job": "a", "input": "x" * 1_000_001}}}
        assert "1000000" in problem(await http.post("/workflows", json=huge), 422)["detail"]


@pytest.mark.parametrize("body", [[], "text", 7, None, True, [ONE]], ids=repr)
async def test_a_definition_is_an_object(app: Windlass, body: Any) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        for method, path in (("POST", "/workflows"), ("PUT", "/workflows/one")):
            answer = await http.request(method, path, content=json.dumps(body), headers=JSON)
            assert fields(answer) == ["body"]
        assert fields(await http.post("/workflows")) == ["body"]


async def test_a_task_that_is_there_twice_is_not_lost_silently(app: Windlass) -> None:
    body = b'{"name": "one", "tasks": {"a": {"job": "a"}, "a": {"job": "b"}}}'
    async with served(app) as http:
        assert "'a' is there twice" in problem(await http.post("/workflows", content=body, headers=JSON), 422)["detail"]


@pytest.mark.parametrize(
    ("order", "field"),
    [
        ([], "body"),
        ({"labels": []}, "labels"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"labels": {"": "x"}}, "labels"),
        ({"labels": {str(n): "x" for n in range(65)}}, "labels"),
        ({"idempotency_key": 7}, "idempotency_key"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "x" * 1025}, "idempotency_key"),
        ({"max_duration": "soon"}, "max_duration"),
        ({"max_duration": True}, "max_duration"),
        ({"max_duration": 0}, "max_duration"),
        ({"max_duration": -1}, "max_duration"),
        ({"max_duration": 1e300}, "max_duration"),
        ({"max_duration": 10**400}, "max_duration"),
        ({"inputs": {}}, "inputs"),
        ({"labels": 1, "idempotency_key": 2}, "labels idempotency_key"),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_orders_that_make_no_sense_name_every_field(
    app: Windlass, conn: "asyncpg.Connection[Any]", order: Any, field: str
) -> None:
    async with served(app) as http:
        await begun(http)
        before = await conn.fetchrow(COUNTS)
        found = fields(await http.post("/workflows/one/runs", json=order))
        assert list(dict.fromkeys(found)) == field.split()
        assert await conn.fetchrow(COUNTS) == before


async def test_keys_in_headers_are_bounded(app: Windlass) -> None:
    async with served(app) as http:
        await begun(http)
        for key in ("x" * 1025, ""):
            answer = await http.post("/workflows/one/trigger", json={}, headers={"Idempotency-Key": key})
            assert [field.lower() for field in fields(answer)] in (["idempotency-key"], ["idempotency_key"])


async def test_methods_that_are_not_for_an_address_are_told(app: Windlass) -> None:
    async with served(app) as http:
        told = problem(await http.patch("/workflows", json={}), 405)
        problem(await http.get("/nothing"), 404)
    assert "PATCH is not for this address" in told["detail"]
