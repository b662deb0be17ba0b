"""Workers: heartbeats, and admin routes that list workers and send them directives."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.orgs import Scope
from windlass.engine.workers import registry, remote
from windlass.engine.workers.registry import WorkerRow
from windlass.errors import Invalid
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import answer, instant
from windlass.web.ojs.routing import Route

STATES = {"running": "running", "quiet": "draining", "terminate": "draining", "drain": "draining",
          "draining": "draining", "terminating": "draining", "stopped": "stopped"}  # fmt: skip
SHOWN = {"running": "running", "draining": "quiet", "stopped": "terminate"}
DIRECTIVES = {"quiet": "quiet", "terminate": "terminate", "resume": None}


async def heartbeat(request: Request) -> Response:
    """Extend the leases of the listed jobs; return the jobs to stop, and the operator's directive."""
    body = await dependencies.body(request)
    worker = dependencies.worker_id(body) or dependencies.required(body, "worker_id")
    state = body.get("state")
    if state is not None:
        _check_state(state)
    listed = dependencies.strings(body, "active_jobs") or dependencies.strings(body, "active_job_ids")
    ids = [id_ for id_ in map(dependencies.as_id, listed) if id_ is not None]
    answered = await remote.heartbeat(
        await dependencies.db(request),
        worker,
        ids,
        lease=dependencies.lease(body),
        state=STATES[state] if state else None,
        host=dependencies.host(request),
    )
    tested = answered.test_directive if dependencies.app(request).settings.test_mode else None
    directive = answered.directive or (tested if tested in ("quiet", "terminate") else None) or "running"
    return answer(
        request,
        {
            "state": directive,
            "directive": "" if directive == "running" else directive,
            "jobs_extended": [str(id_) for id_ in answered.extended],
            "jobs_cancelled": [str(id_) for id_ in answered.stop],
            "server_time": instant(answered.now),
        },
    )


async def beat(request: Request) -> Response:
    """Record a heartbeat with the worker's state, as the graceful-shutdown extension defines it.

    `active_jobs` may be the number of jobs instead of a list of ids.
    """
    body = await dependencies.body(request)
    worker = dependencies.required(body, "worker_id")
    state = body.get("state") or "running"
    _check_state(state)
    active = body.get("active_jobs")
    ids = [id_ for id_ in map(dependencies.as_id, active) if id_ is not None] if isinstance(active, list) else []
    db = await dependencies.db(request)
    answered = await remote.heartbeat(db, worker, ids, state=STATES[state], host=dependencies.host(request))
    return answer(
        request,
        {
            "acknowledged": True,
            "worker_id": worker,
            "state": answered.directive or SHOWN[answered.state],
            "directive": answered.directive or "",
            "jobs_extended": [str(id_) for id_ in answered.extended],
            "server_time": instant(answered.now),
        },
    )


async def health(request: Request) -> Response:
    worker, held = await registry.get(await dependencies.db(request), request.path_params["id"])
    return answer(
        request,
        {
            "worker_id": worker.id,
            "state": "drain" if worker.alive and worker.state == "draining" else _state(worker),
            "healthy": worker.alive,
            "active_jobs": len(held),
            "last_heartbeat_at": instant(worker.seen_at),
        },
    )


def _check_state(state: object) -> None:
    if not isinstance(state, str) or state not in STATES:
        raise Invalid(f"state must be one of {', '.join(STATES)}", field="state")


# For operators


async def list_all(request: Request) -> Response:
    items = [_summary(worker) for worker in await registry.list_(await dependencies.db(request))]
    counts = {state: sum(item["state"] == state for item in items) for state in ("running", "quiet", "stale")}
    summary = {"total": len(items), **counts}
    return answer(request, {**dependencies.numbered_page(request, items), "summary": summary})


async def inspect(request: Request) -> Response:
    worker, held = await registry.get(await dependencies.db(request), request.path_params["id"])
    return answer(request, {**_summary(worker), "jobs": [str(job.id) for job in held]})


async def direct(request: Request) -> Response:
    """Store a directive, which the worker receives with its next heartbeat."""
    id_, directive = request.path_params["id"], request.path_params["directive"]
    if directive not in DIRECTIVES:
        raise Invalid(f"the directive must be one of {', '.join(DIRECTIVES)}", field="directive")
    await registry.direct(await dependencies.db(request), id_, DIRECTIVES[directive])
    return answer(request, {"acknowledged": True, "worker_id": id_, "directive": directive})


async def forget(request: Request) -> Response:
    id_ = request.path_params["id"]
    await registry.forget(await dependencies.db(request), id_)
    return answer(request, {"deleted": True, "worker_id": id_})


def _summary(worker: WorkerRow) -> dict[str, Any]:
    return {
        "id": worker.id,
        "hostname": worker.host,
        "state": _state(worker),
        "queues": worker.queues,
        "concurrency": worker.concurrency,
        "active_jobs": worker.active,
        "started_at": instant(worker.started_at),
        "last_heartbeat_at": instant(worker.seen_at),
    }


def _state(worker: WorkerRow) -> str:
    return SHOWN[worker.state] if worker.alive or worker.state == "stopped" else "stale"


ROUTES = [
    Route("/workers/heartbeat", heartbeat, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/beat", beat, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/{id}/health", health, methods=["GET"], needs=Scope.READ),
    Route("/admin/workers", list_all, methods=["GET"], needs=Scope.READ),
    Route("/admin/workers/{id}", inspect, methods=["GET"], needs=Scope.READ),
    Route("/admin/workers/{id}", forget, methods=["DELETE"], needs=Scope.OPERATE),
    Route("/admin/workers/{id}/{directive}", direct, methods=["POST"], needs=Scope.OPERATE),
]
