"""/schedules: what runs by the clock, when it comes next, and switches for it."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from windlass.engine import runs, timetable, triggers
from windlass.engine.starts import MAX_BATCH
from windlass.engine.unit import Unit
from windlass.errors import Invalid
from windlass.web.api import bodies, schemas_runs
from windlass.web.api import schemas_schedules as schemas
from windlass.web.api.given import Name, Open
from windlass.web.api.paging import PAGE_LIMIT, Limit
from windlass.web.api.runs import Moment
from windlass.web.api.schemas import Data, Listing, told
from windlass.web.api.schemas_runs import Started
from windlass.web.api.schemas_schedules import Backfill, Schedule, ScheduleDetail

router = APIRouter(prefix="/schedules", tags=["schedules"])

FIELDS = {"start": "from", "end": "to"}  # the engine's words for what stands in the body


class Pause(bodies.Asked):
    reason: str | None = None


class Range(bodies.Asked):
    """Past ticks, from `from` on and before `to` (now, if it is left out)."""

    from_: Moment = Field(alias="from")
    to: Moment | None = None
    limit: int = Field(default=1000, ge=1, le=MAX_BATCH, description="So many ticks at most.")
    dry_run: bool = Field(default=False, description="Only count them.")


@router.get("", summary="List schedules", responses=told(422))
async def list_(
    unit: Open,
    after: Annotated[str, Query(max_length=400, description="Go on after this place.")] = "",
    limit: Limit = 50,
) -> Listing[Schedule]:
    """Those of workflows by name, then those that plain SQL made and that enqueue jobs."""
    page = await timetable.list_(unit, after=after, limit=limit)
    return Listing[Schedule](data=[schemas.line(row) for row in page.schedules], next=page.next)


@router.get("/{ref}", summary="Get the schedule of a workflow", responses=told(404, 422))
async def get(
    unit: Open,
    name: Name,
    next_: Annotated[
        int, Query(alias="next", ge=0, le=PAGE_LIMIT, description="How many of the next ticks to tell.")
    ] = 5,
) -> Data[ScheduleDetail]:
    """With its next ticks."""
    row = await triggers.get(unit, name)
    ticks = await triggers.preview(unit, name, count=next_) if next_ else []
    return Data[ScheduleDetail](data=schemas.detail(row, ticks))


@router.post(
    "/{ref}/pause",
    summary="Pause a schedule",
    openapi_extra=bodies.described(Pause, {"reason": "stock-taking"}),
    responses=told(404, 413, 422),
)
async def pause(unit: Open, name: Name, request: Request) -> Data[Schedule]:
    """No tick starts a run until it is resumed; runs under way go on."""
    await triggers.pause(unit, name, reason=(await bodies.model(request, Pause)).reason)
    return await _shown(unit, name)


@router.post("/{ref}/resume", summary="Resume a schedule", responses=told(404))
async def resume(unit: Open, name: Name) -> Data[Schedule]:
    """Go on with the next tick; those of the pause are not made up for."""
    await triggers.resume(unit, name)
    return await _shown(unit, name)


@router.post("/{ref}/run", summary="Run a schedule now", status_code=201, responses=told(404, 409, 422))
async def run(unit: Open, name: Name) -> Data[Started]:
    """Start a run with the schedule's input, whatever else is under way; its ticks stay as they are."""
    id_ = await triggers.run_now(unit, name)
    return Data[Started](data=schemas_runs.started(await runs.get(unit, id_)))


@router.post(
    "/{ref}/backfill",
    summary="Start the runs of past ticks",
    openapi_extra=bodies.described(Range, {"from": "2026-02-01T00:00:00Z", "to": "2026-02-22T00:00:00Z"}),
    responses=told(404, 409, 413, 422),
)
async def backfill(unit: Open, name: Name, request: Request) -> Data[Backfill]:
    """Safe to repeat: a tick that has its run is left alone."""
    asked = await bodies.model(request, Range)
    act = triggers.unfilled if asked.dry_run else triggers.backfill
    try:
        done = await act(unit, name, asked.from_, asked.to, limit=asked.limit)
    except Invalid as error:
        raise Invalid(str(error), field=FIELDS.get(error.field or "", error.field)) from None
    return Data[Backfill](data=schemas.backfill(done))


async def _shown(unit: Unit, name: str) -> Data[Schedule]:
    return Data[Schedule](data=schemas.line(await triggers.get(unit, name)))
