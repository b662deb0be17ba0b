"""/runs/{run_id}/tasks: the tasks of a run, their instances, outputs and callback addresses. Also the logs of runs and
tasks: in pages, the last lines, all lines as text, or as a stream."""

import base64
import binascii
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query
from starlette.responses import Response, StreamingResponse

from windlass.app import Windlass
from windlass.core.events.cursor import MAX_TEXT, Cursor
from windlass.engine import hooks
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.engine.runs.inspect import BEGINNING, LINES_LIMIT, LineSelection, Place, RunLine
from windlass.engine.views import runs as views
from windlass.errors import Invalid
from windlass.runtime.live import LogLines, follow_logs
from windlass.schemas.tasks import Instance, NamedTask, TaskLogLine
from windlass.schemas.workflows import Address
from windlass.web.api.live import ENDED, OK, LastEventId, moment
from windlass.web.api.shared import (
    MAX_INT,
    App,
    Attempt,
    Data,
    Limit,
    Listing,
    Operating,
    Reading,
    RunId,
    plain,
    problems,
    task_named,
)
from windlass.web.live import RETRY, EventStream, event, place

router = APIRouter(prefix="/{run_id}/tasks", tags=["tasks"])
logs_router = APIRouter(tags=["logs"])

TEXT = "text/plain"
LINES: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page of lines, or all of them as text.", "content": {TEXT: {"schema": {"type": "string"}}}}
}


class Format(StrEnum):
    JSON = "json"
    TEXT = "text"


TaskName = Annotated[str, Path(description="The name of a task.", examples=["charge"])]
Index = Annotated[int | None, Query(ge=0, le=MAX_INT, description="Only of this instance, from 0.")]


@dataclass(frozen=True)
class LogQuery:
    """Selects log lines and their format."""

    after: Annotated[str | None, Query(max_length=500, description="Continue after this place.")] = None
    limit: Limit = 100
    tail: Annotated[int | None, Query(ge=1, le=LINES_LIMIT, description="Only this many of the last lines.")] = None
    format: Annotated[
        Format | None, Query(description="`text`: all lines as a file, as with `Accept: text/plain`.")
    ] = None
    accept: Annotated[str, Header(include_in_schema=False)] = ""

    @property
    def as_text(self) -> bool:
        return self.format is Format.TEXT or (self.format is None and self.accept.strip().startswith(TEXT))


LogParameters = Annotated[LogQuery, Depends()]


@router.get("", summary="List the tasks of a run", responses=problems(404))
async def list_(db: Reading, run_id: RunId) -> Listing[NamedTask]:
    """Return the tasks of a run, in the order of the definition."""
    account = await inspect.snapshot(db, run_id, answers=True)
    return Listing([views.named_task(step, account) for step in account.steps])


@router.get("/{task}", summary="Get a task of a run", responses=problems(404))
async def get(db: Reading, run_id: RunId, task: TaskName) -> Data[NamedTask]:
    account = await inspect.snapshot(db, run_id, answers=True)
    with task_named(task):
        step = account.steps[runs.step_number(account.workflow, task)]
    return Data(views.named_task(step, account))


@router.get("/{task}/instances", summary="List the instances of a task", responses=problems(404, 422))
async def instances(
    db: Reading,
    run_id: RunId,
    task: TaskName,
    after: Annotated[int, Query(ge=-1, lt=MAX_INT, description="Continue after this instance.")] = -1,
    limit: Limit = 100,
) -> Listing[Instance]:
    """Return the instances of a task with their results, by index. Sleeps, waits and tasks that start other runs have
    no instances."""
    with task_named(task):
        rows = await runs.instances(db, run_id, task, after=after, limit=limit)
    next_ = str(rows[-1].item) if len(rows) == limit else None
    return Listing([views.instance(row) for row in rows], next_)


@router.get("/{task}/output", summary="Get the output of a task", responses=problems(404, 409))
async def output(db: Reading, run_id: RunId, task: TaskName) -> Data[Any]:
    """Return the output of a task: the result of its job, the body of an HTTP response or callback, a message, a
    decision or the output of its child run; for a fanned-out task a list by index."""
    with task_named(task):
        return Data(plain(await runs.step_output(db, run_id, task)))


@router.get("/{task}/callback", summary="Get the callback URL of a waiting task", responses=problems(404))
async def callback(db: Operating, run_id: RunId, task: TaskName) -> Data[Address]:
    """Return the callback URL of a task that waits for a webhook: a request to it ends the wait."""
    with task_named(task):
        return Data(Address(url=await hooks.address(db, run_id, task)))


# Logs


@logs_router.get(
    "/{run_id}/logs",
    summary="Read the logs of a run",
    responses=LINES | problems(404, 422),
    response_model=Listing[TaskLogLine],
)
async def of_run(
    db: Reading, run_id: RunId, query: LogParameters, attempt: Attempt = None
) -> Listing[TaskLogLine] | Response:
    """Return the lines that the handlers of all tasks logged, oldest first; as text, task by task."""
    return await _answer(db, run_id, query, attempt=attempt)


@logs_router.get(
    "/{run_id}/tasks/{task}/logs",
    summary="Read the logs of a task",
    responses=LINES | problems(404, 422),
    response_model=Listing[TaskLogLine],
)
async def of_task(
    db: Reading, run_id: RunId, task: TaskName, query: LogParameters, index: Index = None, attempt: Attempt = None
) -> Listing[TaskLogLine] | Response:
    """Return the lines that the handler logged, oldest first; of all instances and attempts unless one is given."""
    with task_named(task):
        return await _answer(db, run_id, query, step=task, index=index, attempt=attempt)


Back = Annotated[
    int, Query(ge=0, le=LINES_LIMIT, description="Begin with this many of the last lines, unless `after` is given.")
]
After = Annotated[str | None, Query(max_length=MAX_TEXT, description="Like Last-Event-ID, which overrides it.")]


@logs_router.get(
    "/{run_id}/logs/stream",
    summary="Follow the logs of a run",
    responses=OK | ENDED | problems(404, 422),
    response_class=Response,
)
async def follow_run(
    db: Reading,
    app: App,
    run_id: RunId,
    attempt: Attempt = None,
    tail: Back = 1000,
    after: After = None,
    last: LastEventId = None,
) -> Response:
    """Stream the last lines and then new ones, until the run has ended."""
    return await _follow(app, db, await inspect.select_lines(db, run_id, attempt=attempt), tail, last or after)


@logs_router.get(
    "/{run_id}/tasks/{task}/logs/stream",
    summary="Follow the logs of a task",
    responses=OK | ENDED | problems(404, 422),
    response_class=Response,
)
async def follow_task(
    db: Reading,
    app: App,
    run_id: RunId,
    task: TaskName,
    index: Index = None,
    attempt: Attempt = None,
    tail: Back = 1000,
    after: After = None,
    last: LastEventId = None,
) -> Response:
    """Stream the last lines and then new ones, until the task has ended."""
    with task_named(task):
        selection = await inspect.select_lines(db, run_id, step=task, index=index, attempt=attempt)
    return await _follow(app, db, selection, tail, last or after)


async def _answer(db: Tenant, run: UUID, query: LogQuery, **which: Any) -> Listing[TaskLogLine] | Response:
    if query.as_text or query.tail is not None:
        if query.after is not None:
            raise Invalid("after is for pages: leave it out with tail and format=text", field="after")
        selection = await inspect.select_lines(db, run, **which)
        if query.as_text:
            return _download(db, selection, query.tail)
        assert query.tail is not None
        lines = [(selection.name(line), line) for line in await inspect.last_lines(db, selection, query.tail)]
        return Listing([views.log_line(name, row) for name, row in lines])
    lines = await inspect.lines(db, run, **which, after=place_of(query.after), limit=query.limit)
    next_ = place_text(lines[-1][1].place) if len(lines) == query.limit else None
    return Listing([views.log_line(name, row) for name, row in lines], next_)


def _download(db: Tenant, selection: LineSelection, tail: int | None) -> Response:
    parts = [selection.workflow, str(selection.which.run)]
    if selection.which.step is not None:
        parts.append(selection.names[selection.which.step])
    parts += [str(part) for part in selection.which[2:] if part is not None]
    name = re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(parts))[:200] + ".log"
    headers = {"content-disposition": f'attachment; filename="{name}"', "x-content-type-options": "nosniff"}
    return StreamingResponse(_texts(db, selection, tail), media_type=f"{TEXT}; charset=utf-8", headers=headers)


async def _texts(db: Tenant, selection: LineSelection, tail: int | None) -> AsyncIterator[bytes]:
    if tail is not None:
        yield "".join(_text(selection, line) for line in await inspect.last_lines(db, selection, tail)).encode()
        return
    async for lines in inspect.lines_by_step(db, selection):
        yield "".join(_text(selection, line) for line in lines).encode()


def _text(selection: LineSelection, line: RunLine) -> str:
    which = f"{selection.name(line)}[{line.item}]" if line.fanned_out else selection.name(line)
    again = f" attempt {line.attempt}" if line.attempt > 1 else ""
    moment = line.at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")
    return f"{moment}Z {line.level:<7} {which}{again}: {line.message}\n"


async def _follow(app: Windlass, db: Tenant, selection: LineSelection, tail: int, after: str | None) -> Response:
    at = Cursor.parse(after) if after else None
    batches = follow_logs(await app.live(), db, selection, at, tail=tail)
    first = await anext(batches)
    if at is not None and at.before is None and first.over and not first.lines:
        await batches.aclose()
        return Response(status_code=204)
    return EventStream(_events(selection, batches, first))


async def _events(
    selection: LineSelection, batches: AsyncGenerator[LogLines, None], batch: LogLines
) -> AsyncGenerator[bytes | str, None]:
    yield f"retry: {RETRY}\n\n".encode()
    try:
        while True:
            parts = (event("line", _data(selection, line), id_=str(at) if at else None) for line, at in batch.lines)
            text = b"".join(parts)
            if text and batch.lines[-1][1] is None:
                text += place(str(batch.next))
            yield text or str(batch.next)
            if batch.over:
                yield event("end", {"run_id": str(selection.which.run)}, id_=str(batch.next))
                return
            try:
                batch = await anext(batches)
            except StopAsyncIteration:
                return
    finally:
        await batches.aclose()


def _data(selection: LineSelection, line: RunLine) -> dict[str, Any]:
    return {
        "task": selection.name(line),
        "index": line.item,
        "attempt": line.attempt,
        "at": moment(line.at),
        "level": line.level,
        "message": line.message,
    }


# Positions in log lines: the `next` of a page


def place_text(at: Place) -> str:
    """Return a position as an opaque cursor."""
    text = json.dumps([at.at.isoformat(), str(at.job_id), at.attempt, at.line], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(text: str | None) -> Place:
    if text is None:
        return BEGINNING
    try:
        at, job, attempt, line = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        parsed = Place(datetime.fromisoformat(at), UUID(job), int(attempt), int(line))
        if parsed.at.utcoffset() is None or not (0 <= parsed.attempt <= MAX_INT and 0 <= parsed.line <= MAX_INT):
            raise ValueError("out of range")
    except (ValueError, TypeError, AttributeError, binascii.Error, RecursionError):
        raise Invalid("after is not a cursor of these lines: pass the `next` of a page", field="after") from None
    return parsed
