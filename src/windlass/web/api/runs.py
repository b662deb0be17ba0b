"""/runs: list the runs of all workflows or of one, and cancel or retry many. /runs/{run_id}: read one run, its events,
graph and timeline, and control it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from windlass.core.definition.parser import MAX_LABELS
from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.core.runs.run import RunMove, RunState
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect, search
from windlass.engine.runs.control import TrailPlace
from windlass.engine.runs.search import RunQuery
from windlass.engine.views import runs as views
from windlass.engine.views.workflows import graph as graph_of
from windlass.errors import Invalid
from windlass.schemas.common import BATCH_LIMIT, PAGE_LIMIT
from windlass.schemas.runs import Batch, Explanation, RestartPreview, Run, RunDetail, RunEvent
from windlass.schemas.tasks import Span
from windlass.schemas.workflows import Graph
from windlass.web.api import bodies
from windlass.web.api.shared import (
    Data,
    Limit,
    Listing,
    Moment,
    Operating,
    Reading,
    Ref,
    RunAttempt,
    RunId,
    as_id,
    cursor,
    plain,
    problems,
    states_named,
    task_named,
    workflow_name,
)

router = APIRouter(tags=["runs"])
run_router = APIRouter(tags=["runs"])  # /{run_id}, mounted at both paths of runs

ALIASES: Mapping[str, RunState] = {
    **{state.value: state for state in RunState},
    "success": RunState.COMPLETED,
    "succeeded": RunState.COMPLETED,
    "canceled": RunState.CANCELLED,
    "timed_out": RunState.TIMEOUT,
}
Id = Annotated[UUID, Field(strict=False)]  # strings in a body


class Filter(BaseModel):
    """Selects the runs that match all conditions. Lists take them from the query, bulk requests from the body."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: list[str] = Field(default=[], max_length=50, description="May be repeated; `success` means completed.")
    inserted_after: Moment | None = Field(default=None, description="Not before this time.")
    inserted_before: Moment | None = Field(default=None, description="Before this time.")
    text: str | None = Field(
        default=None, max_length=255, description="A prefix of an id, a workflow's name, or a label's key or value."
    )
    retrying: bool = Field(default=False, description="Only those with a task that waits for its next attempt.")
    before: Id | None = Field(default=None, description="Continue below this run.")


class ListFilter(Filter):
    label: list[str] = Field(default=[], max_length=MAX_LABELS, description="KEY=VALUE; may be repeated.")
    limit: int = Field(default=50, ge=1, le=PAGE_LIMIT, description="Maximum number of items.")


class ListAllFilter(ListFilter):
    workflow: str | None = Field(default=None, description="The name of a workflow, or its id.")


class BatchFilter(Filter, bodies.RequestBody):
    """Selects the runs that match all conditions. Without a condition, `all` must be true."""

    workflow: str | None = None
    labels: dict[str, str] = Field(default={}, max_length=MAX_LABELS)
    all: bool = False
    dry_run: bool = Field(default=False, description="Only count them.")
    limit: int = Field(default=100, ge=1, le=BATCH_LIMIT, description="Maximum number of items in this batch.")


class CancelFilter(BatchFilter):
    reason: str | None = None
    compensate: bool = Field(default=False, description="Undo the tasks that succeeded.")


EXAMPLE = {"workflow": "order-processing", "labels": {"team": "shop"}, "dry_run": True}


@router.get("/runs", summary="List runs", responses=problems(404, 422))
async def list_(db: Reading, filters: Annotated[ListAllFilter, Query()]) -> Listing[Run]:
    """Return runs, newest first. `workflow` may be the id of a deleted workflow."""
    return await _list(db, filters, filters.workflow)


@router.get("/workflows/{ref}/runs", summary="List the runs of a workflow", responses=problems(404, 422))
async def list_of_workflow(db: Reading, ref: Ref, filters: Annotated[ListFilter, Query()]) -> Listing[Run]:
    """Return the runs of a workflow, newest first. The id may be that of a deleted workflow."""
    return await _list(db, filters, ref)


@router.post(
    "/runs/cancel",
    summary="Cancel many runs",
    openapi_extra=bodies.described(CancelFilter, EXAMPLE),
    responses=problems(404, 413, 422),
)
async def cancel_many(db: Operating, request: Request) -> Data[Batch]:
    """Cancel a batch of the selected runs, newest first; `left` is the number of those that remain."""
    filters = await bodies.model(request, CancelFilter)
    query = await _batch_filter(db, filters)
    if filters.dry_run:
        return Data(views.counted(await search.matching(db, query, RunMove.CANCEL)))
    stop = partial(search.cancel, reason=filters.reason, compensate=filters.compensate)
    return Data(views.batch(await stop(db, query, limit=filters.limit)))


@router.post(
    "/runs/retry",
    summary="Retry many runs",
    openapi_extra=bodies.described(BatchFilter, EXAMPLE | {"status": ["failed"]}),
    responses=problems(404, 413, 422),
)
async def retry_many(db: Operating, request: Request) -> Data[Batch]:
    """Retry a batch of the selected runs that failed or timed out, newest first. Child runs are not retried: their
    parents start them again."""
    filters = await bodies.model(request, BatchFilter)
    query = await _batch_filter(db, filters)
    if filters.dry_run:
        return Data(views.counted(await search.matching(db, query, RunMove.RETRY)))
    return Data(views.batch(await search.retry(db, query, limit=filters.limit)))


# One run


class Cancellation(bodies.RequestBody):
    reason: str | None = None
    compensate: bool = Field(default=False, description="Undo the tasks that succeeded.")


class Retry(bodies.RequestBody):
    version: Literal["live"] | None = Field(default=None, description="Continue with the live version.")


class Rerun(Retry):
    """Repeats `from` and all tasks after it; `input` replaces the input of the run."""

    from_: str = Field(alias="from")
    input: Any = None


@run_router.get("/{run_id}", summary="Get a run", responses=problems(404))
async def get(db: Reading, run_id: RunId) -> Data[RunDetail]:
    """Return a run with its tasks."""
    return Data(views.detail(await inspect.snapshot(db, run_id, answers=True)))


@run_router.get("/{run_id}/events", summary="List the events of a run", responses=problems(404, 422))
async def events(
    db: Reading,
    run_id: RunId,
    attempt: RunAttempt = None,
    after: Annotated[str, Query(max_length=50, description="Continue after the `next` of a page.")] = "0.0",
    limit: Limit = 100,
) -> Listing[RunEvent]:
    """Return the events of a run and its tasks with their reasons, oldest first. A fanned-out task has events only for
    its start and its end; the jobs of its instances have their own."""
    place = TrailPlace.parse(after)
    rows = await runs.events(db, run_id, attempt=attempt, after=place, limit=limit)
    next_ = str(place.after([row for _, row in rows])) if len(rows) == limit else None
    return Listing([views.event(step, row) for step, row in rows], next_)


@run_router.get("/{run_id}/explain", summary="Explain a run", responses=problems(404))
async def explain(db: Reading, run_id: RunId) -> Data[Explanation]:
    """Explain in sentences why each task ran, waits, was skipped or failed."""
    return Data(views.explanation(*await inspect.explanation(db, run_id)))


@run_router.get("/{run_id}/output", summary="Get the output of a run", responses=problems(404, 409))
async def output(db: Reading, run_id: RunId) -> Data[Any]:
    """Return the output of the last task, or the outputs by name of those of several last tasks that succeeded; null
    for a task without output."""
    return Data(plain(await runs.output(db, run_id)))


@run_router.get("/{run_id}/graph", summary="Get the graph of a run", responses=problems(404))
async def graph(db: Reading, run_id: RunId) -> Data[Graph]:
    """Return the tasks and edges of the version that the run follows, even if the workflow has changed since."""
    return Data(graph_of(await runs.definition(db, run_id)))


@run_router.get("/{run_id}/timeline", summary="Get the timeline of a run", responses=problems(404, 422))
async def timeline(db: Reading, run_id: RunId, attempt: RunAttempt = None) -> Listing[Span]:
    """Return the periods in which each task was queued, running, in backoff, sleeping or waiting, in the order of the
    definition. A fanned-out task is one span."""
    account, spans = await inspect.run_timeline(db, run_id, attempt=attempt)
    return Listing([views.span(account, row) for row in spans])


@run_router.post(
    "/{run_id}/cancel",
    summary="Cancel a run",
    openapi_extra=bodies.described(Cancellation, {"reason": "wrong bucket"}),
    responses=problems(404, 409, 413, 422),
)
async def cancel(db: Operating, run_id: RunId, request: Request) -> Data[Run]:
    """Cancel a run: waiting tasks end immediately, and running jobs are requested to stop. With `compensate`, the run
    continues until the tasks that succeeded are undone. 409 if the run has ended."""
    body = await bodies.model(request, Cancellation)
    await runs.cancel(db, run_id, reason=body.reason, compensate=body.compensate)
    return await _run(db, run_id)


class Pause(bodies.RequestBody):
    reason: str | None = None


@run_router.post(
    "/{run_id}/pause",
    summary="Pause a run",
    openapi_extra=bodies.described(Pause, {"reason": "the bank is down"}),
    responses=problems(404, 409, 413, 422),
)
async def pause(db: Operating, run_id: RunId, request: Request) -> Data[Run]:
    """Start no more jobs of the run and of its child runs until it is resumed. Running jobs and timers continue. 409 if
    the run has ended."""
    body = await bodies.model(request, Pause)
    await runs.pause(db, run_id, reason=body.reason)
    return await _run(db, run_id)


@run_router.post("/{run_id}/resume", summary="Resume a run", responses=problems(404, 409))
async def resume(db: Operating, run_id: RunId) -> Data[Run]:
    """Resume a paused run; its jobs keep the times at which they are due. 409 if the run has ended."""
    await runs.resume(db, run_id)
    return await _run(db, run_id)


@run_router.post(
    "/{run_id}/retry",
    summary="Retry a run",
    openapi_extra=bodies.described(Retry, {"version": "live"}),
    responses=problems(404, 409, 413, 422),
)
async def retry(db: Operating, run_id: RunId, request: Request) -> Data[Run]:
    """Repeat the tasks that failed and those that depend on them; tasks that succeeded are kept. 409 unless the run
    failed or timed out, and with `version` if the live version differs in a task that is kept."""
    body = await bodies.model(request, Retry)
    await runs.retry(db, run_id, live=body.version is not None)
    return await _run(db, run_id)


@run_router.get("/{run_id}/restart", summary="Preview a retry or a rerun", responses=problems(404, 409, 422))
async def restart(
    db: Reading,
    run_id: RunId,
    from_: Annotated[str | None, Query(alias="from", description="The task to rerun from; a retry without it.")] = None,
    version: Annotated[Literal["live"] | None, Query(description="Continue with the live version.")] = None,
) -> Data[RestartPreview]:
    """Return which tasks a retry, or a rerun from a task, would keep and repeat. Fails with the same errors."""
    with task_named(from_ or "", field="from"):
        return Data(await runs.preview(db, run_id, step=from_, live=version is not None))


@run_router.post(
    "/{run_id}/rerun",
    summary="Rerun a run from a task",
    openapi_extra=bodies.described(Rerun, {"from": "charge", "input": {"order_id": 124}}),
    responses=problems(404, 409, 413, 422),
)
async def rerun(db: Operating, run_id: RunId, request: Request) -> Data[Run]:
    """Repeat a task and all tasks after it; `input` replaces the input of the run if it is given. 409 unless the run
    has ended."""
    body = await bodies.model(request, Rerun, limit=PAYLOAD_LIMIT + bodies.ROOM)
    with task_named(body.from_, field="from"):
        with_input = "input" in body.model_fields_set
        live = body.version is not None
        await runs.rerun(db, run_id, body.from_, input_=body.input, with_input=with_input, live=live)
    return await _run(db, run_id)


async def _run(db: Tenant, run_id: RunId) -> Data[Run]:
    return Data(views.line(await runs.get(db, run_id)))


# Filters


def run_states(words: Sequence[str]) -> list[str]:
    return states_named(words, ALIASES, "or success, for completed")


async def _list(db: Tenant, filters: ListFilter, ref: str | None) -> Listing[Run]:
    id_ = as_id(ref) if ref is not None else None
    query = _query(filters, ref if id_ is None else None, _labels(filters.label))
    if id_ is not None:
        await workflows.check_id(db, id_)
        query = replace(query, workflow_id=id_)
    page = await search.find(db, query, limit=filters.limit)
    return Listing([views.line(row) for row in page.runs], cursor(page.next))


async def _batch_filter(db: Tenant, filters: BatchFilter) -> RunQuery:
    times = (filters.inserted_after, filters.inserted_before)
    is_narrow = any((filters.workflow, filters.status, filters.labels, *times, filters.text, filters.retrying))
    if not is_narrow and not filters.all:
        raise Invalid('no filter is set: select runs, or send {"all": true}', field="body")
    workflow = await workflow_name(db, filters.workflow) if filters.workflow is not None else None
    return _query(filters, workflow, filters.labels)


def _query(filters: Filter, workflow: str | None, labels: dict[str, str]) -> RunQuery:
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
