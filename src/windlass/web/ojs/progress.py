"""Stores what workers save of running jobs: progress, log lines, and the checkpoints and durable steps from which a job
resumes after a crash."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.job import fraction_of
from windlass.core.orgs import Scope
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import Checkpoint, Progress
from windlass.engine.workers import lines
from windlass.engine.workers.lines import SentLine
from windlass.errors import Invalid, NotFound
from windlass.web.ojs import dependencies, times
from windlass.web.ojs.responses import answer, entry_error, instant
from windlass.web.ojs.routing import Route

MOST_STEPS = 1000  # per request
LEVELS = ("debug", "info", "warning", "error")
LEGACY = ("state", "step_index", "metadata")  # what a published SDK saves, and expects back unchanged


async def put_progress(request: Request) -> Response:
    id_, body = dependencies.job_id(request), await dependencies.body(request)
    return await _save_progress(request, id_, body, fraction_of(body.get("progress")))


async def report_progress(request: Request) -> Response:
    """Save progress in the form of the published SDKs: a percentage, and the job's id in the body."""
    body = await dependencies.body(request)
    id_ = dependencies.known_id(dependencies.required(body, "job_id"), "job")
    return await _save_progress(request, id_, body, fraction_of(body.get("percentage"), whole=100, field="percentage"))


async def get_progress(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    latest = await checkpoints.progress(db, id_)
    none: dict[str, Any] = {"job_id": str(id_), "progress": 0.0, "percentage": 0}
    return answer(request, none if latest is None else _progress(id_, latest))


async def _save_progress(request: Request, id_: UUID, body: dict[str, Any], fraction: float) -> Response:
    db, message = await dependencies.db(request), dependencies.string(body, "message")
    worker, fence = dependencies.worker_id(body), dependencies.fence(body)
    latest = await checkpoints.record_progress(db, id_, fraction, message, body.get("data"), worker=worker, fence=fence)
    return answer(request, {"acknowledged": True, **_progress(id_, latest)})


def _progress(job: UUID, latest: Progress) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "job_id": str(job),
        "progress": latest.fraction,
        "percentage": round(latest.fraction * 100),
        "updated_at": instant(latest.updated_at),
    }
    optional = (("message", latest.message), ("data", latest.data))
    return fields | {name: value for name, value in optional if value is not None}


async def save_checkpoint(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    body = await dependencies.body(request)
    if "state" not in body:
        raise Invalid("state is missing: send what is to be saved", field="state")
    worker, fence = dependencies.worker_id(body), dependencies.fence(body)
    saved = await checkpoints.save(db, id_, body["state"], worker=worker, fence=fence)
    return answer(request, _checkpoint_body(id_, saved))


async def get_checkpoint(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    return answer(request, _checkpoint_body(id_, await checkpoints.get(db, id_)))


async def remove_checkpoint(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await checkpoints.remove(db, id_)
    return answer(request, {"deleted": True, "job_id": str(id_)})


async def save_legacy(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    body = await dependencies.body(request)
    state = {name: body[name] for name in LEGACY if name in body}
    return answer(request, _checkpoint_body(id_, await checkpoints.save(db, id_, state)))


async def resume_legacy(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    try:
        saved = await checkpoints.get(db, id_)
    except NotFound:
        return answer(request, {"has_checkpoint": False, "job_id": str(id_)})
    state = saved.state if isinstance(saved.state, dict) else {"state": saved.state}
    return answer(request, {"has_checkpoint": True, "job_id": str(id_), "checkpoint": {**checkpoint(saved), **state}})


async def record_steps(request: Request) -> Response:
    """Record finished steps of a handler, all or none: after a response of 200, none of them runs again."""
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    body = await dependencies.body(request, limit=dependencies.RESULT_ROOM)
    worker, fence = dependencies.holder(body), dependencies.required_fence(body)
    steps: list[tuple[str, Any]] = []
    for n, entry in enumerate(dependencies.entries(body, "steps", most=MOST_STEPS)):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or "value" not in entry:
            raise Invalid(f'steps[{n}] must be an object such as {{"name": "pack", "value": 1}}', field=f"steps[{n}]")
        steps.append((entry["name"], entry["value"]))
    recorded = await checkpoints.record_steps(db, id_, steps, worker=worker, fence=fence)
    return answer(request, {"recorded": recorded})


async def append_lines(request: Request) -> Response:
    """Store log lines of handlers. Characters that Postgres cannot store, such as NUL, are replaced: a program may log
    anything. An entry that is not a line is refused individually."""
    body, _mistakes = await dependencies.body_of_many(request, "lines", limit=dependencies.BULK_LIMIT)
    entries, worker = dependencies.entries(body, "lines", most=lines.MOST_LINES), dependencies.holder(body)
    sent: list[SentLine] = []
    refused: list[dict[str, Any]] = []
    for n, entry in enumerate(entries):
        try:
            sent.append(_line(entry, f"lines[{n}]"))
        except Exception as error:  # of any kind: the others are stored
            refused.append({"index": n, "error": entry_error(error)})
    accepted = await lines.append(await dependencies.db(request), sent, worker=worker)
    return answer(request, {"accepted": accepted, "refused": refused})


def _line(entry: Any, place: str) -> SentLine:
    if not isinstance(entry, dict):
        raise Invalid(f"{place} must be an object with job_id, fence, at, level and message", field=place)
    level, message = entry.get("level"), entry.get("message")
    if level not in LEVELS:
        raise Invalid(f"{place}.level must be one of {', '.join(LEVELS)}", field=f"{place}.level")
    if not isinstance(message, str):
        raise Invalid(f"{place}.message must be a string", field=f"{place}.message")
    job = dependencies.as_id(entry.get("job_id"))
    if job is None:
        raise Invalid(f"{place}.job_id must be the id of a job", field=f"{place}.job_id")
    at = times.instant(entry.get("at"), field=f"{place}.at", now=datetime.now(UTC))
    return SentLine(job, dependencies.required_fence(entry, f"{place}."), at, level.upper(), message)


def checkpoint(saved: Checkpoint) -> dict[str, Any]:
    return {"state": saved.state, "sequence": saved.sequence, "created_at": instant(saved.saved_at)}


def _checkpoint_body(job: UUID, saved: Checkpoint) -> dict[str, Any]:
    """Return the checkpoint at the top level and again below `checkpoint`: clients read either."""
    fields = {"job_id": str(job), **checkpoint(saved)}
    return {**fields, "checkpoint": fields}


ROUTES = [
    Route("/jobs/{id}/progress", put_progress, methods=["PUT", "POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/progress", get_progress, methods=["GET"], needs=Scope.READ, labels=True),
    Route("/workers/progress", report_progress, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/steps", record_steps, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/logs", append_lines, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/checkpoint", save_checkpoint, methods=["PUT", "POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/checkpoint", get_checkpoint, methods=["GET"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/checkpoint", remove_checkpoint, methods=["DELETE"], needs=Scope.WORK, labels=True),
    *(
        route
        for prefix in ("", "/ojs/v1")  # a published SDK repeats the prefix
        for route in (
            Route(f"{prefix}/checkpoints/{{id}}", save_legacy, methods=["PUT", "POST"], needs=Scope.WORK, labels=True),
            Route(f"{prefix}/checkpoints/{{id}}", get_checkpoint, methods=["GET"], needs=Scope.WORK, labels=True),
            Route(f"{prefix}/checkpoints/{{id}}", remove_checkpoint, methods=["DELETE"], needs=Scope.WORK, labels=True),
            Route(f"{prefix}/checkpoints/{{id}}/resume", resume_legacy, methods=["GET"], needs=Scope.WORK, labels=True),
        )
    ),
]
