"""The child process that compiles JSON Schemas and validates values; started by `effects.schema_validator`.

Run as a file, not as a module of the package: its only dependency is jsonschema_rs, so that it starts in a few
milliseconds. One request per line on stdin, one answer per line on stdout; it exits at the end of stdin.

Patterns run on a linear-time engine, and `offline` forbids retrieval, so references resolve only within the document.
Some schemas can still be slow (references that double at every level, `uniqueItems` of large values): the parent kills
this process after a deadline.
"""

import functools
import itertools
import json
import sys
from typing import Any

from jsonschema_rs import Draft202012Validator, ReferencingError, RegexOptions, ValidationError, ValidationErrorKind

MAX_PROBLEMS = 20  # reported for one value
MAX_MESSAGE = 500  # characters; messages contain the value
MEMORY = 1024 * 1024 * 1024  # bytes
PATTERNS = RegexOptions(size_limit=1024 * 1024, dfa_size_limit=1024 * 1024)

Problem = tuple[list[str | int], str]


@functools.lru_cache(maxsize=256)
def validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema), offline=True, pattern_options=PATTERNS)


def compile_problem(schema: str) -> Problem | None:
    """Return the error in a schema and its path; None if the schema is usable."""
    try:
        validator(schema)
    except ValidationError as error:
        return list(error.instance_path), error.message[:MAX_MESSAGE]
    except (ReferencingError, ValueError) as error:
        return [], str(error)[:MAX_MESSAGE]
    return None


def problems(schema: str, value: Any) -> list[Problem]:
    if unusable := compile_problem(schema):
        return [([], f"the schema cannot be used: {unusable[1]}"[:MAX_MESSAGE])]
    errors = itertools.islice(validator(schema).iter_errors(value), MAX_PROBLEMS)
    return [(place(error), error.message[:MAX_MESSAGE]) for error in errors]


def place(error: ValidationError) -> list[str | int]:
    """Return the path of a violation; for a missing or unexpected property, its path and not that of the object."""
    kind = error.kind
    if isinstance(kind, ValidationErrorKind.Required):
        return [*error.instance_path, str(kind.property)]
    if isinstance(kind, ValidationErrorKind.AdditionalProperties | ValidationErrorKind.UnevaluatedProperties):
        return [*error.instance_path, *kind.unexpected[:1]]
    return list(error.instance_path)


def first_misfit(schema: str, values: list[Any]) -> tuple[int, list[Problem]] | None:
    """Return the index and the violations of the first value that violates a schema."""
    return next(((n, found) for n, value in enumerate(values) if (found := problems(schema, value))), None)


def misfits(schema: str, values: list[Any]) -> list[int]:
    """Return the indexes of the values that violate a schema; none if the schema cannot be used."""
    if compile_problem(schema):
        return []
    is_valid = validator(schema).is_valid
    return [n for n, value in enumerate(values) if not is_valid(value)]


def answer(request: Any) -> Any:
    if isinstance(request, dict):
        return misfits(request["schema"], request["values"])
    schema, *values = request
    return first_misfit(schema, values) if values else compile_problem(schema)


def main() -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    except (ImportError, ValueError, OSError):  # no such limits on this platform
        pass
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
