"""Builds the OpenAPI document: what FastAPI generates, docstrings of the schemas, and responses of all routes."""

import ast
import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from windlass import schemas as schema_package
from windlass.core.approvals import ApprovalState
from windlass.core.definition.json_schema import SCHEMA
from windlass.core.explain.activity import Activity
from windlass.core.explain.snapshot import OriginKind
from windlass.core.explain.timeline import SpanKind
from windlass.core.jobs.job import JobState
from windlass.core.orgs import Role
from windlass.core.runs.run import RunState
from windlass.core.workflows.step import Condition, Join
from windlass.engine.quarantine import Kind
from windlass.engine.workflows import Change
from windlass.schemas.common import Problem
from windlass.web.api.examples import EXAMPLES
from windlass.web.middleware.access_log import OUTSIDE

DESCRIPTION = """Workflows and their runs. Responses are `{"data": ...}`, lists `{"data": [...], "next": cursor}`.
Errors are problem documents (RFC 9457) whose `errors` name every field. Every response has an `X-Request-Id`."""
REF = "#/components/schemas/{model}"
METHODS = frozenset({"get", "post", "put", "patch", "delete"})
OPEN = ("/health", "/ready")  # need no key
COMMON = {
    "401": "Unauthorized: a key is needed, and no valid one was sent.",
    "403": "Forbidden: the key lacks the scope that `scope` names, or its org is disabled; or the request came from a "
    "page of another origin, or through a proxy and the server has no keys.",
    "408": "Request timeout: the body did not arrive in time.",
    "415": "Unsupported media type: bodies are application/json; definitions may be application/yaml.",
    "421": "Misdirected request: Host names another server.",
    "429": "Too many requests, or a limit of the org's plan, named by `code`: wait for the time in `Retry-After`.",
    "500": "An internal error of Windlass; the server's log has the details.",
    "503": "The database did not answer, or too many requests are in progress: try again.",
}
SECURITY: dict[str, Any] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "A key of an org, or of WINDLASS_API_KEY."},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "The same key in another header."},
}
MODULES = [
    import_module(f"{schema_package.__name__}.{module.name}") for module in iter_modules(schema_package.__path__)
]
ENUMERATIONS: Mapping[str, type[StrEnum]] = {  # by their names in windlass.schemas.common
    kind.__name__: kind
    for kind in (JobState, RunState, Activity, OriginKind, SpanKind, Join, Condition, Change, Kind, Role, ApprovalState)
}


def install(app: FastAPI) -> None:
    """Build the document once, at the first request for it."""
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]  # the documented way


def _document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes)
        parts = document.setdefault("components", {})
        parts["schemas"] = _schemas(parts.get("schemas", {}))
        parts["securitySchemes"] = SECURITY
        parts["responses"] = {f"Status{status}": _problem(text) for status, text in COMMON.items()}
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if method in METHODS:
                    _complete(path, method, operation)
        app.openapi_schema = document
    return app.openapi_schema


# Schemas


def _schemas(generated: dict[str, Any]) -> dict[str, Any]:
    """Complete the generated schemas: FastAPI reads the types of dataclasses, but neither the docstrings of their
    fields nor the enumerations."""
    problem = TypeAdapter(Problem).json_schema(ref_template=REF)
    schemas = generated | problem.pop("$defs") | {"Problem": problem} | _definition()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas |= {name: TypeAdapter(values).json_schema() for name, values in ENUMERATIONS.items()}
    descriptions = {key: text for module in MODULES for key, text in _docstrings(module)}
    for module in MODULES:
        for name, kind in vars(module).items():
            if name in schemas and is_dataclass(kind) and kind.__module__ == module.__name__:
                _describe(schemas[name]["properties"], kind, descriptions)
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    return dict(sorted(schemas.items()))


def _describe(properties: dict[str, Any], kind: Any, descriptions: Mapping[tuple[str, str], str]) -> None:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        schema = properties[field.metadata.get("alias", field.name)]
        for part in (schema, schema.get("items", {}), *schema.get("anyOf", ())):
            if part.get("type") == "string" and (name := _enumeration(hints[field.name])):
                del part["type"]
                part["$ref"] = REF.format(model=name)
                schema.pop("title", None)
        texts = (descriptions.get((owner.__name__, field.name)) for owner in kind.__mro__)
        if text := next(filter(None, texts), None):
            schema["description"] = text


def _enumeration(hint: Any) -> str | None:
    """Return the name of the enumeration in an annotation of `windlass.schemas.common`; None if there is none."""
    if get_origin(hint) is Annotated:
        return str(hint.__metadata__[0])
    return next(filter(None, map(_enumeration, get_args(hint))), None)


def _docstrings(module: ModuleType) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield the docstrings below the fields of a module's classes; Python keeps them only in the source."""
    classes = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)]
    for node in classes:
        for field, text in pairwise(node.body):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(description))):
                    yield (node.name, name), inspect.cleandoc(description)
                case _:
                    pass


def _definition() -> dict[str, Any]:
    """Return the published JSON Schema of definitions, with its `$defs` as components of the document."""
    schema = json.loads(json.dumps(SCHEMA).replace("#/$defs/step", REF.format(model="WorkflowStep")))
    step = schema.pop("$defs")["step"]
    schema.pop("$schema", None)
    return {"WorkflowDefinition": schema, "WorkflowStep": step}


# Operations


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add the responses of the guard to an operation, and the key that it requires."""
    outside = path.startswith(OUTSIDE)
    if not outside and path not in OPEN:
        operation["security"] = [{"bearer": []}, {"key": []}, {}]  # a server without keys requires none
    left_out = {"401", "403", "415"} if outside else {"408", "415"} if method == "get" else set()
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422")):  # FastAPI's guess: routes declare their own
        del answers["422"]
    for status in sorted(COMMON.keys() - left_out):
        answers.setdefault(status, {"$ref": f"#/components/responses/Status{status}"})
    for status, answer in answers.items():
        if status >= "400" and "$ref" not in answer:
            answer.setdefault("content", _problem("")["content"])


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": REF.format(model="Problem")}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}
