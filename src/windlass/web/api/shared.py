"""Parameters and response envelopes that the routes of /api/v1 share.

A list is `{"data": [...], "next": cursor}`. A client passes `next` as `before` to lists in descending order (newest
first), and as `after` to lists in ascending order; null means the end.
"""

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Generic, TypeVar, get_type_hints
from uuid import UUID

from fastapi import Depends, Path, Query, Request, params
from pydantic import AwareDatetime, Field

from windlass.app import Windlass
from windlass.core.orgs import Access, Scope, require
from windlass.engine import workflows
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs.outputs import TooMany
from windlass.errors import Conflict, Forbidden, Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT
from windlass.web.access import access_of, tenant

MAX_SHOWN = 100
MAX_INT = 2**31 - 1
MAX_BIGINT = 2**63 - 1
MEANINGS = {
    402: "The plan of the org does not allow this; `code` names the limit.",
    404: "The object does not exist.",
    409: "The state of the object does not allow this.",
    410: "Gone: it existed and has ended.",
    413: "The body is too large.",
    416: "`Range` begins after the end of the file.",
    422: "The request is invalid; `errors` names every field.",
}

Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="Maximum number of items.")]
Moment = Annotated[AwareDatetime, Field(strict=False)]  # a string, in bodies too


def app_of(request: Request) -> Windlass:
    app: Windlass = request.app.state.windlass
    return app


async def _app(request: Request) -> Windlass:
    return app_of(request)


App = Annotated[Windlass, Depends(_app)]


class Needs:
    """The requirements of a route on its caller. As a dependency it checks them; each route has exactly one."""

    def __init__(self, scope: Scope, *, operator: bool = False, labels: bool = False) -> None:
        self.scope = scope
        self.operator = operator  # whether the caller must be the operator of the installation
        self.labels = labels  # whether its use cases enforce the label that a key is restricted to

    async def __call__(self, request: Request) -> Any:
        self.check(access_of(request.scope))

    def check(self, access: Access) -> None:
        require(self.scope, access.scopes, access.actor)
        if access.label is not None and not self.labels:
            raise Forbidden(
                f"{access.actor} is restricted to the tenant {access.label}, but this request concerns the whole org: "
                "use a key of the org without a label"
            )
        if self.operator and not access.is_operator:
            raise Forbidden(f"only the operator of the installation may do this: {access.actor} acts for one org")


class Acts(Needs):
    """Requirements whose dependency also provides the caller's database."""

    async def __call__(self, request: Request) -> Tenant:
        return await _db(request)


Reading = Annotated[Tenant, Depends(Acts(Scope.READ))]
Starting = Annotated[Tenant, Depends(Acts(Scope.START))]
Operating = Annotated[Tenant, Depends(Acts(Scope.OPERATE))]
Deploying = Annotated[Tenant, Depends(Acts(Scope.DEPLOY))]
Administering = Annotated[Tenant, Depends(Acts(Scope.ADMIN))]
ReadingJobs = Annotated[Tenant, Depends(Acts(Scope.READ, labels=True))]
StartingJobs = Annotated[Tenant, Depends(Acts(Scope.START, labels=True))]
OperatingJobs = Annotated[Tenant, Depends(Acts(Scope.OPERATE, labels=True))]
Governing = Annotated[Tenant, Depends(Acts(Scope.ADMIN, operator=True))]  # for objects of the installation
Governed = Annotated[None, Depends(Needs(Scope.ADMIN, operator=True))]  # the same without a database


@functools.cache
def needs_of(endpoint: Callable[..., Any]) -> Needs:
    """Return the requirements of a route."""
    hints = get_type_hints(endpoint, include_extras=True).values()
    [needs] = [
        part.dependency
        for hint in hints
        for part in getattr(hint, "__metadata__", ())
        if isinstance(part, params.Depends) and isinstance(part.dependency, Needs)
    ]
    return needs


async def _db(request: Request) -> Tenant:
    """Return the database of the org for which the request acts. No other function of this API chooses the org.

    It checks the scope of the route, so that no dependency reads data for a caller who lacks it. Dependencies call it
    instead of depending on it: each dependency costs FastAPI about 15 µs.
    """
    access = access_of(request.scope)
    needs_of(request.scope["endpoint"]).check(access)
    return await tenant(request, access)


Ref = Annotated[str, Path(description="The name of a workflow, or its id.", examples=["order-processing"])]
RunText = Annotated[
    str,
    Path(
        alias="run_id",
        description="The id of a run, or of a workflow of the Open Job Spec.",
        examples=["01890a5d-ac96-774b-bcce-b302099a8057"],
    ),
]


async def workflow_name(db: Tenant, ref: str) -> str:
    """Return the name of a workflow given by name or id; a name never has the form of an id."""
    id_ = as_id(ref)
    return ref if id_ is None else await workflows.name_of(db, id_)


async def _name(request: Request, ref: Ref) -> str:
    return await workflow_name(await _db(request), ref)


Name = Annotated[str, Depends(_name)]


async def _run_id(request: Request, run_id: RunText) -> UUID:
    """Return the id of a run, given by this id or by the one that an Open Job Spec client chose."""
    db, id_ = await _db(request), as_id(run_id)
    try:
        return await compositions.run_of(db, run_id) if id_ is None else id_
    except NotFound:
        raise NotFound("run", ascii(run_id[:MAX_SHOWN])) from None


RunId = Annotated[UUID, Depends(_run_id)]
Attempt = Annotated[int | None, Query(ge=1, le=MAX_INT, description="Only of this attempt.")]
RunAttempt = Annotated[
    int | None, Query(ge=1, le=MAX_INT, description="Of a run that was retried or rerun: only this attempt of it.")
]


async def belongs(request: Request, ref: Ref, run_id: RunId) -> None:
    """Raise `NotFound` if a run does not belong to a workflow.

    A name means the workflow that has it now or, if there is none, the deleted workflow of the run. An id may be that
    of a deleted workflow.
    """
    db = await _db(request)
    row = await runs.get(db, run_id)
    if row.workflow_id != (as_id(ref) or await workflows.id_of(db, ref) or (ref == row.workflow and row.workflow_id)):
        raise NotFound("run", run_id, hint=f"workflow {ref[:MAX_SHOWN]!a} has no run with this id")


@contextlib.contextmanager
def task_named(task: str, *, field: str | None = None) -> Iterator[None]:
    """Turn the engine's error for an unknown task into `NotFound`, or into an `Invalid` for `field` if it is given."""
    try:
        yield
    except Invalid as error:
        if error.field != "step":
            raise
        if field is None:
            raise NotFound("task", ascii(task[:MAX_SHOWN]), hint=str(error)) from None
        raise Invalid(str(error), field=field) from None


def states_named(words: Sequence[str], states: Mapping[str, StrEnum], hint: str) -> list[str]:
    """Return the states with these names, without duplicates. The keys of `states` are their names and aliases."""
    for word in words:
        if word.lower() not in states:
            known = ", ".join(dict.fromkeys(states.values()))
            raise Invalid(f"status is {word[:MAX_SHOWN]!r}: one of {known} ({hint})", field="status")
    return list(dict.fromkeys(states[word.lower()].value for word in words))


def as_id(text: str) -> UUID | None:
    """Return the UUID of a string of the form 8-4-4-4-12; None for any other string."""
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


# Responses

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Data(Generic[T]):
    data: T


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A page of a list. Pass `next` as `before` or `after`, whichever the list has; null means the end."""

    data: list[T]
    next: str | None = None


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the responses with these statuses for the OpenAPI document; `web.openapi` adds their schema."""
    return {status: {"description": MEANINGS[status]} for status in statuses}


def cursor(value: object) -> str | None:
    """Return the `next` of a list as a string."""
    return None if value is None else str(value)


def plain(value: Any) -> Any:
    """Return an output as plain JSON values; raise `Conflict` if a list in it is too long to be returned."""
    return json.loads(json.dumps(value, default=_refuse))


def _refuse(value: object) -> Any:
    if isinstance(value, TooMany):
        raise Conflict(value.text)
    raise TypeError(f"{type(value).__name__} is not JSON")
