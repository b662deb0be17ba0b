"""Problem documents (RFC 9457), as which errors travel."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldProblem:
    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """RFC 9457. `detail` is for people; programs read the other fields."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    what: str | None = None
    """The kind of thing that does not exist: job, run, workflow, ..."""
    key: str | None = None
    """Its id or name, as requested."""
    hint: str | None = None
    """How to fix it, where that is known."""
    field: str | None = None
    """The first field that is wrong."""
    errors: list[FieldProblem] | None = None
    """Every field that is wrong."""
