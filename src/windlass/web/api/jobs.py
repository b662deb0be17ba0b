"""/jobs: submit one or many, list, cancel, retry and delete."""

import contextlib
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from windlass.app import Windlass
from windlass.core.jobs.job import JobState
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.jobs.spec import DEFAULT_PRIORITY, JobSpec
from windlass.core.jobs.streams import START, Position, StreamChunk, StreamPage
from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.engine.database import Tenant
from windlass.engine.jobs import checkpoints, streams
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs.control import LinePlace
from windlass.engine.views import jobs as views
from windlass.errors import Invalid, NotFound
from windlass.schemas.common import CREATE_LIMIT, PAGE_LIMIT
from windlass.schemas.jobs import Job, JobDetail, JobEvent, JobLogLine, JobStep, SubmittedJobs
from windlass.web.api import bodies
from windlass.web.api.examples import JOB_ID
from windlass.web.api.live import ENDED, OK, LastEventId, moment
from windlass.web.api.runs import Cancellation
from windlass.web.api.shared import (
    MAX_BIGINT,
    MAX_INT,
    MAX_SHOWN,
    App,
    Attempt,
    Data,
    Limit,
    Listing,
    Moment,
    OperatingJobs,
    ReadingJobs,
    StartingJobs,
    app_of,
    as_id,
    cursor,
    problems,
    states_named,
)
from windlass.web.api.starts import Key, Span, idempotency_key_of
from windlass.web.json_bodies import BATCH_LIMIT
from windlass.web.live import RETRY, EventStream, event

router = APIRouter(prefix="/jobs", tags=["jobs"])

ALIASES: Mapping[str, JobState] = {
    **{state.value: state for state in JobState},
    "running": JobState.LEASED,
    "success": JobState.SUCCEEDED,
    "completed": JobState.SUCCEEDED,
    "canceled": JobState.CANCELLED,
}
Finite = Annotated[float, Field(allow_inf_nan=False)]
Place = Annotated[str | None, Query(max_length=40, description="Continue after this place.")]


class RetryPolicy(bodies.RequestBody):
    """The delay in seconds after the n-th failure. By `kind`, it is base (constant), base * n (linear),
    base * factor ** (n - 1) (exponential) or base * n ** factor (polynomial)."""

    kind: Literal["constant", "linear", "exponential", "polynomial"] = "exponential"
    base: Finite = Field(default=1.0, ge=0)
    factor: Finite = Field(default=2.0, gt=0)
    cap: Finite | None = Field(default=None, ge=0)
    jitter: Finite = Field(default=0.1, ge=0, le=1)


class NewJob(bodies.RequestBody):
    """A job to submit. It is due immediately, at `run_at` or after `delay`. Fields that are left out get the defaults
    of the handler of its type."""

    type: str
    payload: Any = None
    queue: str | None = None
    priority: int = Field(default=DEFAULT_PRIORITY, description="Lower first.")
    run_at: Moment | None = None
    delay: Span | None = None
    max_attempts: int | None = None
    retry: RetryPolicy | None = None
    timeout: Span | None = None
    idempotency_key: str | None = None
    tags: list[str] = Field(default=[], max_length=100)
    meta: dict[str, Any] | None = None


class NewJobs(bodies.RequestBody):
    jobs: list[NewJob] = Field(min_length=1, max_length=CREATE_LIMIT)


class Filters(BaseModel):
    """Selects the jobs that match all conditions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    status: list[str] = Field(default=[], max_length=50, description="May be repeated; `running` means leased.")
    queue: str | None = Field(default=None, description="Of this queue.")
    type: str | None = Field(default=None, description="A LIKE pattern: `billing.%`.")
    tag: str | None = Field(default=None, description="With this tag.")
    run: UUID | None = Field(default=None, description="The tasks of this run.")
    steps: bool = Field(default=True, description="`false` leaves out the jobs of tasks of runs.")
    before: int | None = Field(default=None, ge=0, le=2**62, description="Continue below this place.")
    limit: int = Field(default=50, ge=1, le=PAGE_LIMIT, description="Maximum number of items.")


EXAMPLE = {"type": "content.thumbnail.v1", "payload": {"content_id": "c_123"}, "delay": "5m", "tags": ["shop"]}


async def _job_id(
    job_id: Annotated[str, Path(description="The id of a job.", examples=[JOB_ID])],
) -> UUID:
    id_ = as_id(job_id)
    if id_ is None:
        raise NotFound("job", ascii(job_id[:MAX_SHOWN]))
    return id_


JobId = Annotated[UUID, Depends(_job_id)]


@router.post(
    "",
    summary="Submit a job",
    status_code=201,
    openapi_extra=bodies.described(NewJob, EXAMPLE),
    responses={200: {"model": Data[JobDetail], "description": "The key was used before."}, **problems(409, 413, 422)},
)
async def submit(db: StartingJobs, request: Request, response: Response, key: Key = None) -> Data[JobDetail]:
    """Submit a job. If a job with this idempotency key exists, return that job with 200."""
    body = await bodies.model(request, NewJob, limit=PAYLOAD_LIMIT + bodies.ROOM)
    spec = _spec(app_of(request), body, idempotency_key_of(key, body.idempotency_key))
    recorded = await jobs.record(db, [spec])
    response.status_code = 201 if recorded.new else 200
    return await _whole(db, recorded.ids[0])


@router.post(
    "/batch",
    summary="Submit many jobs",
    status_code=201,
    openapi_extra=bodies.described(NewJobs, {"jobs": [EXAMPLE]}),
    responses=problems(409, 413, 422),
)
async def submit_many(db: StartingJobs, request: Request) -> Data[SubmittedJobs]:
    """Submit jobs in one transaction, all or none. An error names the job and its field: `jobs.3.type`."""
    body = await bodies.model(request, NewJobs, limit=BATCH_LIMIT)
    app = app_of(request)
    specs = [_spec(app, job, job.idempotency_key) for job in body.jobs]
    return Data(views.submitted(await jobs.record(db, specs, listed=True)))


@router.get("", summary="List jobs", responses=problems(422))
async def list_(db: ReadingJobs, filters: Annotated[Filters, Query()]) -> Listing[Job]:
    """Return jobs, newest first by the time at which they became due."""
    page = await jobs.list_(
        db,
        statuses=states_named(filters.status, ALIASES, "or running, for leased") or None,
        queue=filters.queue,
        type_=filters.type,
        tag=filters.tag,
        run=filters.run,
        steps=filters.steps,
        before=filters.before,
        limit=filters.limit,
    )
    return await listing(db, page.jobs, page.next)


@router.get("/{job_id}", summary="Get a job", responses=problems(404))
async def get(db: ReadingJobs, job_id: JobId) -> Data[JobDetail]:
    """Return a job with the errors of its attempts, its lease, and the run that it is a task of."""
    return await _whole(db, job_id)


@router.post(
    "/{job_id}/cancel",
    summary="Cancel a job",
    openapi_extra=bodies.described(Cancellation, {"reason": "wrong bucket"}),
    responses=problems(404, 409, 413, 422),
)
async def cancel(db: OperatingJobs, job_id: JobId, request: Request) -> Data[JobDetail]:
    """Cancel a job immediately and notify the worker that holds it. 409 if the job has ended."""
    body = await bodies.model(request, Cancellation)
    await jobs.cancel(db, job_id, reason=body.reason)
    return await _whole(db, job_id)


@router.post("/{job_id}/retry", summary="Retry a job", responses=problems(404, 409, 422))
async def retry(
    db: OperatingJobs,
    job_id: JobId,
    fresh: Annotated[bool, Query(description="Discard the results that its handler recorded.")] = False,
) -> Data[JobDetail]:
    """Return a failed or cancelled job to its queue with its attempts reset. 409 for jobs in other states, and for
    tasks of runs: retry the run."""
    await jobs.reopen(db, job_id, fresh=fresh)
    return await _whole(db, job_id)


@router.delete("/{job_id}", summary="Delete a job", status_code=204, responses=problems(404))
async def delete(db: OperatingJobs, job_id: JobId) -> None:
    """Hide a job (soft delete). If it is pending, it is never claimed."""
    await jobs.delete(db, job_id)


@router.get("/{job_id}/events", summary="List the events of a job", responses=problems(404, 422))
async def events(
    db: ReadingJobs,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, le=MAX_BIGINT, description="Continue after this event.")] = 0,
    limit: Limit = 100,
) -> Listing[JobEvent]:
    """Return the events of a job, oldest first."""
    rows = await jobs.events(db, job_id, after=after, limit=limit)
    next_ = str(rows[-1].id) if len(rows) == limit else None
    return Listing([views.event(row) for row in rows], next_)


@router.get("/{job_id}/steps", summary="List the recorded steps of a job", responses=problems(404, 422))
async def steps(
    db: ReadingJobs,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, le=MAX_INT, description="Continue after this many.")] = 0,
    limit: Limit = 100,
) -> Listing[JobStep]:
    """Return the durable steps and waits that the handler recorded, oldest first."""
    rows = await checkpoints.timeline(db, job_id, limit=limit, skip=after)
    next_ = str(after + len(rows)) if len(rows) == limit else None
    return Listing([views.step(row) for row in rows], next_)


@router.get("/{job_id}/logs", summary="Read the logs of a job", responses=problems(404, 422))
async def logs(
    db: ReadingJobs, job_id: JobId, attempt: Attempt = None, after: Place = None, limit: Limit = 100
) -> Listing[JobLogLine]:
    """Return the lines that the handler logged, by attempt."""
    rows = await jobs.logs(db, job_id, attempt=attempt, after=_line_place(after), limit=limit)
    next_ = f"{rows[-1].epoch}.{rows[-1].attempt}.{rows[-1].line}" if len(rows) == limit else None
    return Listing([views.log_line(row) for row in rows], next_)


@router.get(
    "/{job_id}/stream",
    summary="Follow the stream of a job",
    responses=OK | ENDED | problems(404, 422),
    response_class=Response,
)
async def stream(
    db: ReadingJobs,
    app: App,
    job_id: JobId,
    after: Annotated[str | None, Query(max_length=40, description="Like Last-Event-ID, which overrides it.")] = None,
    last: LastEventId = None,
) -> Response:
    """Stream what the handler passes to `ctx.stream`, from the first chunk on, as `chunk` events, and `end` when the
    job has ended. Each attempt starts a new `section`."""
    await jobs.get(db, job_id)
    at = Position.parse(last or after or str(START))
    [first] = await streams.read(db, [(job_id, at)])
    if last is not None and first.ended is not None and not first.chunks:
        return Response(status_code=204)  # browsers reconnect until they receive a 204
    at = first.chunks[-1].position if first.chunks else at
    return EventStream(_chunks(first, (await app.live()).streams.follow(job_id, at)))


async def _chunks(page: StreamPage, following: AsyncGenerator[StreamPage, None]) -> AsyncGenerator[bytes | str, None]:
    yield f"retry: {RETRY}\n\n".encode()
    async with contextlib.aclosing(following):
        while True:
            if page.chunks:
                yield b"".join(event("chunk", _data(chunk), id_=str(chunk.position)) for chunk in page.chunks)
            if page.ended is not None:
                yield event("end", {"status": page.ended})
                return
            try:
                page = await anext(following)
            except StopAsyncIteration:
                return


def _data(chunk: StreamChunk) -> dict[str, Any]:
    return {**asdict(views.chunk(chunk)), "at": moment(chunk.at)}


async def listing(db: Tenant, rows: Sequence[jobs.Job], next_: int | None) -> Listing[Job]:
    """Return a page of jobs with the names of their tasks."""
    tasks = await jobs.steps(db, rows)
    return Listing([views.line(row, org=db.org, tasks=tasks) for row in rows], cursor(next_))


async def _whole(db: Tenant, id_: UUID) -> Data[JobDetail]:
    row = await jobs.get(db, id_)
    tasks, progress = await jobs.steps(db, [row]), await checkpoints.progress(db, id_)
    return Data(views.detail(row, org=db.org, tasks=tasks, progress=progress))


def _spec(app: Windlass, body: NewJob, key: str | None) -> JobSpec:
    retry = body.retry
    return app.spec(
        body.type,
        body.payload,
        queue=body.queue,
        priority=body.priority,
        run_at=body.run_at,
        delay=body.delay,
        max_attempts=body.max_attempts,
        retry=Retry(Backoff(retry.kind), retry.base, retry.factor, retry.cap, retry.jitter) if retry else None,
        timeout=body.timeout,
        idempotency_key=key,
        tags=body.tags,
        meta=body.meta,
    )


def _line_place(text: str | None) -> LinePlace:
    if text is None:
        return jobs.BEGINNING
    if not re.fullmatch(r"\d{1,10}\.\d{1,10}\.\d{1,10}", text, re.ASCII):
        raise Invalid("after is not a cursor of these lines: pass the `next` of a page", field="after")
    epoch, attempt, line = (min(int(part), MAX_INT) for part in text.split("."))
    return epoch, attempt, line
