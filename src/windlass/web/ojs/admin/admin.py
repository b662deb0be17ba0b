"""For operators: how things stand, and workers. All of it is under /admin, so that a proxy can guard it."""

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.workflows.step_payload import OWN_QUEUE
from windlass.engine import stats
from windlass.engine.jobs import queue_limits, queues
from windlass.engine.jobs.queues import Queue
from windlass.engine.workers import registry as workers
from windlass.engine.workers import remote
from windlass.engine.workers.registry import WorkerRow
from windlass.web.ojs import dependencies, vocabulary
from windlass.web.ojs import queues as face
from windlass.web.ojs.admin.paging import sliced
from windlass.web.ojs.errors import INVALID_REQUEST, Refusal
from windlass.web.ojs.jobs import parse_job
from windlass.web.ojs.responses import answer, instant
from windlass.web.ojs.shutdown import state_of

MOST = 1000  # queues
DIRECTIVES = {"quiet": "quiet", "terminate": "terminate", "resume": None}
_born = time.monotonic()


async def overview(request: Request) -> Response:
    db = await dependencies.db(request)
    found, (succeeded, failed) = await stats.overview(db), await queues.ends(db)
    rows = [row for row in found.queues if row.name != OWN_QUEUE]
    counts = {
        vocabulary.AVAILABLE: sum(row.due for row in rows),
        vocabulary.ACTIVE: sum(row.leased for row in rows),
        vocabulary.SCHEDULED: sum(row.scheduled for row in rows),
        vocabulary.COMPLETED: found.ended_jobs.get("succeeded", 0),
        vocabulary.DISCARDED: found.ended_jobs.get("failed", 0),
        vocabulary.CANCELLED: found.ended_jobs.get("cancelled", 0),
    }
    told = {
        "queues": len(rows),
        "workers": sum(worker.alive for worker in found.workers),
        "jobs": counts,
        "throughput": {"processed_per_minute": succeeded, "failed_per_minute": failed},
        "uptime_seconds": round(time.monotonic() - _born),
    }
    return answer(request, told)


async def list_queues(request: Request) -> Response:
    found = (await queues.list_(await dependencies.db(request), limit=MOST)).queues
    return answer(request, sliced(request, [_queue(queue) for queue in found if queue.row.name != OWN_QUEUE]))


async def get_queue(request: Request) -> Response:
    db, name = await dependencies.db(request), parse_job.queue_name(request.path_params["name"], field="queue")
    found, counts = await queues.get(db, name), await remote.standing(db, name)
    config = (await queue_limits.get(db, name)).config
    return answer(request, {**_queue(found), "counts": counts, "configuration": config})


async def list_workers(request: Request) -> Response:
    items = [_worker(worker) for worker in await workers.list_(await dependencies.db(request))]
    summary = {word: sum(item["state"] == word for item in items) for word in ("running", "quiet", "stale")}
    return answer(request, {**sliced(request, items), "summary": {"total": len(items), **summary}})


async def get_worker(request: Request) -> Response:
    found, held = await workers.get(await dependencies.db(request), request.path_params["id"])
    return answer(request, {**_worker(found), "jobs": [str(job.id) for job in held]})


async def direct_worker(request: Request) -> Response:
    """It hears of it with its next heartbeat."""
    id_, word = request.path_params["id"], request.path_params["directive"]
    if word not in DIRECTIVES:
        told = f"a worker is told one of {', '.join(DIRECTIVES)}"
        raise Refusal(INVALID_REQUEST, told, details={"field": "directive"})
    await workers.direct(await dependencies.db(request), id_, DIRECTIVES[word])
    return answer(request, {"acknowledged": True, "worker_id": id_, "directive": word})


async def forget_worker(request: Request) -> Response:
    id_ = request.path_params["id"]
    await workers.forget(await dependencies.db(request), id_)
    return answer(request, {"deleted": True, "worker_id": id_})


def _queue(queue: Queue) -> dict[str, Any]:
    row = queue.row
    told: dict[str, Any] = {
        "name": row.name,
        "state": "paused" if row.paused else "active",
        "paused": row.paused,
        "counts": {vocabulary.AVAILABLE: row.due, vocabulary.ACTIVE: row.leased, vocabulary.SCHEDULED: row.scheduled},
        "throughput": {"processed_per_minute": round(queue.rate * 60, 1)},
    }
    return told | ({"oldest_available_seconds": round(row.oldest.total_seconds(), 3)} if row.oldest else {})


def _worker(worker: WorkerRow) -> dict[str, Any]:
    return {
        "id": worker.id,
        "hostname": worker.host,
        "state": state_of(worker),
        "queues": worker.queues,
        "concurrency": worker.concurrency,
        "active_jobs": worker.active,
        "started_at": instant(worker.started_at),
        "last_heartbeat_at": instant(worker.seen_at),
    }


ROUTES = [
    Route("/admin/stats", overview, methods=["GET"]),
    Route("/admin/queues", list_queues, methods=["GET"]),
    Route("/admin/queues/{name}", get_queue, methods=["GET"]),
    Route("/admin/queues/{name}/pause", face.pause, methods=["POST"]),
    Route("/admin/queues/{name}/resume", face.resume, methods=["POST"]),
    Route("/admin/workers", list_workers, methods=["GET"]),
    Route("/admin/workers/{id}", get_worker, methods=["GET"]),
    Route("/admin/workers/{id}", forget_worker, methods=["DELETE"]),
    Route("/admin/workers/{id}/{directive}", direct_worker, methods=["POST"]),
]
