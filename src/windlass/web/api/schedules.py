"""/schedules: list schedules, pause and resume them, run them now, and backfill past times."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.views import workflows as views
from windlass.engine.views.runs import started
from windlass.errors import Invalid
from windlass.schemas.common import CREATE_LIMIT, PAGE_LIMIT
from windlass.schemas.runs import NewRun
from windlass.schemas.schedules import Backfill, Schedule, ScheduleDetail
from windlass.web.api import bodies
from windlass.web.api.shared import Data, Limit, Listing, Moment, Name, Operating, Reading, Starting, problems

router = APIRouter(prefix="/schedules", tags=["schedules"])

FIELDS = {"start": "from", "end": "to"}  # name in the engine -> field of the body


class Pause(bodies.RequestBody):
    reason: str | None = None


class Range(bodies.RequestBody):
    """The past ticks from `from` on and before `to`, which defaults to now."""

    from_: Moment = Field(alias="from")
    to: Moment | None = None
    limit: int = Field(default=1000, ge=1, le=CREATE_LIMIT, description="The largest number of ticks.")
    dry_run: bool = Field(default=False, description="Only count them.")


@router.get("", summary="List schedules", responses=problems(422))
async def list_(
    db: Reading,
    after: Annotated[str, Query(max_length=400, description="Continue after this place.")] = "",
    limit: Limit = 50,
) -> Listing[Schedule]:
    """Return schedules: those of workflows, sorted by name, then those that plain SQL created to enqueue jobs, sorted
    by type."""
    page = await sql_schedules.list_all(db, after=after, limit=limit)
    return Listing([views.schedule(row) for row in page.schedules], page.next)


@router.get("/{ref}", summary="Get the schedule of a workflow", responses=problems(404, 422))
async def get(
    db: Reading,
    name: Name,
    next_: Annotated[
        int, Query(alias="next", ge=0, le=PAGE_LIMIT, description="How many of the next ticks to return.")
    ] = 5,
) -> Data[ScheduleDetail]:
    """Return the schedule of a workflow with its next ticks, even if it is paused."""
    row = await workflow_schedules.get(db, name)
    ticks = await workflow_schedules.preview(db, name, count=next_) if next_ else []
    return Data(views.schedule_detail(row, ticks))


@router.post(
    "/{ref}/pause",
    summary="Pause a schedule",
    openapi_extra=bodies.described(Pause, {"reason": "stock-taking"}),
    responses=problems(404, 413, 422),
)
async def pause(db: Operating, name: Name, request: Request) -> Data[Schedule]:
    """Pause a schedule: no tick starts a run until it is resumed. Live runs continue."""
    await workflow_schedules.pause(db, name, reason=(await bodies.model(request, Pause)).reason)
    return await _shown(db, name)


@router.post("/{ref}/resume", summary="Resume a schedule", responses=problems(404))
async def resume(db: Operating, name: Name) -> Data[Schedule]:
    """Resume a schedule with its next tick; ticks missed during the pause are not caught up."""
    await workflow_schedules.resume(db, name)
    return await _shown(db, name)


@router.post("/{ref}/run", summary="Run a schedule now", status_code=201, responses=problems(404, 409, 422))
async def run(db: Starting, name: Name) -> Data[NewRun]:
    """Start a run with the schedule's input, even if other runs are live; the ticks do not change."""
    id_ = await workflow_schedules.run_now(db, name)
    return Data(started(await runs.get(db, id_)))


@router.post(
    "/{ref}/backfill",
    summary="Start the runs of past ticks",
    openapi_extra=bodies.described(Range, {"from": "2026-02-01T00:00:00Z", "to": "2026-02-22T00:00:00Z"}),
    responses=problems(404, 409, 413, 422),
)
async def backfill(db: Starting, name: Name, request: Request) -> Data[Backfill]:
    """Start a run for each past tick in the range. Safe to repeat: ticks that have a run are skipped."""
    body = await bodies.model(request, Range)
    act = workflow_schedules.unfilled if body.dry_run else workflow_schedules.backfill
    try:
        done = await act(db, name, body.from_, body.to, limit=body.limit)
    except Invalid as error:
        raise Invalid(str(error), field=FIELDS.get(error.field or "", error.field)) from None
    return Data(views.backfill(done))


async def _shown(db: Tenant, name: str) -> Data[Schedule]:
    return Data(views.schedule(await workflow_schedules.get(db, name)))
