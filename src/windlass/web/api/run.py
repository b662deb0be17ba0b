"""/runs/{run_id}: look at one run, and steer it."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import Field

from windlass.core.document import PAYLOAD_LIMIT
from windlass.engine import accounts, runs
from windlass.engine.runs import TrailPlace
from windlass.web.api import bodies
from windlass.web.api import schemas_runs as schemas
from windlass.web.api.given import Open, RunAttempt, RunId, naming_a_task
from windlass.web.api.outputs import plain
from windlass.web.api.paging import MAX_INT, Limit
from windlass.web.api.schemas import Data, Listing, told
from windlass.web.api.schemas_runs import Event, Explanation, Run, RunDetail

router = APIRouter(tags=["runs"])

Attempt = Annotated[int | None, Query(ge=1, le=MAX_INT, description="Only of this attempt.")]


class Cancellation(bodies.Asked):
    reason: str | None = None


class Rerun(bodies.Asked):
    """Do `from` again and everything after it; with another input for the run, if there is one."""

    from_: str = Field(alias="from")
    input: Any = None


@router.get("/{run_id}", summary="Get a run", responses=told(404))
async def get(unit: Open, run_id: RunId) -> Data[RunDetail]:
    """With what became of each task."""
    return Data[RunDetail](data=schemas.detail(await accounts.account(unit, run_id, answers=True)))


@router.get("/{run_id}/events", summary="List the events of a run", responses=told(404, 422))
async def events(
    unit: Open,
    run_id: RunId,
    attempt: RunAttempt = None,
    after: Annotated[str, Query(max_length=50, description="Go on after this: what `next` was.")] = "0.0",
    limit: Limit = 100,
) -> Listing[Event]:
    """The trail, oldest first: what the run and its tasks became, and why. Of a fanned-out task it has the start and
    the end; its instances have trails of their own."""
    place = TrailPlace.parse(after)
    found = await runs.events(unit, run_id, attempt=attempt, after=place, limit=limit)
    next_ = str(place.after([row for _, row in found])) if len(found) == limit else None
    return Listing[Event](data=[schemas.event(step, row) for step, row in found], next=next_)


@router.get("/{run_id}/explain", summary="Explain a run", responses=told(404))
async def explain(unit: Open, run_id: RunId) -> Data[Explanation]:
    """Why each task ran, waits, was skipped or failed, in sentences."""
    return Data[Explanation](data=schemas.explanation(*await accounts.explained(unit, run_id)))


@router.get("/{run_id}/output", summary="Get what a run gave", responses=told(404, 409))
async def output(unit: Open, run_id: RunId) -> Data[Any]:
    """The output of its last task, or of its last tasks by name; null for what gave nothing."""
    return Data[Any](data=plain(await runs.output(unit, run_id)))


@router.post(
    "/{run_id}/cancel",
    summary="Cancel a run",
    openapi_extra=bodies.described(Cancellation, {"reason": "wrong bucket"}),
    responses=told(404, 409, 413, 422),
)
async def cancel(unit: Open, run_id: RunId, request: Request) -> Data[Run]:
    """What waits ends at once; who works for it is asked to stop. 409 if it has ended."""
    asked = await bodies.model(request, Cancellation)
    await runs.cancel(unit, run_id, reason=asked.reason)
    return await _shown(unit, run_id)


@router.post("/{run_id}/retry", summary="Retry a run", responses=told(404, 409))
async def retry(unit: Open, run_id: RunId) -> Data[Run]:
    """Do again what failed and what hung on it; what succeeded is kept. 409 unless it failed or timed out."""
    await runs.retry(unit, run_id)
    return await _shown(unit, run_id)


@router.post(
    "/{run_id}/rerun",
    summary="Rerun a run from a task",
    openapi_extra=bodies.described(Rerun, {"from": "charge", "input": {"order_id": 124}}),
    responses=told(404, 409, 413, 422),
)
async def rerun(unit: Open, run_id: RunId, request: Request) -> Data[Run]:
    """Do a task and everything after it again, with another input if one is given. 409 unless the run has ended."""
    asked = await bodies.model(request, Rerun, limit=PAYLOAD_LIMIT + bodies.ROOM)
    given = "input" in asked.model_fields_set
    with naming_a_task(field="from"):
        await runs.rerun(unit, run_id, asked.from_, input_=asked.input, with_input=given)
    return await _shown(unit, run_id)


async def _shown(unit: Open, run_id: RunId) -> Data[Run]:
    return Data[Run](data=schemas.line(await runs.get(unit, run_id)))
