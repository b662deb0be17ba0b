"""Checkpoints: what a worker saves of a job while it works, and finds again after a crash."""

from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import Checkpoint
from windlass.errors import NotFound
from windlass.web.ojs import bodies, dependencies
from windlass.web.ojs.errors import INVALID_REQUEST, Refusal
from windlass.web.ojs.responses import answer, instant

LEGACY = ("state", "step_index", "metadata")  # what a published SDK saves, and expects back as it was


async def save(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    body = await bodies.object_(request)
    if "state" not in body:
        raise Refusal(INVALID_REQUEST, "state is missing: send what is to be kept", details={"field": "state"})
    saved = await checkpoints.save(db, id_, body["state"], worker=bodies.text(body, "worker_id"))
    return answer(request, shown(id_, saved))


async def get(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    return answer(request, shown(id_, await checkpoints.get(db, id_)))


async def remove(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await checkpoints.remove(db, id_)
    return answer(request, {"deleted": True, "job_id": str(id_)})


async def save_legacy(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    body = await bodies.object_(request)
    state = {name: body[name] for name in LEGACY if name in body}
    return answer(request, shown(id_, await checkpoints.save(db, id_, state)))


async def resume_legacy(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    try:
        found = await checkpoints.get(db, id_)
    except NotFound:
        return answer(request, {"has_checkpoint": False, "job_id": str(id_)})
    kept = found.state if isinstance(found.state, dict) else {"state": found.state}
    return answer(request, {"has_checkpoint": True, "job_id": str(id_), "checkpoint": {**short(found), **kept}})


def short(found: Checkpoint) -> dict[str, Any]:
    """As it comes with a job that is handed out."""
    return {"state": found.state, "sequence": found.sequence, "created_at": instant(found.saved_at)}


def shown(job: UUID, found: Checkpoint) -> dict[str, Any]:
    """At the top and once more under its name: clients look in either place."""
    told = {"job_id": str(job), **short(found)}
    return {**told, "checkpoint": told}


ROUTES = [
    Route("/jobs/{id}/checkpoint", save, methods=["PUT", "POST"]),
    Route("/jobs/{id}/checkpoint", get, methods=["GET"]),
    Route("/jobs/{id}/checkpoint", remove, methods=["DELETE"]),
    *(
        route
        for prefix in ("", "/ojs/v1")  # the SDK says it twice
        for route in (
            Route(f"{prefix}/checkpoints/{{id}}", save_legacy, methods=["PUT", "POST"]),
            Route(f"{prefix}/checkpoints/{{id}}", get, methods=["GET"]),
            Route(f"{prefix}/checkpoints/{{id}}", remove, methods=["DELETE"]),
            Route(f"{prefix}/checkpoints/{{id}}/resume", resume_legacy, methods=["GET"]),
        )
    ),
]
