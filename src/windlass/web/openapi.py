"""The OpenAPI document of all faces: what FastAPI knows, and what every route has in common."""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from windlass.core.definition.json_schema import SCHEMA
from windlass.web.api.schemas.common import FieldProblem, Problem
from windlass.web.middleware.guard import OUTSIDE

DESCRIPTION = """Workflows and their runs. Answers are `{"data": ...}`, lists `{"data": [...], "next": cursor}`.
Errors are problem documents (RFC 9457) whose `errors` name every field. Every answer has an `X-Request-Id`."""
REF = "#/components/schemas/{model}"
METHODS = frozenset({"get", "post", "put", "patch", "delete"})
OPEN = ("/health", "/ready")  # no key
COMMON = {
    "401": "Unauthorized: the server has keys, and none of them was sent.",
    "403": "Forbidden: a page of another origin asked, or a proxy did and the server has no keys.",
    "408": "Request timeout: the body did not come in time.",
    "415": "Unsupported media type: bodies are application/json; definitions may be application/yaml.",
    "421": "Misdirected request: Host names another server.",
    "429": "Too many requests: wait as `Retry-After` says.",
    "500": "A defect of Windlass; its log has the details.",
    "503": "The database did not answer, or too much is under way: try again.",
}
SECURITY: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of WINDLASS_API_KEY."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same, in its own header."},
}


def install(app: FastAPI) -> None:
    """Made once, when it is first asked for."""
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]  # FastAPI's own way to change it


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        parts = found.setdefault("components", {})
        schemas = parts.setdefault("schemas", {})
        for model in (Problem, FieldProblem):
            schemas[model.__name__] = _schema(model)
        schemas |= _definition()
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        parts["securitySchemes"] = SECURITY
        parts["responses"] = {f"Status{status}": _problem(told) for status, told in COMMON.items()}
        for path, operations in found["paths"].items():
            for method, operation in operations.items():
                if method in METHODS:
                    _complete(path, method, operation)
        app.openapi_schema = found
    return app.openapi_schema


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """What the guard may answer, and the key it asks for."""
    outside = path.startswith(OUTSIDE)
    if not outside and path not in OPEN:
        operation["security"] = [{"bearer": []}, {"key": []}, {}]  # without keys none is asked for
    left_out = {"401", "403", "415"} if outside else {"408", "415"} if method == "get" else set()
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422")):  # FastAPI's guess: where we mean it, we say it
        del answers["422"]
    for status in sorted(COMMON.keys() - left_out):
        answers.setdefault(status, {"$ref": f"#/components/responses/Status{status}"})
    for status, answer in answers.items():
        if status >= "400" and "$ref" not in answer:
            answer.setdefault("content", _problem("")["content"])


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": REF.format(model="Problem")}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


def _schema(model: type[Problem] | type[FieldProblem]) -> dict[str, Any]:
    found = model.model_json_schema(ref_template=REF)
    found.pop("$defs", None)
    return found


def _definition() -> dict[str, Any]:
    """The published schema of definitions, with its parts where OpenAPI has them."""
    found = json.loads(json.dumps(SCHEMA).replace("#/$defs/step", REF.format(model="WorkflowStep")))
    step = found.pop("$defs")["step"]
    found.pop("$schema", None)
    return {"WorkflowDefinition": found, "WorkflowStep": step}
