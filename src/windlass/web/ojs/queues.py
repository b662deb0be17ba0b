"""Queues: what lies in them, and a switch for each."""

from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.job import DEFAULT_QUEUE
from windlass.core.workflows.step_payload import OWN_QUEUE
from windlass.engine.database import Database
from windlass.engine.jobs import queue_limits, queues
from windlass.engine.workers import remote
from windlass.web.ojs import dependencies
from windlass.web.ojs.jobs import parse_job
from windlass.web.ojs.paging import pagination
from windlass.web.ojs.responses import answer, instant

MOST = 1000
HOURLY = ("completed_last_hour", "failed_last_hour")


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    db = await dependencies.db(request)
    found = {each.row.name: each.row for each in (await queues.list_(db, limit=MOST)).queues}
    names = sorted(({DEFAULT_QUEUE} | found.keys()) - {OWN_QUEUE})
    listed: list[dict[str, Any]] = []
    for name in names[offset : offset + limit]:
        row = found.get(name)
        depth = (row.due, row.leased, row.scheduled) if row else (0, 0, 0)
        listed.append({
            "name": name, **_status(bool(row and row.paused)), "available": depth[0], "active": depth[1],
            "scheduled": depth[2], "depth": depth[0] + depth[2],
        })  # fmt: skip
    return answer(request, {"queues": listed, "pagination": pagination(len(listed), len(names), limit, offset)})


async def get(request: Request) -> Response:
    found = await _shown(await dependencies.db(request), _name(request))
    return answer(request, {"queue": found["queue"]})


async def stats(request: Request) -> Response:
    return answer(request, await _shown(await dependencies.db(request), _name(request)))


async def pause(request: Request) -> Response:
    db, name = await dependencies.db(request), _name(request)
    await queues.pause(db, name)
    return await _switched(request, db, name)


async def resume(request: Request) -> Response:
    db, name = await dependencies.db(request), _name(request)
    await queues.resume(db, name)
    return await _switched(request, db, name)


async def _switched(request: Request, db: Database, name: str) -> Response:
    row = (await queues.get(db, name)).row
    at: datetime | None = row.paused_at if row.paused else row.resumed_at
    moment = {"paused_at" if row.paused else "resumed_at": instant(at or await remote.moment(db))}
    return answer(request, {"queue": {"name": name, **_status(row.paused), **moment}, **_status(row.paused), **moment})


async def _shown(db: Database, name: str) -> dict[str, Any]:
    standing, queue = await remote.standing(db, name), await queues.get(db, name)
    counts = {word: count for word, count in standing.items() if word not in HOURLY}
    status = _status(queue.row.paused)
    depth = sum(standing[word] for word in ("available", "scheduled", "retryable"))
    bound = (await queue_limits.get(db, name)).max_depth
    numbers = {word: standing[word] for word in ("available", "active", "scheduled", "retryable", "discarded", *HOURLY)}
    return {
        "queue": {"name": name, **status, **counts, "depth": depth},
        **status,
        "stats": {
            "queue": name,
            "depth": depth,
            **({"max_depth": bound} if bound else {}),
            **numbers,
            "throughput_per_second": round(queue.rate, 3),
        },
        "computed_at": instant(await remote.moment(db)),
    }


def _status(paused: bool) -> dict[str, Any]:
    return {"status": "paused" if paused else "active", "paused": paused}


def _name(request: Request) -> str:
    return parse_job.queue_name(request.path_params["name"], field="queue")


ROUTES = [
    Route("/queues", list_, methods=["GET"]),
    Route("/queues/{name}", get, methods=["GET"]),
    Route("/queues/{name}/stats", stats, methods=["GET"]),
    Route("/queues/{name}/pause", pause, methods=["POST"]),
    Route("/queues/{name}/resume", resume, methods=["POST"]),
]
