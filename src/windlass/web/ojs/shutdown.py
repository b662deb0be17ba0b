"""Workers that go quiet: they say so, or are told with their next heartbeat."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.workers import registry as workers
from windlass.engine.workers import remote
from windlass.engine.workers.registry import WorkerRow
from windlass.web.ojs import bodies, dependencies
from windlass.web.ojs.errors import INVALID_REQUEST, Refusal
from windlass.web.ojs.jobs.workers import STATES
from windlass.web.ojs.responses import answer, instant

SHOWN = {"running": "running", "draining": "quiet", "stopped": "terminate"}
SAID = {"draining": "drain"}  # the worker's own word
SILENT = "stale"


async def beat(request: Request) -> Response:
    """A sign of life in which the worker says in which state it is; the number of its jobs is enough."""
    body = await bodies.object_(request)
    worker = bodies.text(body, "worker_id", required=True)
    assert worker is not None
    state = body.get("state") or "running"
    if not isinstance(state, str) or state not in STATES:
        raise Refusal(INVALID_REQUEST, f"state must be one of {', '.join(STATES)}", details={"field": "state"})
    active = body.get("active_jobs")
    ids = [id_ for id_ in map(dependencies.as_id, active) if id_ is not None] if isinstance(active, list) else []
    host = request.client.host if request.client else ""
    told = await remote.beat(await dependencies.db(request), worker, ids, state=STATES[state], host=host)
    word = told.directive or SHOWN[told.state]
    return answer(
        request,
        {
            "acknowledged": True,
            "worker_id": worker,
            "state": word,
            "directive": told.directive or "",
            "jobs_extended": [str(id_) for id_ in told.extended],
            "server_time": instant(told.now),
        },
    )


async def health(request: Request) -> Response:
    found, held = await workers.get(await dependencies.db(request), request.path_params["id"])
    return answer(
        request,
        {
            "worker_id": found.id,
            "state": SAID.get(found.state, state_of(found)) if found.alive else state_of(found),
            "healthy": found.alive,
            "active_jobs": len(held),
            "last_heartbeat_at": instant(found.seen_at),
        },
    )


def state_of(worker: WorkerRow) -> str:
    return SHOWN[worker.state] if worker.alive or worker.state == "stopped" else SILENT


ROUTES = [
    Route("/workers/beat", beat, methods=["POST"]),
    Route("/workers/{id}/health", health, methods=["GET"]),
]
