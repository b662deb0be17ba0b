"""/runs/{run_id}/artifacts and /jobs/{job_id}/artifacts: the files that tasks and jobs wrote, and their content."""

import base64
import binascii
import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from windlass.core.artifacts import BEGINNING, MAX_NAME, Artifact, Place
from windlass.engine import artifacts
from windlass.engine.database import Tenant
from windlass.engine.views import runs as views
from windlass.errors import Invalid
from windlass.schemas.tasks import TaskArtifact
from windlass.web.api.jobs import JobId
from windlass.web.api.shared import (
    MAX_INT,
    Attempt,
    Limit,
    Listing,
    Reading,
    ReadingJobs,
    RunId,
    problems,
    task_named,
)
from windlass.web.api.tasks import TaskName

router = APIRouter(prefix="/{run_id}", tags=["artifacts"])
jobs_router = APIRouter(prefix="/jobs/{job_id}/artifacts", tags=["artifacts"])

MAX_CURSOR = 1000
FILE = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": FILE},
    206: {"description": "The part of the file that `Range` names.", "content": FILE},
}
_range = re.compile(r"bytes=(\d{0,19})-(\d{0,19})").fullmatch

ArtifactName = Annotated[
    str, Path(max_length=MAX_NAME, description="The name of an artifact.", examples=["report.csv"])
]
After = Annotated[str | None, Query(max_length=MAX_CURSOR, description="Continue after this place.")]
Index = Annotated[int, Query(ge=0, le=MAX_INT, description="Of this instance of a fanned-out task, from 0.")]
ByteRange = Annotated[
    str | None, Header(alias="Range", max_length=200, description="A part of the file: `bytes=0-999`.")
]
IfRange = Annotated[str | None, Header(alias="If-Range", max_length=200, include_in_schema=False)]


@router.get("/artifacts", summary="List the artifacts of a run", responses=problems(404, 422))
async def of_run(db: Reading, run_id: RunId, after: After = None, limit: Limit = 100) -> Listing[TaskArtifact]:
    """Return the artifacts of a run, sorted by task, index and name, including those of failed attempts."""
    return _page(run_id, await artifacts.of_run(db, run_id, after=_place(after), limit=limit), limit)


@router.get("/tasks/{task}/artifacts", summary="List the artifacts of a task", responses=problems(404, 422))
async def of_task(
    db: Reading, run_id: RunId, task: TaskName, after: After = None, limit: Limit = 100
) -> Listing[TaskArtifact]:
    """Return the artifacts of a task, sorted by index and name, including those of failed attempts."""
    with task_named(task):
        rows = await artifacts.of_run(db, run_id, step=task, after=_place(after), limit=limit)
    return _page(run_id, rows, limit)


@router.get(
    "/tasks/{task}/artifacts/{name}/content",
    summary="Download an artifact",
    responses=CONTENT | problems(404, 416, 422),
    response_class=Response,
)
async def content(
    db: Reading,
    run_id: RunId,
    task: TaskName,
    name: ArtifactName,
    index: Index = 0,
    attempt: Attempt = None,
    range_: ByteRange = None,
    if_range: IfRange = None,
) -> Response:
    """Return the content of an artifact, by default of the attempt that succeeded, or else of the latest one."""
    with task_named(task):
        artifact = await artifacts.of_step(db, run_id, task, name, index=index, attempt=attempt)
    return await _download(db, artifact, range_, if_range)


# Artifacts of jobs, including those of steps of runs


@jobs_router.get("", summary="List the artifacts of a job", responses=problems(404, 422))
async def of_job(db: ReadingJobs, job_id: JobId, after: After = None, limit: Limit = 100) -> Listing[TaskArtifact]:
    """Return the artifacts of a job, sorted by name, including those of failed attempts."""
    run, rows = await artifacts.list_of_job(db, job_id, after=_place(after), limit=limit)
    return _page(run, rows, limit)


@jobs_router.get(
    "/{name}/content",
    summary="Download an artifact of a job",
    responses=CONTENT | problems(404, 416, 422),
    response_class=Response,
)
async def content_of_job(
    db: ReadingJobs,
    job_id: JobId,
    name: ArtifactName,
    attempt: Attempt = None,
    range_: ByteRange = None,
    if_range: IfRange = None,
) -> Response:
    """Return the content of an artifact, by default of the attempt that succeeded, or else of the latest one."""
    return await _download(db, await artifacts.find_of_job(db, job_id, name, attempt=attempt), range_, if_range)


async def _download(db: Tenant, artifact: Artifact, range_: str | None, if_range: str | None) -> Response:
    tag = f'"{artifact.attempt}-{artifact.fence}-{artifact.size}"'
    headers = {
        "accept-ranges": "bytes",
        "content-disposition": f'attachment; filename="{artifact.name}"',
        "etag": tag,
        "x-content-type-options": "nosniff",  # files of handlers must not be executed as pages of this server
    }
    part = _part(range_, artifact.size) if if_range in (None, tag) else None
    start, end = part or (0, artifact.size)
    if part is not None and start >= end:
        detail = f"the file has {artifact.size} bytes, and `Range` begins after its end"
        raise HTTPException(416, detail, {"content-range": f"bytes */{artifact.size}"})
    if part is not None:
        headers["content-range"] = f"bytes {start}-{end - 1}/{artifact.size}"
    headers["content-length"] = str(end - start)
    chunks = artifacts.read(db, artifact, start=start, end=end) if part is not None else artifacts.read(db, artifact)
    # Read before the response begins, so that an unreadable object is an error and not a truncated response.
    first = await anext(chunks, b"")
    return StreamingResponse(
        _rest(first, chunks),
        status_code=200 if part is None else 206,
        media_type=artifact.media_type,
        headers=headers,
    )


async def _rest(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk


def _part(text: str | None, size: int) -> tuple[int, int] | None:
    """Return the start and end of the requested byte range. Several ranges, or other units, are ignored (RFC 9110)."""
    match = _range(text) if text else None
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:  # a suffix range
        return max(0, size - int(match[2])), size
    start, last = int(match[1]), int(match[2]) if match[2] else size
    return None if last < start else (start, min(last + 1, size))


# Positions in the list: the `next` of a page


def _page(run: Any, rows: list[Artifact], limit: int) -> Listing[TaskArtifact]:
    next_ = _place_text(rows[-1].place) if len(rows) == limit else None
    return Listing([views.artifact(run, row) for row in rows], next_)


def _place_text(place: Place) -> str:
    """Return a position as an opaque cursor."""
    return base64.urlsafe_b64encode(json.dumps(list(place), separators=(",", ":")).encode()).decode().rstrip("=")


def _place(text: str | None) -> Place:
    if text is None:
        return BEGINNING
    try:
        step, item, name, fence = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        place = Place(str(step), int(item), str(name), int(fence))
        if not (0 <= place.item <= MAX_INT and 0 <= place.fence <= MAX_INT) or "\x00" in place.step + place.name:
            raise ValueError("out of range")
        (place.step + place.name).encode()
    except (ValueError, TypeError, binascii.Error, RecursionError, OverflowError):
        raise Invalid("after is not a cursor of this list: pass the `next` of a page", field="after") from None
    return place
