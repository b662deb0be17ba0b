"""The registry of JSON Schemas (2020-12) for job arguments, by type and version.

A version is immutable: a change is registered as another version. Nothing is ever fetched: references point into the
document itself. Schemas are compiled and values checked in another process with a deadline (`schema_validator`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windlass.core.jobs.payloads import is_object_schema
from windlass.core.jobs.spec import JobSpec, SchemaMode, check_name, check_version, schema_names, version_precedence
from windlass.core.json_value import encode
from windlass.core.workflows.step import ApprovalAction
from windlass.core.workflows.workflow import CronTrigger, Workflow
from windlass.effects.schema_validator import SchemaValidator, TooSlow
from windlass.engine.database import Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, Invalid, InvalidWorkflow, NotFound
from windlass.store import job_schemas as store
from windlass.store.job_schemas import JobSchema

__all__ = ["JobSchema"]
MAX_DOCUMENT = 262_144
MOST = 10_000
MAX_REFERENCES = 1000
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Misfit:
    """The problems of a job's arguments, with their paths. `is_refused`: the job must not be recorded."""

    schema: str
    problems: Sequence[tuple[str, str]]
    is_refused: bool


async def register(
    db: Tenant, type_: str, version: str, document: Any, *, uri: str | None = None, mode: SchemaMode = SchemaMode.WARN
) -> JobSchema:
    check_name(type_, "type", "name the job type")
    check_version(version)
    if uri is not None:
        check_name(uri, "uri", "leave it out or give a URI", limit=1024)
    text = await checked(db.schema_validator, document)
    async with db.begin() as conn:
        at = await store.insert(conn, org=db.org, type_=type_, version=version, uri=uri, document=text, mode=mode)
        if at is None:
            raise Conflict(f"schema {version} of {type_} already exists: register another version")
        await audit.record(conn, db, "schema.register", type_, version=version)
    return JobSchema(type_, version, uri, document, mode, at)


async def versions(db: Tenant, type_: str) -> list[JobSchema]:
    """Return the versions of a type, latest first."""
    encode(type_, field="type")
    async with db.once() as conn:
        rows = await store.of_type(conn, org=db.org, type_=type_)
    return sorted(rows, key=lambda one: version_precedence(one.version), reverse=True)


async def get(db: Tenant, type_: str, version: str | None = None) -> JobSchema:
    """Return a version of the schema of a type, by default the latest."""
    for one in await versions(db, type_):
        if version in (None, one.version):
            return one
    raise NotFound("schema of", ascii(type_[:255]) if version is None else f"{type_!a} {version[:64]!a}")


async def list_(db: Tenant) -> list[JobSchema]:
    async with db.once() as conn:
        return await store.list_(conn, org=db.org, limit=MOST)


async def remove(db: Tenant, type_: str, version: str) -> None:
    encode([type_, version], field="version")
    async with db.begin() as conn:
        if not await store.remove(conn, org=db.org, type_=type_, version=version):
            raise NotFound("schema of", f"{type_!a} {version[:64]!a}")
        await audit.record(conn, db, "schema.delete", type_, version=version)


async def schemas(db: Tenant) -> "Schemas":
    """Return all schemas of an org, ready for validation."""
    return Schemas(await list_(db), db.schema_validator)


class Schemas:
    """The schemas that jobs are validated against. With none, as in most databases, validation costs nothing."""

    def __init__(self, rows: Sequence[JobSchema] = (), validator: SchemaValidator | None = None) -> None:
        self._validator = validator
        self._of_type: dict[str, list[JobSchema]] = {}
        for one in sorted(rows, key=lambda one: version_precedence(one.version)):
            self._of_type.setdefault(one.type, []).append(one)
        self._texts: dict[tuple[str, str], str] = {}

    def __bool__(self) -> bool:
        return bool(self._of_type)

    def has(self, type_: str) -> bool:
        return type_ in self._of_type

    async def misfit(self, spec: JobSpec) -> Misfit | None:
        """Return the problems of a job's arguments, if any. A job names a schema or a version, or uses the latest."""
        known = self._of_type.get(spec.type)
        if known is None:
            return None
        schema, is_named = self._chosen(known, spec.envelope or {})
        if schema.mode is SchemaMode.OFF:
            return None
        problems = await self._problems(schema, spec.payload)
        if not problems:
            return None
        return Misfit(f"{schema.type}@{schema.version}", problems, is_named or schema.mode is SchemaMode.STRICT)

    def _chosen(self, known: Sequence[JobSchema], envelope: Mapping[str, Any]) -> tuple[JobSchema, bool]:
        name = envelope.get("schema")
        version = (envelope.get("fields") or {}).get("version")
        for one in reversed(known):
            if name is not None and name in schema_names(one.type, one.version, one.uri or _own_name(one.document)):
                return one, True
        for one in reversed(known):
            if version is not None and str(version) == one.version:
                return one, False
        return known[-1], False

    async def _problems(self, schema: JobSchema, args: Any) -> list[tuple[str, str]]:
        assert self._validator is not None
        text = self._texts.get((schema.type, schema.version))
        if text is None:
            text = self._texts[schema.type, schema.version] = json.dumps(schema.document)
        place = "args"
        if is_object_schema(schema.document) and isinstance(args, list) and len(args) == 1:
            place, args = "args[0]", args[0]  # most job types take a single object as their arguments
        try:
            return [(path_text(place, path), message) for path, message in await self._validator.problems(text, args)]
        except TooSlow as slow:
            return [(place, str(slow))]


async def checked(validator: SchemaValidator, document: Any) -> str:
    """Return a schema as JSON, or raise `Invalid` if it cannot be used for validation."""
    if not isinstance(document, dict):
        raise Invalid("schema must be an object: a JSON Schema of the arguments", field="schema")
    text = encode(document, field="schema", limit=MAX_DOCUMENT)
    _check_keywords(document)
    try:
        mistake = await validator.mistake(text)
    except TooSlow as slow:
        raise Invalid(f"schema: {slow}", field="schema") from None
    if mistake is not None:
        field = path_text("schema", mistake[0])
        raise Invalid(f"{field}: {mistake[1]}", field=field)
    return text


async def check_definitions(db: Tenant, workflows: Sequence[Workflow]) -> None:
    """Raise `InvalidWorkflow` with every unusable JSON Schema and every cron input that violates its schema.

    Definitions contain schemas for the inputs of runs and for the forms of approvals.
    """
    mistakes = [
        (place if len(workflows) == 1 else f"{workflow.name}: {place}", message)
        for workflow in workflows
        for place, message in await _mistakes(db.schema_validator, workflow)
    ]
    if mistakes:
        raise InvalidWorkflow(mistakes)


async def _mistakes(validator: SchemaValidator, workflow: Workflow) -> list[tuple[str, str]]:
    forms = {
        f"tasks.{step.name}.approve.form": step.action.form
        for step in workflow.steps
        if isinstance(step.action, ApprovalAction) and step.action.form is not None
    }
    mistakes = []
    for place, schema in forms.items() if workflow.input is None else [("input", workflow.input), *forms.items()]:
        try:
            await checked(validator, schema)
        except Invalid as error:
            mistakes.append(((error.field or "").replace("schema", place, 1), _about_it(error)))
    if not mistakes and workflow.input_schema is not None and isinstance(workflow.trigger, CronTrigger):
        try:
            await validator.check(workflow.input_schema, workflow.trigger.input, "trigger.input")
        except Invalid as error:
            mistakes += [(str(field), message) for field, message in error.errors]
    return mistakes


def _about_it(error: Invalid) -> str:
    """Return the message of an error about a schema without the leading path, which the caller reports separately."""
    text = str(error).removeprefix(f"{error.field}: ")
    return text.replace("schema", "it", 1) if text.startswith("schema") else text


def _check_keywords(document: Any) -> None:
    """Raise `Invalid` for another base URI or dialect, a reference to another document, and too many references.

    Iterative, not recursive: the author of a document chooses its depth.
    """
    references = 0
    level = [document]
    while level:
        part = level.pop()
        if isinstance(part, list):
            level.extend(part)
        if not isinstance(part, dict):
            continue
        level.extend(part.values())
        if isinstance(part.get("$id"), str):
            raise Invalid("schema has an $id: leave it out, and name the schema with `uri` beside it", field="schema")
        if isinstance(dialect := part.get("$schema"), str) and dialect.rstrip("#") != DIALECT:
            raise Invalid(f"schema has another $schema than {DIALECT}: leave it out", field="schema")
        for name in ("$ref", "$dynamicRef"):
            if name in part:
                references += 1
                if isinstance(part[name], str) and not part[name].startswith("#"):
                    mistake = f"schema has a {name} to another document: it must point into the schema itself"
                    raise Invalid(mistake, field="schema")
    if references > MAX_REFERENCES:
        raise Invalid(f"schema has {references} references, the limit is {MAX_REFERENCES}", field="schema")


def _own_name(document: Any) -> str | None:
    """Return the `$id` of a schema that was registered when an `$id` was still accepted."""
    name = document.get("$id") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None


def path_text(place: str, path: Sequence[str | int]) -> str:
    """Return a path in the notation of the Open Job Spec: args[0].items[2]."""
    return place + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
