"""/runs: the list, of all workflows or of one. /runs/cancel and /runs/retry: the runs of a filter, in batches."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from windlass.core.definition.parser import MAX_LABELS
from windlass.core.runs.run import RunMove, RunState
from windlass.engine.database import PAGE_LIMIT, Database
from windlass.engine.runs import search
from windlass.engine.runs.search import BATCH_LIMIT, RunQuery
from windlass.engine.views import runs as views
from windlass.engine.workflows import control as workflows
from windlass.errors import Invalid
from windlass.schemas.runs import Batch, Run
from windlass.web.api import bodies
from windlass.web.api.dependencies import Open, Ref, as_id
from windlass.web.api.responses import Data, Listing, problems, text_or_none

router = APIRouter(tags=["runs"])

ALIASES: Mapping[str, RunState] = {
    **{state.value: state for state in RunState},
    "success": RunState.COMPLETED,
    "succeeded": RunState.COMPLETED,
    "canceled": RunState.CANCELLED,
    "timed_out": RunState.TIMEOUT,
}
Id = Annotated[UUID, Field(strict=False)]  # strings in a body
Moment = Annotated[AwareDatetime, Field(strict=False)]


class Filter(BaseModel):
    """Selects the runs that match all of this. Lists have it in the query, bulk requests in the body."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: list[str] = Field(default=[], max_length=50, description="May be repeated; `success` means completed.")
    inserted_after: Moment | None = Field(default=None, description="Not before this time.")
    inserted_before: Moment | None = Field(default=None, description="Before this time.")
    text: str | None = Field(
        default=None, max_length=255, description="An id, a workflow's name, or a label's key or value begins with it."
    )
    retrying: bool = Field(default=False, description="Only those with a task that waits for its next attempt.")
    before: Id | None = Field(default=None, description="Go on below this run.")


class ListFilter(Filter):
    label: list[str] = Field(default=[], max_length=MAX_LABELS, description="KEY=VALUE; may be repeated.")
    limit: int = Field(default=50, ge=1, le=PAGE_LIMIT, description="How many at most.")


class ListAllFilter(ListFilter):
    workflow: str | None = Field(default=None, description="The name of a workflow, or its id.")


class BatchFilter(Filter, bodies.RequestBody):
    """Selects the runs that match all of this. Without a filter, `all` must be true."""

    workflow: str | None = None
    labels: dict[str, str] = Field(default={}, max_length=MAX_LABELS)
    all: bool = False
    dry_run: bool = Field(default=False, description="Only count them.")
    limit: int = Field(default=100, ge=1, le=BATCH_LIMIT, description="How many at most in this batch.")


class CancelFilter(BatchFilter):
    reason: str | None = None


EXAMPLE = {"workflow": "order-processing", "labels": {"team": "shop"}, "dry_run": True}


@router.get("/runs", summary="List runs", responses=problems(404, 422))
async def list_(db: Open, filters: Annotated[ListAllFilter, Query()]) -> Listing[Run]:
    """Newest first. The id of a deleted workflow lists its runs, too."""
    return await _list(db, filters, filters.workflow)


@router.get("/workflows/{ref}/runs", summary="List the runs of a workflow", responses=problems(404, 422))
async def list_of_workflow(db: Open, ref: Ref, filters: Annotated[ListFilter, Query()]) -> Listing[Run]:
    """Newest first. The id of a deleted workflow lists its runs, too."""
    return await _list(db, filters, ref)


@router.post(
    "/runs/cancel",
    summary="Cancel many runs",
    openapi_extra=bodies.described(CancelFilter, EXAMPLE),
    responses=problems(404, 413, 422),
)
async def cancel_many(db: Open, request: Request) -> Data[Batch]:
    """A batch of the runs that the filter selects, newest first; `left` says how many more there are."""
    filters = await bodies.model(request, CancelFilter)
    wanted = await _batch_filter(db, filters)
    if filters.dry_run:
        return Data(views.counted(await search.matching(db, wanted, RunMove.CANCEL)))
    return Data(views.batch(await search.cancel(db, wanted, limit=filters.limit, reason=filters.reason)))


@router.post(
    "/runs/retry",
    summary="Retry many runs",
    openapi_extra=bodies.described(BatchFilter, EXAMPLE | {"status": ["failed"]}),
    responses=problems(404, 413, 422),
)
async def retry_many(db: Open, request: Request) -> Data[Batch]:
    """A batch of the failed and timed out runs that the filter selects, newest first. Child runs are left to their
    parents."""
    filters = await bodies.model(request, BatchFilter)
    wanted = await _batch_filter(db, filters)
    if filters.dry_run:
        return Data(views.counted(await search.matching(db, wanted, RunMove.RETRY)))
    return Data(views.batch(await search.retry(db, wanted, limit=filters.limit)))


async def named(db: Database, ref: str | None) -> str | None:
    """Return the name of a workflow, given its name or its id."""
    id_ = as_id(ref) if ref is not None else None
    return ref if id_ is None else await workflows.name_of(db, id_)


def run_states(words: Iterable[str]) -> list[str]:
    """Return the states that these words stand for."""
    states = [(word, ALIASES.get(word.lower())) for word in words]
    for word, state in states:
        if state is None:
            known = ", ".join(RunState)
            raise Invalid(f"status is {word[:100]!r}: one of {known} (or success, for completed)", field="status")
    return list(dict.fromkeys(state.value for _, state in states if state is not None))


async def _list(db: Database, filters: ListFilter, ref: str | None) -> Listing[Run]:
    id_ = as_id(ref) if ref is not None else None
    wanted = _wanted(filters, ref if id_ is None else None, _labels(filters.label))
    if id_ is not None:
        await workflows.check_id(db, id_)
        wanted = replace(wanted, workflow_id=id_)
    page = await search.find(db, wanted, limit=filters.limit)
    return Listing([views.line(row) for row in page.runs], text_or_none(page.next))


async def _batch_filter(db: Database, filters: BatchFilter) -> RunQuery:
    times = (filters.inserted_after, filters.inserted_before)
    is_narrow = any((filters.workflow, filters.status, filters.labels, *times, filters.text, filters.retrying))
    if not is_narrow and not filters.all:
        raise Invalid('say which runs, or {"all": true}', field="body")
    return _wanted(filters, await named(db, filters.workflow), filters.labels)


def _wanted(filters: Filter, workflow: str | None, labels: dict[str, str]) -> RunQuery:
    return RunQuery(
        workflow=workflow,
        states=run_states(filters.status) or None,
        labels=labels,
        before=filters.before,
        created_after=filters.inserted_after,
        created_before=filters.inserted_before,
        text=filters.text,
        retrying=filters.retrying,
    )


def _labels(pairs: list[str]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise Invalid(f"label is {pair[:100]!r}: it must be KEY=VALUE", field="label")
    return dict(pair.split("=", 1) for pair in pairs)
