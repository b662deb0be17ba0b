"""What a worker saves of a running job: its progress, and checkpoints from which it can resume after a crash."""

from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.job import fraction_of
from windlass.core.orgs import Scope
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import Checkpoint, Progress
from windlass.errors import Invalid, NotFound
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import answer, instant
from windlass.web.ojs.routing import Route

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
    latest = await checkpoints.record_progress(db, id_, fraction, message, body.get("data"))
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
    saved = await checkpoints.save(db, id_, body["state"], worker=dependencies.string(body, "worker_id"))
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
