"""/runs/cancel and /runs/retry: many runs at once, those that a filter names, a bounded batch at a time."""

from fastapi import APIRouter, Request
from pydantic import Field

from windlass.core.runs.run import RunMove
from windlass.engine.database import Database
from windlass.engine.runs import bulk
from windlass.engine.runs.bulk import BATCH_LIMIT
from windlass.engine.runs.control import Wanted
from windlass.errors import Invalid
from windlass.web.api import runs
from windlass.web.api.request import bodies
from windlass.web.api.request.dependencies import Open
from windlass.web.api.schemas import runs as schemas
from windlass.web.api.schemas.common import Data, told
from windlass.web.api.schemas.runs import Batch

router = APIRouter(prefix="/runs", tags=["runs"])


class Which(runs.Which, bodies.Asked):
    """Which runs: those that are all of this. Without a filter `all` must say that all are meant."""

    workflow: str | None = None
    labels: dict[str, str] = Field(default={}, max_length=runs.MAX_LABELS)
    all: bool = False
    dry_run: bool = Field(default=False, description="Only count them.")
    limit: int = Field(default=100, ge=1, le=BATCH_LIMIT, description="How many at most in this batch.")


class WhichToCancel(Which):
    reason: str | None = None


EXAMPLE = {"workflow": "order-processing", "labels": {"team": "shop"}, "dry_run": True}


@router.post(
    "/cancel",
    summary="Cancel many runs",
    openapi_extra=bodies.described(WhichToCancel, EXAMPLE),
    responses=told(404, 413, 422),
)
async def cancel(db: Open, request: Request) -> Data[Batch]:
    """A batch of the runs that the filter names, newest first; `left` says how many more there are."""
    asked = await bodies.model(request, WhichToCancel)
    wanted = await _wanted(db, asked)
    if asked.dry_run:
        return await _count(db, wanted, RunMove.CANCEL)
    done = await bulk.cancel(db, wanted, limit=asked.limit, reason=asked.reason)
    return Data[Batch](data=schemas.batch(done))


@router.post(
    "/retry",
    summary="Retry many runs",
    openapi_extra=bodies.described(Which, EXAMPLE | {"status": ["failed"]}),
    responses=told(404, 413, 422),
)
async def retry(db: Open, request: Request) -> Data[Batch]:
    """A batch of the failed and timed out runs that the filter names, newest first. Runs that other runs started are
    left to those."""
    asked = await bodies.model(request, Which)
    wanted = await _wanted(db, asked)
    if asked.dry_run:
        return await _count(db, wanted, RunMove.RETRY)
    return Data[Batch](data=schemas.batch(await bulk.retry(db, wanted, limit=asked.limit)))


async def _wanted(db: Database, asked: Which) -> Wanted:
    named_by = (asked.workflow, asked.status, asked.labels, asked.inserted_after, asked.inserted_before, asked.text)
    if not any(named_by) and not asked.retrying and not asked.all:
        raise Invalid('say which runs, or {"all": true}', field="body")
    return runs.wanted(asked, await runs.named(db, asked.workflow), asked.labels)


async def _count(db: Database, wanted: Wanted, move: RunMove) -> Data[Batch]:
    left = await bulk.matching(db, wanted, move)
    return Data[Batch](data=Batch(dry_run=True, done=0, left=left, runs=[], next=None))
