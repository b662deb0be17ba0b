"""The registry of job schemas: what arguments must look like, by type and version (JSON Schema 2020-12).

A version is immutable: who wants another registers another. References may only point into the document itself.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing.exceptions import Unresolvable

from windlass.core.document import encode
from windlass.core.job_schema import Mode, check_version, names_of, precedence
from windlass.core.submission import JobSpec, check_name
from windlass.engine.unit import Unit
from windlass.errors import Conflict, Invalid, NotFound
from windlass.store import job_schemas as store
from windlass.store.job_schemas import JobSchema

__all__ = ["JobSchema", "Misfit", "Schemas", "get", "list_", "register", "remove", "schemas", "versions"]
MAX_DOCUMENT = 262_144
MOST = 10_000
MOST_TOLD = 20  # misfits of a job


@dataclass(frozen=True, slots=True)
class Misfit:
    """A job whose arguments do not fit: what is wrong, and where; `is_refused`: it may not be recorded."""

    schema: str
    problems: Sequence[tuple[str, str]]
    is_refused: bool


async def register(
    unit: Unit, type_: str, version: str, document: Any, *, uri: str | None = None, mode: Mode = Mode.WARN
) -> JobSchema:
    check_name(type_, "type", "name the job type")
    check_version(version)
    if uri is not None:
        check_name(uri, "uri", "leave it out or give a URI", limit=1024)
    text = _checked(document)
    async with unit.begin() as conn:
        at = await store.insert(conn, org=unit.org, type_=type_, version=version, uri=uri, document=text, mode=mode)
    if at is None:
        raise Conflict(f"there is a schema {version} of {type_} already: register another version")
    return JobSchema(type_, version, uri, document, mode, at)


async def versions(unit: Unit, type_: str) -> list[JobSchema]:
    """The latest first."""
    encode(type_, field="type")
    async with unit.once() as conn:
        found = await store.of_type(conn, org=unit.org, type_=type_)
    return sorted(found, key=lambda one: precedence(one.version), reverse=True)


async def get(unit: Unit, type_: str, version: str | None = None) -> JobSchema:
    """A version, or the latest."""
    for one in await versions(unit, type_):
        if version in (None, one.version):
            return one
    raise NotFound("schema of", ascii(type_[:255]) if version is None else f"{type_!a} {version[:64]!a}")


async def list_(unit: Unit) -> list[JobSchema]:
    async with unit.once() as conn:
        return await store.list_(conn, org=unit.org, limit=MOST)


async def remove(unit: Unit, type_: str, version: str) -> None:
    encode([type_, version], field="version")
    async with unit.once() as conn:
        if not await store.remove(conn, org=unit.org, type_=type_, version=version):
            raise NotFound("schema of", f"{type_!a} {version[:64]!a}")


async def schemas(unit: Unit) -> "Schemas":
    """All of an org, ready to check with."""
    return Schemas(await list_(unit))


class Schemas:
    """What jobs are checked against. Most databases have none, and then it costs nothing."""

    def __init__(self, found: Sequence[JobSchema]) -> None:
        self._of_type: dict[str, list[JobSchema]] = {}
        for one in sorted(found, key=lambda one: precedence(one.version)):
            self._of_type.setdefault(one.type, []).append(one)
        self._checkers: dict[tuple[str, str], Draft202012Validator] = {}

    def __bool__(self) -> bool:
        return bool(self._of_type)

    def has(self, type_: str) -> bool:
        return type_ in self._of_type

    def misfit(self, spec: JobSpec) -> Misfit | None:
        """What is wrong with a job's arguments. A job names its schema, or its version, or means the latest."""
        known = self._of_type.get(spec.type)
        if known is None:
            return None
        envelope = spec.envelope or {}
        schema, is_named = self._meant(known, envelope)
        if schema.mode is Mode.OFF:
            return None
        problems = list(self._problems(schema, spec.payload))
        if not problems:
            return None
        return Misfit(f"{schema.type}@{schema.version}", problems, is_named or schema.mode is Mode.STRICT)

    def _meant(self, known: Sequence[JobSchema], envelope: Mapping[str, Any]) -> tuple[JobSchema, bool]:
        name = envelope.get("schema")
        version = (envelope.get("fields") or {}).get("version")
        for one in reversed(known):
            if name is not None and name in names_of(one.type, one.version, one.uri or _own_name(one.document)):
                return one, True
        for one in reversed(known):
            if version is not None and str(version) == one.version:
                return one, False
        return known[-1], False

    def _problems(self, schema: JobSchema, args: Any) -> Iterator[tuple[str, str]]:
        checker = self._checkers.get((schema.type, schema.version))
        if checker is None:
            checker = self._checkers[schema.type, schema.version] = Draft202012Validator(schema.document)
        place = "args"
        if _is_about_object(schema.document) and isinstance(args, list) and len(args) == 1:
            place, args = "args[0]", args[0]  # one object is how most job types take their arguments
        try:
            for error in itertools.islice(checker.iter_errors(args), MOST_TOLD):
                yield _path(place, error), error.message[:500]
        except (Unresolvable, RecursionError):
            yield place, "the schema refers to what is not in it, or to itself without end"


def _checked(document: Any) -> str:
    """The text of a schema that makes sense."""
    if not isinstance(document, dict):
        raise Invalid("schema must be an object: a JSON Schema of the arguments", field="schema")
    text = encode(document, field="schema", limit=MAX_DOCUMENT)
    try:
        Draft202012Validator.check_schema(document)
    except SchemaError as error:
        raise Invalid(f"{_path('schema', error)}: {error.message[:500]}", field=_path("schema", error)) from None
    for reference in _references(document):
        if not isinstance(reference, str) or not reference.startswith("#"):
            raise Invalid("schema has a $ref to somewhere else: it must point into the schema itself", field="schema")
    return text


def _references(value: Any) -> Iterator[Any]:
    """Without recursion: the depth of a document is its author's choice."""
    level = [value]
    while level:
        one = level.pop()
        if isinstance(one, dict):
            yield from (one[name] for name in ("$ref", "$dynamicRef") if name in one)
            level.extend(one.values())
        elif isinstance(one, list):
            level.extend(one)


def _is_about_object(document: Any) -> bool:
    return isinstance(document, dict) and document.get("type") == "object"


def _own_name(document: Any) -> str | None:
    name = document.get("$id") if isinstance(document, dict) else None
    return name if isinstance(name, str) else None


def _path(place: str, error: ValidationError | SchemaError) -> str:
    return place + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
