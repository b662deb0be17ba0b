"""The OpenAPI document is valid and complete; the page at /docs needs no external resources."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import pytest
from openapi_spec_validator import validate

from windlass import Windlass
from windlass.core.runs.run import RUN_EDGES, Letter, RunState
from windlass.core.workflows.step import Action, SleepAction
from windlass.engine.views import runs
from windlass.errors import Invalid
from windlass.schemas.common import TaskStatus
from windlass.settings import Settings
from windlass.web import docs, server
from windlass.web.api.runs import ALIASES, run_states
from windlass.web.api.tasks import place_of, place_text

METHODS = {"get", "post", "put", "patch", "delete"}
SEEDS = """
GET /workflows
POST /workflows
GET /workflows/{}
PUT /workflows/{}
DELETE /workflows/{}
POST /workflows/{}/trigger
POST /workflows/{}/runs
GET /workflows/{}/runs
GET /workflows/{}/runs/{}
POST /workflows/{}/runs/{}/cancel
GET /runs
GET /runs/{}
POST /runs/{}/cancel
POST /runs/{}/retry
GET /runs/{}/tasks
GET /runs/{}/tasks/{}/logs
"""


def document() -> dict[str, Any]:
    app = Windlass("postgresql://nowhere.invalid/none", settings=Settings())
    return server.main_app(app, asyncio.Event()).openapi()


DOCUMENT = document()
OPERATIONS: list[tuple[str, str, dict[str, Any]]] = [
    (path, method, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
    if method in METHODS
]
NAMES = [f"{method} {path}" for path, method, _ in OPERATIONS]


def test_it_is_valid_openapi_3_1() -> None:
    validate(DOCUMENT)
    assert DOCUMENT["openapi"].startswith("3.1")


def test_every_endpoint_of_the_seeds_is_there() -> None:
    known = {
        f"{method.upper()} {re.sub(r'{[^}]+}', '{}', path.removeprefix('/api/v1'))}"
        for path, operations in DOCUMENT["paths"].items()
        for method in operations
    }
    assert set(SEEDS.split("\n")) - {""} <= known


@pytest.mark.parametrize(("path", "method", "operation"), OPERATIONS, ids=NAMES)
def test_every_operation_documents_its_summary_responses_and_parameters(
    path: str, method: str, operation: dict[str, Any]
) -> None:
    statuses = set(operation["responses"])
    assert operation["summary"]
    assert any(status < "300" for status in statuses)
    assert {"421", "500", "503"} <= statuses
    if "{" in path:
        assert "404" in statuses
    if path.startswith("/api/v1"):
        assert {"401", "403"} <= statuses
        assert operation["security"]
    if "requestBody" in operation:
        assert {"413"} <= statuses
        contents = operation["requestBody"]["content"].values()
        assert contents
        assert all("example" in content for content in contents)
    for parameter in operation.get("parameters", ()):
        assert parameter.get("description") or parameter["name"] in ("token", "number", "from", "to", "before")
    for status, told in operation["responses"].items():
        if status >= "400" and "$ref" not in told:
            assert list(told["content"]) == ["application/problem+json"]


def test_operation_ids_are_unique() -> None:
    names = [operation["operationId"] for _, _, operation in OPERATIONS]
    assert len(names) == len(set(names))


def test_the_docs_page_loads_no_external_resources() -> None:
    page = docs.page(DOCUMENT)
    assert "<script" not in page
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["/openapi.json"]
    assert "@import" not in page
    assert "url(" not in page
    assert [path for path, _, _ in OPERATIONS if path not in page] == []


def test_the_docs_page_escapes_its_content() -> None:
    hostile = {"summary": "<b>&", "description": '"<script>', "responses": {"200": {"description": "</p><x>"}}}
    page = docs.page(
        {"info": {"title": "<t>", "version": "1", "description": "<d>"}, "paths": {"/<p>": {"get": hostile}}}
    )
    assert not [raw for raw in ("<b>&", "<script>", "<x>", "<t>", "<d>", "/<p>") if raw in page]


# Names of states


def test_every_step_state_and_action_has_a_public_name() -> None:
    assert set(runs.TASK_STATUS) == set(Letter)
    assert set(runs.ACTION_TYPES) == set(Action.__args__)
    assert {runs.task_status(letter, SleepAction(timedelta())) for letter in Letter} < set(TaskStatus)


def test_run_states_accept_the_names_of_both_seeds() -> None:
    assert run_states(list(RunState)) == list(RunState)
    assert run_states(["success", "completed", "SUCCEEDED"]) == ["completed"]
    assert {state for state, _ in RUN_EDGES} | set(RUN_EDGES.values()) == set(ALIASES.values())
    with pytest.raises(Invalid, match="status is 'done'"):
        run_states(["done"])


def test_a_log_cursor_survives_a_round_trip() -> None:
    text = place_text(place_of(None))
    assert place_text(place_of(text)) == text
