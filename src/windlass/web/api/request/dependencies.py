"""What handlers are given: the app, the open database, and what their paths name."""

import contextlib
from collections.abc import Iterator
from typing import Annotated
from uuid import UUID

from fastapi import Depends, Path, Query, Request

from windlass.app import Windlass
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Database
from windlass.engine.runs import control as runs
from windlass.engine.workflows import control as workflows
from windlass.errors import Invalid, NotFound
from windlass.web.api.request.paging import MAX_INT

MAX_SHOWN = 100


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
def naming_a_task(*, field: str | None = None) -> Iterator[None]:
    """A task that the workflow has not: a wrong address, or, if a `field` named it, a wrong word."""
    try:
        yield
    except Invalid as error:
        if error.field != "step":
            raise
        if field is None:
            raise NotFound("such task", "in this run", hint=str(error)) from None
        raise Invalid(str(error), field=field) from None


def as_id(text: str) -> UUID | None:
    """Only the usual spelling: 8-4-4-4-12."""
    try:
        return UUID(text) if len(text) == 36 else None
    except ValueError:
        return None
