"""/dead-letters: list dead letters by error, and retry or drop many at once.

Single dead letters are handled like other jobs: /jobs/{id}, /jobs/{id}/retry, DELETE /jobs/{id}.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from windlass.engine.database import Tenant
from windlass.engine.jobs import dead_letters
from windlass.engine.jobs.dead_letters import BatchResult, DeadLetterFilter
from windlass.engine.views import jobs as views
from windlass.errors import Invalid
from windlass.schemas.common import BATCH_LIMIT, PAGE_LIMIT
from windlass.schemas.jobs import DeadLetterBatch, DeadLetterGroup, Job
from windlass.web.api import bodies
from windlass.web.api.jobs import listing
from windlass.web.api.shared import Data, Listing, Operating, Reading, cursor, problems

router = APIRouter(prefix="/dead-letters", tags=["dead letters"])

LAST_PLACE = 2**62


class Filters(BaseModel):
    """Selects the dead letters that match all conditions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str | None = Field(default=None, description="A LIKE pattern: `billing.%`.")
    queue: str | None = Field(default=None, description="Of this queue.")
    error: str | None = Field(default=None, description="The error of a group.")
    of_runs: bool | None = Field(default=None, description="Only tasks of runs, or only jobs of their own.")
    before: int | None = Field(default=None, ge=0, le=LAST_PLACE, description="Continue below this place.")
    limit: int = Field(default=50, ge=1, le=PAGE_LIMIT, description="Maximum number of items.")


class Which(bodies.RequestBody):
    """Selects the dead letters that match all conditions. Without a condition, `all` must be true."""

    type: str | None = None
    queue: str | None = None
    error: str | None = None
    of_runs: bool | None = None
    before: Annotated[int, Field(strict=False, ge=0, le=LAST_PLACE)] | None = None
    all: bool = False
    dry_run: bool = Field(default=False, description="Only count them.")
    limit: int = Field(default=100, ge=1, le=BATCH_LIMIT, description="Maximum number of items in this batch.")


EXAMPLE = {"type": "content.thumbnail.v1", "error": "LookupError: no such object: <id>", "dry_run": True}


@router.get("", summary="List dead letters in groups", responses=problems(422))
async def list_groups(db: Reading, filters: Annotated[Filters, Query()]) -> Listing[DeadLetterGroup]:
    """Return dead letters grouped by type, queue and error, latest failure first."""
    page = await dead_letters.groups(db, _wanted(filters), limit=filters.limit)
    return Listing([views.dead_letter_group(row) for row in page.groups], cursor(page.next))


@router.get("/jobs", summary="List dead letters", responses=problems(422))
async def list_(db: Reading, filters: Annotated[Filters, Query()]) -> Listing[Job]:
    """Return dead letters, newest first. `type`, `queue` and `error` together select those of a group."""
    page = await dead_letters.list_(db, _wanted(filters), limit=filters.limit)
    return await listing(db, page.jobs, page.next)


@router.post(
    "/retry",
    summary="Retry many dead letters",
    openapi_extra=bodies.described(Which, EXAMPLE),
    responses=problems(413, 422),
)
async def retry(db: Operating, request: Request) -> Data[DeadLetterBatch]:
    """Retry a batch of the matching dead letters, newest first: jobs return to their queues with their attempts reset,
    and the runs of tasks are retried. Runs that cannot be retried, because they are live or completed in spite of the
    failure, are left unchanged."""
    body = await bodies.model(request, Which)
    return await _batch(db, body, _narrowed(body), dead_letters.retry)


@router.post(
    "/drop",
    summary="Drop many dead letters",
    openapi_extra=bodies.described(Which, EXAMPLE),
    responses=problems(413, 422),
)
async def drop(db: Operating, request: Request) -> Data[DeadLetterBatch]:
    """Hide a batch of the matching dead letters, newest first, as DELETE does. Tasks of runs are not dropped: they are
    removed with their runs."""
    body = await bodies.model(request, Which)
    return await _batch(db, body, dead_letters.droppable(_narrowed(body)), dead_letters.drop)


def _narrowed(body: Which) -> DeadLetterFilter:
    filters = (body.type, body.queue, body.error, body.of_runs)
    if all(value is None for value in filters) and not body.all:
        raise Invalid('no filter is set: select dead letters, or send {"all": true}', field="body")
    return _wanted(body)


def _wanted(filters: Filters | Which) -> DeadLetterFilter:
    return DeadLetterFilter(filters.type, filters.queue, filters.error, filters.of_runs, filters.before)


async def _batch(
    db: Tenant, body: Which, wanted: DeadLetterFilter, act: Callable[..., Awaitable[BatchResult]]
) -> Data[DeadLetterBatch]:
    if body.dry_run:
        return Data(views.counted_dead_letters(await dead_letters.matching(db, wanted)))
    return Data(views.dead_letter_batch(await act(db, wanted, limit=body.limit)))
