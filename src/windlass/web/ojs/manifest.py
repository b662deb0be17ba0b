"""What this server is and can do, and whether its database answers."""

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

PATIENCE = 3.0  # seconds the database gets to answer
_born = time.monotonic()
CAPABILITIES = (
    "batch_enqueue", "cron_jobs", "dead_letter", "delayed_jobs", "job_ttl", "priority_queues", "rate_limiting",
    "schema_validation", "unique_jobs", "workflows", "pause_resume",
)  # fmt: skip
EXTENSIONS = (
    "durable-execution", "progress", "webhooks", "observability", "graceful-shutdown", "backpressure",
    "schema-registry", "rate-limiting", "admin-api", "dead-letter",
)  # fmt: skip
# Labels and fields are kept and filtered by; limits of tenants and routing by version are not there.
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
                "homepage": "/docs",  # of this server
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
    asked = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE):
            await remote.moment(await dependencies.db(request))
        status = "ok"
    except (TimeoutError, Unavailable):
        status = "degraded"
    backend = {"type": "postgres", "status": status, "latency_ms": round((time.perf_counter() - asked) * 1000, 1)}
    found = {
        "status": status,
        "version": VERSION,
        "uptime_seconds": round(time.monotonic() - _born),
        "backend": backend,
    }
    return answer(request, found, status=200 if status == "ok" else 503)


ROUTES = [Route("/health", health, methods=["GET"])]
