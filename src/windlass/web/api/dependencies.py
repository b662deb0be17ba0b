"""Parameters that handlers share: the app, the open database, what paths name, and the pages of lists.

A list is `{"data": [...], "next": cursor}`. `next` goes into the list's own parameter: `before` where the newest come
first, `after` where the order goes up; null means the end.
"""

import base64
import binascii
import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Request

from windlass.app import Windlass
from windlass.engine.compositions import control as compositions
from windlass.engine.database import PAGE_LIMIT, Database
from windlass.engine.runs import control as runs
from windlass.engine.runs.inspect import BEGINNING, Place
from windlass.engine.workflows import control as workflows
from windlass.errors import Invalid, NotFound

MAX_SHOWN = 100
MAX_INT = 2**31 - 1
MAX_BIGINT = 2**63 - 1

Limit = Annotated[int, Query(ge=1, le=PAGE_LIMIT, description="How many at most.")]


async def _app(request: Request) -> Windlass:
    app: Windlass = request.app.state.windlass
    return app


App = Annotated[Windlass, Depends(_app)]


async def _db(app: App) -> Database:
    return await app.open()


Open = Annotated[Database, Depends(_db)]
Ref = Annotated[str, Path(description="The name of a workflow, or its id.", examples=["order-processing"])]
RunText = Annotated[
    str,
    Path(
        alias="run_id",
        description="The id of a run, or of a workflow of the Open Job Spec.",
        examples=["01890a5d-ac96-774b-bcce-b302099a8057"],
    ),
]


async def _name(db: Open, ref: Ref) -> str:
    """Names never look like ids, so there is no doubt which one was meant."""
    id_ = as_id(ref)
    return ref if id_ is None else await workflows.name_of(db, id_)


Name = Annotated[str, Depends(_name)]


async def _run_id(db: Open, run_id: RunText) -> UUID:
    """An id of ours, or what a client of the Open Job Spec calls its workflow."""
    id_ = as_id(run_id)
    try:
        return await compositions.run_of(db, run_id) if id_ is None else id_
    except NotFound:
        raise NotFound("run", ascii(run_id[:MAX_SHOWN])) from None


RunId = Annotated[UUID, Depends(_run_id)]
RunAttempt = Annotated[
    int | None, Query(ge=1, le=MAX_INT, description="Of a run that was retried or rerun: only this attempt of it.")
]


async def belongs(db: Open, ref: Ref, run_id: RunId) -> None:
    """The run is one of this workflow, which may be deleted by now. A name means the workflow that has it now."""
    row = await runs.get(db, run_id)
    if row.workflow_id != (as_id(ref) or await workflows.id_of(db, ref) or (ref == row.workflow and row.workflow_id)):
        raise NotFound("run", run_id, hint=f"workflow {ref[:MAX_SHOWN]!a} has none of this id")


@contextlib.contextmanager
def task_named(task: str, *, field: str | None = None) -> Iterator[None]:
    """Report a task that the workflow does not have as a wrong address, or as a wrong value of the `field`."""
    try:
        yield
    except Invalid as error:
        if error.field != "step":
            raise
        if field is None:
            raise NotFound("task", ascii(task[:MAX_SHOWN]), hint=str(error)) from None
        raise Invalid(str(error), field=field) from None


def as_id(text: str) -> UUID | None:
    """Only the usual spelling: 8-4-4-4-12."""
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None


# Positions in log lines


def place_text(place: Place) -> str:
    """Where a reader of log lines has got to, in a word that means nothing to others."""
    text = json.dumps([place.at.isoformat(), str(place.job_id), place.attempt, place.line], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(text: str | None) -> Place:
    if text is None:
        return BEGINNING
    try:
        at, job, attempt, line = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        found = Place(datetime.fromisoformat(at), UUID(job), int(attempt), int(line))
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise _strange() from None
    if found.at.utcoffset() is None or not (0 <= found.attempt <= MAX_INT and 0 <= found.line <= MAX_INT):
        raise _strange()
    return found


def _strange() -> Invalid:
    return Invalid("after is no place in these lines: give what `next` said", field="after")
