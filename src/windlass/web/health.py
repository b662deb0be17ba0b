"""Routes for load balancers, probes and Prometheus."""

import asyncio
from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from windlass.app import Windlass
from windlass.engine import maintenance, quarantine
from windlass.engine.jobs import control as jobs
from windlass.errors import Unavailable
from windlass.runtime import metrics
from windlass.web import problems
from windlass.web.api.shared import Governed

PATIENCE = 3.0  # seconds in which the database must answer
TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
router = APIRouter(tags=["probes"])


@router.get("/health", summary="Check that the process is alive")
async def health() -> Response:
    """Return 200 while the process is alive, whatever the state of the database."""
    return JSONResponse({"status": "ok"})


@router.get("/ready", summary="Check that the server is ready")
async def ready(request: Request) -> Response:
    """Return 200 if the schema is current and the database accepts writes, else 503."""
    if request.app.state.stopping.is_set():
        return problems.of(Unavailable("this process is stopping"))
    try:
        async with asyncio.timeout(PATIENCE):
            db = await request.app.state.windlass.open()
            await maintenance.check_writable(db)
            missing = await maintenance.pending(db)
    except TimeoutError:
        return problems.of(Unavailable(f"the database did not answer within {PATIENCE:g} s"))
    if missing:
        return problems.of(Unavailable(f"the schema is not current, run windlass db migrate: {', '.join(missing)}"))
    return JSONResponse({"status": "ok"})


@router.get("/metrics", summary="Get metrics for Prometheus", responses=TEXT, response_class=Response)
async def numbers(_: Governed, request: Request) -> Response:
    """Return the metrics of all orgs. Only for the operator."""
    depths, quarantined = await _gauges(request.app.state.windlass)
    metrics.quarantined.clear()
    for kind, count in quarantined.items():
        metrics.quarantined.labels(kind).set(count)
    metrics.queue_depth.clear()
    for type_, depth in depths.items():
        metrics.queue_depth.labels(type_, "pending").set(depth)
    # OJS requires the plain media type unless Accept names a version.
    media = CONTENT_TYPE_LATEST if "version=" in request.headers.get("accept", "") else "text/plain"
    return Response(generate_latest(metrics.REGISTRY), headers={"content-type": media})


async def _gauges(app: Windlass) -> tuple[dict[str, int], dict[str, int]]:
    """Return due jobs by type and quarantined objects by kind; both empty if the database is unavailable."""
    depths: dict[str, int] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            db = await app.open()
            for _queue, type_, depth in await jobs.depth(db):
                depths[type_] = depths.get(type_, 0) + depth
            return depths, await quarantine.count(db)
    except (TimeoutError, Unavailable):
        return {}, {}
