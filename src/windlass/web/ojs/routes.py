"""Builds the application for /ojs/: the manifest, the health check, the routes of all resources, and error handlers."""

import asyncio
import functools
import time
from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as RequestScope

from windlass import __version__
from windlass.app import Windlass
from windlass.core.compositions import MAX_LEVELS, MAX_PARTS
from windlass.core.json_value import PAYLOAD_LIMIT, RESULT_LIMIT
from windlass.core.orgs import Scope
from windlass.errors import Unavailable, WindlassError
from windlass.runtime.waiting import WaitingFetches
from windlass.schemas.common import CREATE_LIMIT
from windlass.web.ojs import (
    admin,
    admission,
    cron,
    dependencies,
    events,
    fetching,
    jobs,
    progress,
    queues,
    reports,
    responses,
    schemas,
    workers,
    workflows,
)
from windlass.web.ojs.responses import PREFIX, VERSION, answer
from windlass.web.ojs.routing import Route

PATIENCE = 3.0  # seconds in which the database must answer
CAPABILITIES = (
    "batch_enqueue", "cron_jobs", "dead_letter", "delayed_jobs", "job_ttl", "priority_queues", "rate_limiting",
    "schema_validation", "unique_jobs", "workflows", "pause_resume",
)  # fmt: skip
EXTENSIONS = (
    "durable-execution", "progress", "webhooks", "observability", "graceful-shutdown", "backpressure",
    "schema-registry", "rate-limiting", "admin-api", "dead-letter",
)  # fmt: skip
# Tenants are labels to filter by, without limits of their own; versions are stored, without routing by version.
PARTLY = ("multi-tenancy", "job-versioning")
ENDPOINTS = ("jobs", "workers", "queues", "dead-letter", "cron", "workflows", "events", "health")
_started = time.monotonic()


def build(app: Windlass) -> ASGIApp:
    ojs = Starlette(
        routes=[Mount(PREFIX, routes=ROUTES), MANIFEST],
        exception_handlers={
            responses.Refusal: responses.on_refusal,
            WindlassError: responses.on_windlass_error,
            HTTPException: responses.on_http_exception,
            Exception: responses.on_defect,
        },
    )
    ojs.state.windlass = app
    ojs.state.tenants, ojs.state.remote_jobs, ojs.state.admissions = {}, {}, {}
    ojs.state.waiting_fetches = WaitingFetches()
    return RequestChecks(ojs)


def refusal(scope: RequestScope, status: int, message: str) -> Response:
    """Return a rejection of the guard as an error of the spec."""
    return responses.error(Request(scope), responses.BY_STATUS.get(status, responses.INVALID_REQUEST), message)


class RequestChecks:
    """Refuses requests of another version of the spec, and URLs with U+0000, which Postgres cannot store, before a
    handler is called."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: RequestScope, receive: Receive, send: Send) -> None:
        version = _version(scope) if scope["type"] == "http" else VERSION
        if version.partition(".")[0] != VERSION.partition(".")[0]:
            message = f"OJS-Version is {version[:20]!a}: this server supports {VERSION}"
            await responses.error(Request(scope), responses.UNSUPPORTED, message)(scope, receive, send)
        elif scope["type"] == "http" and ("\0" in scope["path"] or b"%00" in scope["query_string"]):
            message = "the URL contains the character U+0000 (%00), which cannot be stored"
            await responses.error(Request(scope), responses.INVALID_REQUEST, message)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@functools.lru_cache(maxsize=64)
def _read(raw: bytes) -> str:
    return raw.decode("latin-1").strip()


def _version(scope: RequestScope) -> str:
    return next((_read(value) for name, value in scope["headers"] if name == b"ojs-version"), VERSION)


async def manifest(request: Request) -> Response:
    return answer(
        request,
        {
            "specversion": VERSION,
            "ojs_version": VERSION,
            "implementation": {"name": "windlass", "version": __version__, "language": "python", "homepage": "/docs"},
            "conformance_level": 4,
            "protocols": ["http"],
            "backend": "postgres",
            "capabilities": dict.fromkeys(CAPABILITIES, True),
            "extensions": [f"urn:ojs:ext:{name}" for name in EXTENSIONS],
            "partial_extensions": [f"urn:ojs:ext:{name}" for name in PARTLY],
            "unique_jobs": {"strength": "strong"},
            "endpoints": {"manifest": "/ojs/manifest", **{name: f"{PREFIX}/{name}" for name in ENDPOINTS}},
            "limits": {
                "max_payload_bytes": PAYLOAD_LIMIT,
                "max_meta_bytes": 65_536,
                "max_result_bytes": RESULT_LIMIT,
                "max_batch_size": CREATE_LIMIT,
                "max_fetch_count": fetching.MOST,
                "max_report_count": reports.MOST,
                "max_workflow_depth": MAX_LEVELS,
                "max_workflow_jobs": MAX_PARTS,
            },
        },
    )


async def health(request: Request) -> Response:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE):
            await (await dependencies.db(request)).now()
        status = "ok"
    except (TimeoutError, Unavailable):
        status = "degraded"
    backend = {"type": "postgres", "status": status, "latency_ms": round((time.perf_counter() - started) * 1000, 1)}
    uptime = round(time.monotonic() - _started)
    body = {"status": status, "version": VERSION, "uptime_seconds": uptime, "backend": backend}
    return answer(request, body, status=200 if status == "ok" else 503)


MANIFEST = Route("/ojs/manifest", manifest, methods=["GET"], needs=Scope.READ, labels=True)
# Starlette matches routes in order: those that are called most come first.
ROUTES: Sequence[Route] = (
    *fetching.ROUTES,
    *reports.ROUTES,
    *workers.ROUTES,
    *jobs.ROUTES,
    Route("/health", health, methods=["GET"], needs=Scope.READ, labels=True),
    *workflows.ROUTES,
    *queues.ROUTES,
    *cron.ROUTES,
    *events.ROUTES,
    *progress.ROUTES,
    *schemas.ROUTES,
    *admission.ROUTES,
    *admin.ROUTES,
)
