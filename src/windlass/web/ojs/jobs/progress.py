"""Progress: how far a job is, as its worker tells."""

from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.job import fraction_of
from windlass.engine.jobs import progress
from windlass.engine.jobs.progress import Progress
from windlass.web.ojs import bodies, dependencies
from windlass.web.ojs.responses import answer, instant


async def put(request: Request) -> Response:
    id_, body = dependencies.job_id(request), await bodies.object_(request)
    return await _say(request, id_, body, fraction_of(body.get("progress")))


async def report(request: Request) -> Response:
    """As the published SDKs say it: a percentage, and the job in the body."""
    body = await bodies.object_(request)
    id_ = dependencies.known_id(bodies.text(body, "job_id", required=True), "job")
    return await _say(request, id_, body, fraction_of(body.get("percentage"), whole=100, field="percentage"))


async def get(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    found = await progress.find(db, id_)
    none: dict[str, Any] = {"job_id": str(id_), "progress": 0.0, "percentage": 0}
    return answer(request, none if found is None else shown(id_, found))


async def _say(request: Request, id_: UUID, body: dict[str, Any], fraction: float) -> Response:
    db = await dependencies.db(request)
    found = await progress.say(db, id_, fraction, bodies.text(body, "message"), body.get("data"))
    return answer(request, {"acknowledged": True, **shown(id_, found)})


def shown(job: UUID, found: Progress) -> dict[str, Any]:
    told: dict[str, Any] = {
        "job_id": str(job),
        "progress": found.fraction,
        "percentage": round(found.fraction * 100),
        "updated_at": instant(found.updated_at),
    }
    return told | {
        name: value for name, value in (("message", found.message), ("data", found.data)) if value is not None
    }


ROUTES = [
    Route("/jobs/{id}/progress", put, methods=["PUT", "POST"]),
    Route("/jobs/{id}/progress", get, methods=["GET"]),
    Route("/workers/progress", report, methods=["POST"]),
]
