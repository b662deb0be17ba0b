"""The client and the OpenAPI document agree: every operation can be called, and all parameters and responses that the
client uses are documented."""

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from tools import sdk
from tools.operations import CALLS, GROUPS, OPERATIONS

import windlass.client
from tests.web.serving import resolved
from tests.web.test_api_openapi import DOCUMENT, METHODS
from windlass.client import AsyncClient, Client
from windlass.client.descriptors import Group, conversation, listing
from windlass.client.request import NOTHING, PREFIX, Call
from windlass.client.runs import run_call

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs" / "reference" / "client.md").read_text("utf-8")
# Operations without a client method, and why.
LEFT_OUT = {
    "POST /api/v1/workflows/{ref}/trigger": "the start operation of seed 001; `start` does the same and more",
    "GET /api/v1/workflows/{ref}/runs": "`runs.list(workflow=...)`",
}
NESTED = "/api/v1/workflows/{ref}/runs/{run_id}"  # every run has a second address, for people who have the workflow


def operation_of(call: Call[Any]) -> dict[str, Any]:
    found = DOCUMENT["paths"].get(PREFIX + call.path, {}).get(call.method.lower())
    assert found is not None, f"{call.method} {call.path} is not in the document"
    return dict(found)


def test_every_operation_has_a_client_method_or_a_reason_not_to() -> None:
    reached = {f"{call.method} {PREFIX}{call.path}" for call in CALLS.values()}
    there = {
        f"{method.upper()} {path}"
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
        if method in METHODS and path.startswith(PREFIX) and not path.startswith(NESTED)
    }
    assert there - reached == set(LEFT_OUT)
    assert reached - there == set()


@pytest.mark.parametrize("name", CALLS)
def test_the_parameters_and_the_body_of_each_call_are_documented(name: str) -> None:
    call = CALLS[name]
    found = operation_of(call)
    parameters = {(one["in"], one["name"].lower()) for one in found.get("parameters", ())}
    assert {("query", key.lower()) for key in call.query} <= parameters
    assert {("header", key.lower()) for key in call.headers} <= parameters
    left_out = {key for place, key in parameters if place == "query"} - set(call.query)
    assert left_out <= {"format"} | ({"after", "limit", "tail"} if "format" in call.query else set())
    assert set(re.findall(r"{(\w+)}", call.path)) == set(call.values)
    if isinstance(OPERATIONS[name], listing):
        cursor = OPERATIONS[name].cursor
        assert ("query", cursor) in parameters or "next" not in listed(found) or ("query", "limit") not in parameters
    assert (call.body is not NOTHING) == ("requestBody" in found)
    if call.body is not NOTHING:
        content = found["requestBody"]["content"]["application/json"]
        schema = resolved(DOCUMENT, content["schema"])
        assert set(call.body) <= set(schema["properties"])


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if call.kind is not None])
def test_the_fields_of_each_result_match_the_documented_response(name: str) -> None:
    call = CALLS[name]
    schema = answer(operation_of(call))
    assert call.kind is not None
    compare(call.kind, resolved(DOCUMENT, schema["items"]) if call.many else schema)


def compare(kind: Any, schema: dict[str, Any]) -> None:
    """Compare the fields of a dataclass with a schema, recursively."""
    fields = {field.metadata.get("alias", field.name): field for field in dataclasses.fields(kind)}
    choices = [resolved(DOCUMENT, one) for one in schema.get("anyOf", (schema,))]
    known: dict[str, Any] = {}
    for one in choices:
        known |= one["properties"]
    optional = {"id", "workflow", "version", "inserted_at", "expires_at", "task_counts", "labels"}  # of a started run
    optional |= {"idempotency_key", "parent_run_id", "retried", "input", "cursor", "trigger", "attempts"}
    optional |= {"paused_at", "is_undone"}
    assert set(fields) <= set(known), kind
    assert set(known) - set(fields) <= (optional if kind.__name__ == "StartedRun" else set()), kind
    hints = get_type_hints(kind)
    for name, field in fields.items():
        for part in parts(hints[field.name]):
            compare(part, inner(known[name]))


def parts(hint: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(hint):
        yield hint
    for part in getattr(hint, "__args__", ()):
        yield from parts(part)


def inner(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the object inside lists, mappings and null."""
    schema = resolved(DOCUMENT, schema)
    if "items" in schema:
        return inner(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        return inner(schema["additionalProperties"])
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return inner(choice)
    return schema


def answer(found: dict[str, Any]) -> dict[str, Any]:
    told = [one for status, one in found["responses"].items() if status < "300" and "content" in one]
    schema = resolved(DOCUMENT, told[0]["content"]["application/json"]["schema"])
    if "anyOf" in schema:
        return {"anyOf": [data(resolved(DOCUMENT, one)) for one in schema["anyOf"]]}
    return data(schema)


def data(schema: dict[str, Any]) -> dict[str, Any]:
    return resolved(DOCUMENT, schema["properties"]["data"])


def listed(found: dict[str, Any]) -> dict[str, Any]:
    schema = resolved(DOCUMENT, found["responses"]["200"]["content"]["application/json"]["schema"])
    return dict(schema["properties"])


def test_the_openapi_document_of_the_sdks_is_current() -> None:
    assert (ROOT / "sdk" / "openapi.json").read_text("utf-8") == sdk.document(), "run `make openapi`"


def test_both_clients_have_the_same_groups_and_operations() -> None:
    other = AsyncClient("http://127.0.0.1")
    assert {type(group) for group in GROUPS.values() if not isinstance(group, Client)} == {
        type(group) for group in vars(other).values() if isinstance(group, Group)
    }


def test_path_parameters_are_escaped() -> None:
    call = run_call("../workflows?x=1#y")
    assert call.address == "/api/v1/runs/..%2Fworkflows%3Fx%3D1%23y"


def test_the_client_needs_neither_the_server_nor_the_database() -> None:
    script = "import sys, windlass.client; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert {"asyncpg", "fastapi", "pydantic", "starlette", "uvicorn"} & set(found.stdout.split()) == set()


def test_operations_without_self_explanatory_names_have_docstrings() -> None:
    silent = {name for name, found in OPERATIONS.items() if not found.__doc__}
    assert {name.rpartition(".")[2] for name in silent} <= {"get", "cancel", "enable", "pause", "resume"}


def test_only_wait_is_a_conversation_of_several_requests() -> None:
    kinds = [kind for group in GROUPS.values() for kind in vars(type(group)).values()]
    assert [kind.make.__name__ for kind in kinds if isinstance(kind, conversation)] == ["wait"]


@pytest.mark.parametrize("name", windlass.client.__all__)
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert re.search(rf"`{name}\b", REFERENCE)


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_in_the_reference(name: str) -> None:
    group, _, own = name.rpartition(".")
    [line] = [line for line in REFERENCE.splitlines() if f"`client.{group or own}" in line and line.startswith("| `")]
    assert re.search(rf"\b{own}\b", line)
