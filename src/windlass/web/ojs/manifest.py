"""The manifest: what this server supports; and its health."""

import asyncio
import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass import __version__
from windlass.core.compositions import MAX_LEVELS, MAX_PARTS
from windlass.core.json_value import PAYLOAD_LIMIT, RESULT_LIMIT
from windlass.engine.workers import remote
from windlass.errors import Unavailable
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import PREFIX, VERSION, answer

PATIENCE = 3.0  # seconds in which the database must answer
_started = time.monotonic()
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


async def manifest(request: Request) -> Response:
    return answer(
        request,
        {
            "specversion": VERSION,
            "ojs_version": VERSION,
            "implementation": {
                "name": "windlass",
                "version": __version__,
                "language": "python",
                "homepage": "/docs",
            },
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
                "max_batch_size": 10_000,
                "max_fetch_count": 1000,
                "max_workflow_depth": MAX_LEVELS,
                "max_workflow_jobs": MAX_PARTS,
            },
        },
    )


async def health(request: Request) -> Response:
    started = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE):
            await remote.moment(await dependencies.db(request))
        status = "ok"
    except (TimeoutError, Unavailable):
        status = "degraded"
    backend = {"type": "postgres", "status": status, "latency_ms": round((time.perf_counter() - started) * 1000, 1)}
    uptime = round(time.monotonic() - _started)
    body = {"status": status, "version": VERSION, "uptime_seconds": uptime, "backend": backend}
    return answer(request, body, status=200 if status == "ok" else 503)


ROUTES = [Route("/health", health, methods=["GET"])]
