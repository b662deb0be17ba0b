"""Bodies that are valid JSON with invalid values: a 422 that names every field, and nothing is written."""

import json
from typing import Any

import asyncpg
import httpx
import pytest

from tests.web.serving import fields, problem, served
from windlass import Windlass
from windlass.core.json_value import PAYLOAD_LIMIT

JSON = {"content-type": "application/json"}
ONE: dict[str, Any] = {"name": "one", "tasks": {"a": {"job": "a"}}}
COUNTS = """select (select count(*) from windlass.workflow), (select count(*) from windlass.version),
  (select count(*) from windlass.run), (select count(*) from windlass.event),
  (select count(*) from workflow.workflow_run)"""


async def begun(http: httpx.AsyncClient) -> str:
    await http.post("/workflows", json=ONE)
    return str((await http.post("/workflows/one/trigger", json={})).json()["data"]["run_id"])


async def test_a_number_too_large_for_a_float_is_rejected(app: Windlass, conn: "asyncpg.Connection[Any]") -> None:
    async with served(app) as http:
        await begun(http)
        before = await conn.fetchrow(COUNTS)
        assert fields(await http.post("/workflows/one/trigger", content=b'{"a": 1e999}', headers=JSON)) == ["input"]
        assert await conn.fetchrow(COUNTS) == before


async def test_values_over_their_own_limits_are_rejected_even_if_the_body_fits(app: Windlass) -> None:
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


async def test_a_duplicate_task_is_rejected(app: Windlass) -> None:
    body = b'{"name": "one", "tasks": {"a": {"job": "a"}, "a": {"job": "b"}}}'
    async with served(app) as http:
        assert "'a' is a duplicate" in problem(await http.post("/workflows", content=body, headers=JSON), 422)["detail"]


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
async def test_invalid_run_requests_are_rejected_with_every_field(
    app: Windlass, conn: "asyncpg.Connection[Any]", order: Any, field: str
) -> None:
    async with served(app) as http:
        await begun(http)
        before = await conn.fetchrow(COUNTS)
        found = fields(await http.post("/workflows/one/runs", json=order))
        assert list(dict.fromkeys(found)) == field.split()
        assert await conn.fetchrow(COUNTS) == before


async def test_idempotency_keys_in_headers_are_bounded(app: Windlass) -> None:
    async with served(app) as http:
        await begun(http)
        for key in ("x" * 1025, ""):
            answer = await http.post("/workflows/one/trigger", json={}, headers={"Idempotency-Key": key})
            assert [field.lower() for field in fields(answer)] in (["idempotency-key"], ["idempotency_key"])


async def test_an_unsupported_method_is_405_and_an_unknown_path_404(app: Windlass) -> None:
    async with served(app) as http:
        told = problem(await http.patch("/workflows", json={}), 405)
        problem(await http.get("/nothing"), 404)
    assert "PATCH is not allowed here" in told["detail"]
