"""Queues: counts, pausing and depth limits; and the current state of rate limits."""

from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.job import DEFAULT_QUEUE
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.orgs import Scope
from windlass.engine.database import Tenant
from windlass.engine.jobs import queues
from windlass.engine.jobs.queues import Queue, RateLimit
from windlass.errors import Invalid
from windlass.schemas.common import PAGE_LIMIT
from windlass.web.ojs import dependencies, envelope, parse_job, times
from windlass.web.ojs.parse_job import QUEUE_RATE, RATE_KEY
from windlass.web.ojs.responses import UNSUPPORTED, Refusal, answer, instant, pagination
from windlass.web.ojs.routing import Route

HOURLY = ("completed_last_hour", "failed_last_hour")
STRATEGY = "reject"


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    db = await dependencies.db(request)
    rows = {queue.row.name: queue.row for queue in (await queues.list_(db, limit=PAGE_LIMIT)).queues}
    names = sorted(({DEFAULT_QUEUE} | rows.keys()) - {OWN_QUEUE})
    listed: list[dict[str, Any]] = []
    for name in names[offset : offset + limit]:
        row = rows.get(name)
        due, leased, scheduled = (row.due, row.leased, row.scheduled) if row else (0, 0, 0)
        counts = {"available": due, "active": leased, "scheduled": scheduled, "depth": due + scheduled}
        listed.append({"name": name, **_status(bool(row and row.paused)), **counts})
    return answer(request, {"queues": listed, "pagination": pagination(len(listed), len(names), limit, offset)})


async def get(request: Request) -> Response:
    return answer(request, {"queue": (await _shown(request))["queue"]})


async def stats(request: Request) -> Response:
    return answer(request, await _shown(request))


async def pause(request: Request) -> Response:
    db, name = await dependencies.db(request), _name(request)
    await queues.pause(db, name)
    return await _switched(request, db, name)


async def resume(request: Request) -> Response:
    db, name = await dependencies.db(request), _name(request)
    await queues.resume(db, name)
    return await _switched(request, db, name)


async def _switched(request: Request, db: Tenant, name: str) -> Response:
    row = (await queues.get(db, name)).row
    at: datetime | None = row.paused_at if row.paused else row.resumed_at
    moment = {"paused_at" if row.paused else "resumed_at": instant(at or await db.now())}
    return answer(request, {"queue": {"name": name, **_status(row.paused), **moment}, **_status(row.paused), **moment})


async def _shown(request: Request) -> dict[str, Any]:
    db, name = await dependencies.db(request), _name(request)
    counts, queue = await queues.state_counts(db, name), await queues.get(db, name)
    status = _status(queue.row.paused)
    depth = sum(counts[state] for state in ("available", "scheduled", "retryable"))
    max_depth = (await queues.depth_limit(db, name)).max_depth
    numbers = {
        state: counts[state] for state in ("available", "active", "scheduled", "retryable", "discarded", *HOURLY)
    }
    return {
        "queue": {"name": name, **status, **{k: n for k, n in counts.items() if k not in HOURLY}, "depth": depth},
        **status,
        "stats": {
            "queue": name,
            "depth": depth,
            **({"max_depth": max_depth} if max_depth else {}),
            **numbers,
            "throughput_per_second": round(queue.rate, 3),
        },
        "computed_at": instant(await db.now()),
    }


def _status(paused: bool) -> dict[str, Any]:
    return {"status": "paused" if paused else "active", "paused": paused}


def _name(request: Request) -> str:
    return parse_job.queue_name(request.path_params["name"], field="queue")


# Limits


async def put_config(request: Request) -> Response:
    name, config = _name(request), await dependencies.body(request)
    max_depth = _max_depth(config.get("backpressure"))
    limit = await queues.set_depth_limit(await dependencies.db(request), name, max_depth=max_depth, config=config)
    (await dependencies.remote_jobs(request)).admission.forget()
    return answer(request, _configuration(name, limit))


async def get_config(request: Request) -> Response:
    name = _name(request)
    return answer(request, _configuration(name, await queues.depth_limit(await dependencies.db(request), name)))


def _configuration(name: str, limit: queues.DepthLimit) -> dict[str, Any]:
    return {"queue": name, "name": name, "config": limit.config, "configuration": limit.config, **limit.config}


def _max_depth(backpressure: Any) -> int | None:
    """Check a backpressure configuration and return its limit; None if there is none."""
    if backpressure is None:
        return None
    if not isinstance(backpressure, dict):
        raise Invalid("backpressure must be an object", field="backpressure")
    strategy, threshold = backpressure.get("strategy", STRATEGY), backpressure.get("warning_threshold", 0.8)
    if strategy != STRATEGY:
        message = f"backpressure.strategy is {strategy!r}: this server supports {STRATEGY!r}"
        raise Refusal(UNSUPPORTED, message, details={"field": "backpressure.strategy"})
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise Invalid("backpressure.warning_threshold must be from 0 to 1", field="backpressure.warning_threshold")
    # 0 means no limit.
    return dependencies.integer(backpressure, "max_depth", least=0, most=queues.MAX_DEPTH) or None


# For operators


async def list_all(request: Request) -> Response:
    listed = (await queues.list_(await dependencies.db(request), limit=PAGE_LIMIT)).queues
    items = [_summary(queue) for queue in listed if queue.row.name != OWN_QUEUE]
    return answer(request, dependencies.numbered_page(request, items))


async def inspect(request: Request) -> Response:
    db, name = await dependencies.db(request), _name(request)
    queue, counts = await queues.get(db, name), await queues.state_counts(db, name)
    config = (await queues.depth_limit(db, name)).config
    return answer(request, {**_summary(queue), "counts": counts, "configuration": config})


def _summary(queue: Queue) -> dict[str, Any]:
    row = queue.row
    summary: dict[str, Any] = {
        "name": row.name,
        "state": "paused" if row.paused else "active",
        "paused": row.paused,
        "counts": {envelope.AVAILABLE: row.due, envelope.ACTIVE: row.leased, envelope.SCHEDULED: row.scheduled},
        "throughput": {"processed_per_minute": round(queue.rate * 60, 1)},
    }
    return summary | ({"oldest_available_seconds": round(row.oldest.total_seconds(), 3)} if row.oldest else {})


# Rate limits


async def get_rate_limit(request: Request) -> Response:
    key = request.path_params["key"]
    stored = key if key.startswith(QUEUE_RATE) else RATE_KEY + key
    return answer(request, _rate_limit(await queues.rate_limit(await dependencies.db(request), stored)))


async def list_rate_limits(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    rates = await queues.rate_limits(await dependencies.db(request), limit=limit, offset=offset)
    page = {"limit": limit, "offset": offset, "has_more": len(rates) == limit}
    return answer(request, {"items": [_rate_limit(rate) for rate in rates], "pagination": page})


def _rate_limit(rate: RateLimit) -> dict[str, Any]:
    state: dict[str, Any] = {"key": rate.key.removeprefix(RATE_KEY), "active": rate.active}
    if rate.concurrency is not None:
        available = max(0, rate.concurrency - rate.active)
        state["concurrency"] = {"limit": rate.concurrency, "active": rate.active, "available": available}
    if rate.per_period is not None and rate.left is not None:
        remaining = max(0, int(rate.left))
        state["rate"] = {"limit": rate.per_period, "period": times.duration(rate.period), "remaining": remaining}
    return state


ROUTES = [
    Route("/queues", list_, methods=["GET"], needs=Scope.READ),
    Route("/queues/{name}", get, methods=["GET"], needs=Scope.READ),
    Route("/queues/{name}/stats", stats, methods=["GET"], needs=Scope.READ),
    Route("/queues/{name}/pause", pause, methods=["POST"], needs=Scope.OPERATE),
    Route("/queues/{name}/resume", resume, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/queues", list_all, methods=["GET"], needs=Scope.READ),
    Route("/admin/queues/{name}", inspect, methods=["GET"], needs=Scope.READ),
    Route("/admin/queues/{name}/pause", pause, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/queues/{name}/resume", resume, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/queues/{name}/config", put_config, methods=["PUT"], needs=Scope.OPERATE),
    Route("/admin/queues/{name}/config", get_config, methods=["GET"], needs=Scope.READ),
    Route("/rate-limits", list_rate_limits, methods=["GET"], needs=Scope.READ),
    Route("/rate-limits/{key:path}", get_rate_limit, methods=["GET"], needs=Scope.READ),
]
