"""/runs/{run_id}: one run, its events, graph and timeline, and the actions on it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.engine.runs.control import TrailPlace
from windlass.engine.views import runs as views
from windlass.engine.views.workflows import graph as graph_of
from windlass.schemas.runs import Explanation, Run, RunDetail, RunEvent
from windlass.schemas.tasks import Span
from windlass.schemas.workflows import Graph
from windlass.web.api import bodies
from windlass.web.api.dependencies import MAX_INT, Limit, Open, RunAttempt, RunId, task_named
from windlass.web.api.responses import Data, Listing, problems
from windlass.web.api.tasks import plain

router = APIRouter(tags=["runs"])

Attempt = Annotated[int | None, Query(ge=1, le=MAX_INT, description="Only of this attempt.")]


class Cancellation(bodies.RequestBody):
    reason: str | None = None


class Rerun(bodies.RequestBody):
    """Do `from` again and everything after it; with another input for the run, if there is one."""

    from_: str = Field(alias="from")
    input: Any = None


@router.get("/{run_id}", summary="Get a run", responses=problems(404))
async def get(db: Open, run_id: RunId) -> Data[RunDetail]:
    """With what became of each task."""
    return Data(views.detail(await inspect.account(db, run_id, answers=True)))


@router.get("/{run_id}/events", summary="List the events of a run", responses=problems(404, 422))
async def events(
    db: Open,
    run_id: RunId,
    attempt: RunAttempt = None,
    after: Annotated[str, Query(max_length=50, description="Go on after this: what `next` was.")] = "0.0",
    limit: Limit = 100,
) -> Listing[RunEvent]:
    """The trail, oldest first: what the run and its tasks became, and why. Of a fanned-out task it has the start and
    the end; its instances have trails of their own."""
    place = TrailPlace.parse(after)
    found = await runs.events(db, run_id, attempt=attempt, after=place, limit=limit)
    next_ = str(place.after([row for _, row in found])) if len(found) == limit else None
    return Listing([views.event(step, row) for step, row in found], next_)


@router.get("/{run_id}/explain", summary="Explain a run", responses=problems(404))
async def explain(db: Open, run_id: RunId) -> Data[Explanation]:
    """Why each task ran, waits, was skipped or failed, in sentences."""
    return Data(views.explanation(*await inspect.explained(db, run_id)))


@router.get("/{run_id}/output", summary="Get what a run gave", responses=problems(404, 409))
async def output(db: Open, run_id: RunId) -> Data[Any]:
    """The output of its last task, or of its last tasks by name; null for what gave nothing."""
    return Data(plain(await runs.output(db, run_id)))


@router.get("/{run_id}/graph", summary="Get the graph of a run", responses=problems(404))
async def graph(db: Open, run_id: RunId) -> Data[Graph]:
    """Tasks and edges of the version that it runs, whether or not the workflow has changed since."""
    return Data(graph_of(await runs.definition(db, run_id)))


@router.get("/{run_id}/timeline", summary="Get the timeline of a run", responses=problems(404, 422))
async def timeline(db: Open, run_id: RunId, attempt: RunAttempt = None) -> Listing[Span]:
    """In the order of the definition: queued, running, backoff, sleeping, waiting; a fanned-out task as one span."""
    account, spans = await inspect.run_timeline(db, run_id, attempt=attempt)
    return Listing([views.span(account, row) for row in spans])


@router.post(
    "/{run_id}/cancel",
    summary="Cancel a run",
    openapi_extra=bodies.described(Cancellation, {"reason": "wrong bucket"}),
    responses=problems(404, 409, 413, 422),
)
async def cancel(db: Open, run_id: RunId, request: Request) -> Data[Run]:
    """What waits ends at once; who works for it is asked to stop. 409 if it has ended."""
    asked = await bodies.model(request, Cancellation)
    await runs.cancel(db, run_id, reason=asked.reason)
    return await _shown(db, run_id)


@router.post("/{run_id}/retry", summary="Retry a run", responses=problems(404, 409))
async def retry(db: Open, run_id: RunId) -> Data[Run]:
    """Do again what failed and what hung on it; what succeeded is kept. 409 unless it failed or timed out."""
    await runs.retry(db, run_id)
    return await _shown(db, run_id)


@router.post(
    "/{run_id}/rerun",
    summary="Rerun a run from a task",
    openapi_extra=bodies.described(Rerun, {"from": "charge", "input": {"order_id": 124}}),
    responses=problems(404, 409, 413, 422),
)
async def rerun(db: Open, run_id: RunId, request: Request) -> Data[Run]:
    """Do a task and everything after it again, with another input if one is given. 409 unless the run has ended."""
    asked = await bodies.model(request, Rerun, limit=PAYLOAD_LIMIT + bodies.ROOM)
    given = "input" in asked.model_fields_set
    with task_named(asked.from_, field="from"):
        await runs.rerun(db, run_id, asked.from_, input_=asked.input, with_input=given)
    return await _shown(db, run_id)


async def _shown(db: Open, run_id: RunId) -> Data[Run]:
    return Data(views.line(await runs.get(db, run_id)))
