"""Rate limits: how those that jobs came with stand now."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.jobs import rate_limits
from windlass.engine.jobs.rate_limits import Rate
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import answer
from windlass.web.ojs.times import duration

OF_KEYS, OF_QUEUES = "key/", "queue/"  # as `asking_limits` names them


async def get(request: Request) -> Response:
    key = request.path_params["key"]
    stored = key if key.startswith(OF_QUEUES) else OF_KEYS + key
    return answer(request, shown(await rate_limits.get(await dependencies.db(request), stored)))


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    found = await rate_limits.list_(await dependencies.db(request), limit=limit, offset=offset)
    page = {"limit": limit, "offset": offset, "has_more": len(found) == limit}
    return answer(request, {"items": [shown(one) for one in found], "pagination": page})


def shown(found: Rate) -> dict[str, Any]:
    told: dict[str, Any] = {"key": found.key.removeprefix(OF_KEYS), "active": found.active}
    if found.concurrency is not None:
        room = max(0, found.concurrency - found.active)
        told["concurrency"] = {"limit": found.concurrency, "active": found.active, "available": room}
    if found.per_period is not None and found.left is not None:
        left = max(0, int(found.left))
        told["rate"] = {"limit": found.per_period, "period": duration(found.period), "remaining": left}
    return told


ROUTES = [
    Route("/rate-limits", list_, methods=["GET"]),
    Route("/rate-limits/{key:path}", get, methods=["GET"]),
]
