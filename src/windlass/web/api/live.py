"""/stream and /runs/{run_id}/stream: events of runs, tasks and jobs as server-sent events.

Events are plain dictionaries instead of schema types: there may be thousands per second.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.core.events.cursor import MAX_TEXT
from windlass.core.explain.timeline import REOPENED
from windlass.core.runs.run import LIVE, Fan, Letter
from windlass.engine.events.stream import Batch, Cursor, TrailEntry
from windlass.engine.runs import control as runs
from windlass.engine.views import runs as run_views
from windlass.engine.views.runs import instance_counts
from windlass.web.api.shared import App, Reading, RunId, problems, workflow_name
from windlass.web.live import MEDIA_TYPE, RETRY, EventStream, event

router = APIRouter(tags=["live"])
run_router = APIRouter(tags=["live"])

CHUNK = 200  # events sent in one chunk
OK: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
}
EVENTS: Mapping[str, str] = {  # event type of a job -> new status of the task, or of the job
    "created": "queued",
    "leased": "running",
    "started": "running",
    "retried": "retrying",
    "succeeded": "success",
    "failed": "failed",
    "cancelled": "cancelled",
}
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=MAX_TEXT, description="Continue after the event with this id."),
]


class StreamKind(StrEnum):
    RUN = "run"
    TASK = "task"
    JOB = "job"


class Filters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    workflow: str | None = Field(default=None, description="Only of this workflow: its name or its id.")
    kind: list[StreamKind] = Field(default=[], max_length=10, description="Runs, tasks or jobs; may be repeated.")
    after: str | None = Field(default=None, max_length=MAX_TEXT, description="Like Last-Event-ID, which overrides it.")


@router.get("/stream", summary="Follow all events", responses=OK | problems(404, 422), response_class=Response)
async def stream(db: Reading, app: App, filters: Annotated[Filters, Query()], last: LastEventId = None) -> Response:
    """Stream the events of runs, tasks and jobs, beginning with `hello`. To resume the stream after an event, pass its
    `id` as `Last-Event-ID` or `after`: no event is lost or repeated. Without an id, the stream begins with new
    events."""
    workflow = await workflow_name(db, filters.workflow) if filters.workflow is not None else None
    org = db.org

    def wanted(one: TrailEntry) -> bool:
        line = one.line
        return (
            line.org == org
            and (workflow is None or line.workflow == workflow)
            and (not filters.kind or _kind(one) in filters.kind)
        )

    batches = (await app.live()).follow(_cursor(last, filters.after))
    first = await anext(batches)
    return EventStream(_events(batches, first, wanted, _hello(first)))


ENDED: dict[int | str, dict[str, Any]] = {
    204: {"description": "It has ended, and nothing happened since `Last-Event-ID`."}
}


@run_router.get(
    "/{run_id}/stream", summary="Follow a run", responses=OK | ENDED | problems(404, 422), response_class=Response
)
async def stream_of_run(
    db: Reading,
    app: App,
    run_id: RunId,
    after: Annotated[
        str | None, Query(max_length=MAX_TEXT, description="An event id or a `cursor`; Last-Event-ID overrides it.")
    ] = None,
    last: LastEventId = None,
) -> Response:
    """Stream the events of a run and its tasks. It begins with `hello` and ends with `end` when the run has ended."""
    await runs.get(db, run_id)
    batches = (await app.live()).follow(_cursor(last, after), run=run_id)
    first = await anext(batches)
    if last is not None and _has_ended(first) and not first.entries:
        await batches.aclose()  # browsers reconnect until they receive a 204
        return Response(status_code=204)
    return EventStream(_events(batches, first, None, _hello(first, run_id), run=run_id))


def moment(at: datetime) -> str:
    """Return a time in the format of all responses."""
    return at.isoformat().replace("+00:00", "Z")


def _cursor(last: str | None, after: str | None) -> Cursor | None:
    if last:
        return Cursor.parse(last, name="Last-Event-ID")
    return Cursor.parse(after) if after else None


async def _events(
    batches: AsyncGenerator[Batch, None],
    batch: Batch,
    wanted: Callable[[TrailEntry], bool] | None,
    hello: dict[str, Any],
    *,
    run: UUID | None = None,
) -> AsyncGenerator[bytes | str, None]:
    async with contextlib.aclosing(batches):
        yield f"retry: {RETRY}\n".encode() + event("hello", hello, id_=str(batch.at))
        while True:
            lines = batch.entries if wanted is None else [one for one in batch.entries if wanted(one)]
            for first in range(0, len(lines), CHUNK):
                yield b"".join(_rendered(one, whole=run is not None) for one in lines[first : first + CHUNK])
                await asyncio.sleep(0)  # let other streams and heartbeats run
            if not lines:
                yield str(batch.next)
            if run is not None and not batch.more and _has_ended(batch):
                yield event("end", {"run_id": str(run), "run_status": _run_status(batch)}, id_=str(batch.next))
                return
            try:
                batch = await anext(batches)
            except StopAsyncIteration:
                return


def _rendered(entry: TrailEntry, *, whole: bool) -> bytes:
    """Return the event of a line, rendered once for all streams of the process. `whole`: for streams of one run."""
    if (rendered := entry.rendered.get(whole)) is None:
        rendered = event(_kind(entry), event_data(entry, whole=whole), id_=str(entry.cursor))
        entry.rendered[whole] = rendered
    return rendered


def _has_ended(batch: Batch) -> bool:
    """Return whether the run of the stream has ended and no lines follow this batch."""
    status = _run_status(batch)
    return status is not None and status not in LIVE and not batch.more


def _run_status(batch: Batch) -> str | None:
    """Return the status of the run of the stream, as of the end of this batch."""
    return batch.state or (batch.entries[-1].line.state if batch.entries else None)


def _kind(entry: TrailEntry) -> str:
    """Return the kind of object that a line is about: a run, a task, or a job that is not a task."""
    if entry.line.step is not None:
        return "task"
    return "job" if entry.line.of_job else "run"


def _hello(batch: Batch, run: UUID | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {"cursor": str(batch.at)}
    return fields if run is None else fields | {"run_id": str(run), "run_status": batch.state}


def event_data(entry: TrailEntry, *, whole: bool = False) -> dict[str, Any]:
    """Return the data of a line's event. `status` is the task's when the line was read, so the last event has the
    current one. `whole`: events of a run have the statuses of all its tasks, because some change without an event."""
    line, step = entry.line, entry.step
    fields: dict[str, Any] = {
        "event": _event(entry),
        "at": moment(line.at),
        "actor": line.actor,
        "reason": line.reason or line.data.get("error") or line.data.get("reason"),
    }
    if line.run_id is not None:
        fields |= {"run_id": str(line.run_id), "workflow": line.workflow, "run_status": line.state}
    if line.code is not None:
        fields["code"] = line.code
    if step is not None and line.letters:
        fields["task"] = step.name
        fields["status"] = run_views.task_status(Letter(line.letters), step.action, line.code)
    elif whole and entry.workflow is not None and line.letters:
        pairs = zip(entry.workflow.steps, line.letters, strict=True)
        fields["tasks"] = {step.name: run_views.task_status(Letter(letter), step.action) for step, letter in pairs}
    if line.fan is not None:
        fields["instances"] = asdict(instance_counts(Fan(*line.fan).for_display(line.letters or Letter.ACTIVE)))
    return fields | (_job_fields(entry) if line.of_job else {})


def _job_fields(entry: TrailEntry) -> dict[str, Any]:
    line = entry.line
    fields: dict[str, Any] = {
        "job_id": str(line.job_id),
        "type": line.type,
        "queue": line.queue,
        "attempt": line.attempt,
    }
    if line.items is not None:
        fields["index"] = line.item
    delay = line.data.get("delay_seconds")
    if line.word == "retried" and isinstance(delay, int | float):
        fields["next_attempt_at"] = moment(line.at + timedelta(seconds=delay))
    return fields


def _event(entry: TrailEntry) -> str:
    line = entry.line
    if not line.of_job:
        return run_views.event_name(line.word, entry.step.action if entry.step is not None else None, line.code)
    if line.word == "retried" and line.data.get("reason") == REOPENED:
        return EVENTS["created"]
    return EVENTS[line.word]
