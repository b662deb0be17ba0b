"""For load balancers, probes and Prometheus: alive, ready, and in numbers."""

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

PATIENCE = 3.0  # seconds the database gets to answer
TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


def routes(app: Windlass, stopping: asyncio.Event) -> APIRouter:
    router = APIRouter(tags=["probes"])

    @router.get("/health", summary="Is the process alive?")
    async def health() -> Response:
        """The process lives; whether it can work is another question."""
        return JSONResponse({"status": "ok"})

    @router.get("/ready", summary="Can it work?")
    async def ready() -> Response:
        """The schema is current and the database takes writes."""
        if stopping.is_set():
            return problems.of(Unavailable("this process is stopping"))
        try:
            async with asyncio.timeout(PATIENCE):
                db = await app.open()
                await maintenance.check_writable(db)
                missing = await maintenance.pending(db)
        except TimeoutError:
            return problems.of(Unavailable(f"the database did not answer within {PATIENCE:g} s"))
        if missing:
            return problems.of(Unavailable(f"the schema is not current, run windlass db migrate: {', '.join(missing)}"))
        return JSONResponse({"status": "ok"})

    @router.get("/metrics", summary="Numbers for Prometheus", responses=TEXT, response_class=Response)
    async def numbers(request: Request) -> Response:
        depths, aside = await _gauges(app)
        metrics.quarantined.clear()
        for kind, count in aside.items():
            metrics.quarantined.labels(kind).set(count)
        metrics.queue_depth.clear()
        for type_, depth in depths.items():
            metrics.queue_depth.labels(type_, "pending").set(depth)
        # A scraper says which version of the format it reads; whoever does not gets the plain type (a rule of OJS).
        media = CONTENT_TYPE_LATEST if "version=" in request.headers.get("accept", "") else "text/plain"
        return Response(generate_latest(metrics.REGISTRY), headers={"content-type": media})

    return router


async def _gauges(app: Windlass) -> tuple[dict[str, int], dict[str, int]]:
    """Due jobs by type, and what is set aside by kind. Without a database the process's own numbers are still given."""
    depths: dict[str, int] = {}
    try:
        async with asyncio.timeout(PATIENCE):
            db = await app.open()
            for _queue, type_, depth in await jobs.depth(db):
                depths[type_] = depths.get(type_, 0) + depth
            return depths, await quarantine.count(db)
    except (TimeoutError, Unavailable):
        return {}, {}
