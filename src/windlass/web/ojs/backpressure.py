"""Bounds of queues: how many jobs may wait before producers are asked to come back later."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.jobs import queue_limits
from windlass.errors import Invalid
from windlass.web.ojs import bodies, dependencies
from windlass.web.ojs.errors import UNSUPPORTED, Refusal
from windlass.web.ojs.jobs import parse_job
from windlass.web.ojs.responses import answer

STRATEGY = "reject"


async def put(request: Request) -> Response:
    name, body = _name(request), await bodies.object_(request)
    depth = _max_depth(body.get("backpressure"))
    found = await queue_limits.configure(await dependencies.db(request), name, max_depth=depth, config=body)
    (await dependencies.remote_jobs(request)).admission.forget()
    return answer(request, shown(name, found))


async def get(request: Request) -> Response:
    name = _name(request)
    return answer(request, shown(name, await queue_limits.get(await dependencies.db(request), name)))


def shown(name: str, found: queue_limits.Bound) -> dict[str, Any]:
    return {"queue": name, "name": name, "config": found.config, "configuration": found.config, **found.config}


def _max_depth(given_: Any) -> int | None:
    """What is bound, after all of it makes sense."""
    if given_ is None:
        return None
    if not isinstance(given_, dict):
        raise Invalid("backpressure must be an object", field="backpressure")
    strategy, threshold = given_.get("strategy", STRATEGY), given_.get("warning_threshold", 0.8)
    if strategy != STRATEGY:
        told = f"backpressure.strategy is {strategy!r}: this server knows {STRATEGY!r}"
        raise Refusal(UNSUPPORTED, told, details={"field": "backpressure.strategy"})
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise Invalid("backpressure.warning_threshold must lie between 0 and 1", field="backpressure.warning_threshold")
    # 0 means without a bound.
    most = queue_limits.LARGEST
    return bodies.whole(given_, "max_depth", least=0, most=most) or None


def _name(request: Request) -> str:
    return parse_job.queue_name(request.path_params["name"], field="queue")


ROUTES = [
    Route("/admin/queues/{name}/config", put, methods=["PUT"]),
    Route("/admin/queues/{name}/config", get, methods=["GET"]),
]
