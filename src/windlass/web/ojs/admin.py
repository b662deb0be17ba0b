"""Admin routes: statistics, jobs, dead letters, and the reset of test servers.

All admin routes are below /admin, so that a proxy can restrict access to them. Those of queues, workers, schemas and
tenants are in their own modules.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.job import JobState
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.orgs import Scope
from windlass.engine import stats
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters, queues
from windlass.engine.maintenance import reset as reset_database
from windlass.errors import Invalid
from windlass.web.ojs import dependencies, envelope, times
from windlass.web.ojs import jobs as job_routes
from windlass.web.ojs.responses import answer
from windlass.web.ojs.routing import Route

MOST_READ = 1000  # jobs that a list or a bulk operation reads
WAITING = (envelope.AVAILABLE, envelope.SCHEDULED, envelope.RETRYABLE, envelope.PENDING)
LIVE = (*WAITING, envelope.ACTIVE)
ENDED = (envelope.DISCARDED, envelope.CANCELLED)
ROW_STATES = {**{shown: row for row, shown in envelope.STATES.items()}, **dict.fromkeys(WAITING, JobState.PENDING)}
_started = time.monotonic()
_log = logging.getLogger("windlass.test_mode")


async def overview(request: Request) -> Response:
    db = await dependencies.db(request)
    overview, (succeeded, failed) = await stats.overview(db), await queues.ends(db)
    rows = [row for row in overview.queues if row.name != OWN_QUEUE]
    counts = {
        envelope.AVAILABLE: sum(row.due for row in rows),
        envelope.ACTIVE: sum(row.leased for row in rows),
        envelope.SCHEDULED: sum(row.scheduled for row in rows),
        envelope.COMPLETED: overview.ended_jobs.get("succeeded", 0),
        envelope.DISCARDED: overview.ended_jobs.get("failed", 0),
        envelope.CANCELLED: overview.ended_jobs.get("cancelled", 0),
    }
    return answer(
        request,
        {
            "queues": len(rows),
            "workers": sum(worker.alive for worker in overview.workers),
            "jobs": counts,
            "throughput": {"processed_per_minute": succeeded, "failed_per_minute": failed},
            "uptime_seconds": round(time.monotonic() - _started),
        },
    )


async def list_jobs(request: Request) -> Response:
    items = await _matching(await dependencies.db(request), request.query_params)
    return answer(request, dependencies.numbered_page(request, items))


async def get_job(request: Request) -> Response:
    current = await jobs.details(await dependencies.db(request), dependencies.job_id(request))
    return answer(request, envelope.current(current))


async def retry_job(request: Request) -> Response:
    job = await job_routes.reopen(await dependencies.db(request), dependencies.job_id(request))
    return answer(request, {"job": job})


async def retry_many(request: Request) -> Response:
    """Retry failed and cancelled jobs; steps of workflows are skipped, because those are retried as a whole."""
    db, filter_ = await dependencies.db(request), await _confirmed_filter(request)
    ids = [dependencies.known_id(job["id"], "job") for job in await _matching(db, filter_, ENDED)]
    return _bulk_answer(request, "retry", len(ids), len(await jobs.reopen_many(db, ids)))


async def cancel_many(request: Request) -> Response:
    db, filter_ = await dependencies.db(request), await _confirmed_filter(request)
    ids = [dependencies.known_id(job["id"], "job") for job in await _matching(db, filter_, LIVE)]
    return _bulk_answer(request, "cancel", len(ids), len(await jobs.cancel_many(db, ids, reason="cancelled in bulk")))


def _bulk_answer(request: Request, action: str, matched: int, succeeded: int) -> Response:
    counts = {"matched": matched, "succeeded": succeeded, "failed": matched - succeeded}
    return answer(request, {"action": action, **counts})


async def _confirmed_filter(request: Request) -> Mapping[str, Any]:
    """Return the filter of a bulk operation, which must be confirmed."""
    body = await dependencies.body(request, optional=True)
    if body.get("confirm") is not True:
        raise Invalid("confirm must be true: this changes many jobs", field="confirm")
    filter_ = body.get("filter", {})
    if not isinstance(filter_, dict):
        raise Invalid("filter must be an object", field="filter")
    return filter_


async def _matching(
    db: Tenant, filter_: Mapping[str, Any], states: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return the newest jobs that match the filter and, if given, one of `states`."""
    state, type_, queue = (_string(filter_, name) for name in ("state", "type", "queue"))
    if state is not None and (state not in ROW_STATES or (states is not None and state not in states)):
        raise Invalid(f"state must be one of {', '.join(states or ROW_STATES)}", field="state")
    now = await db.now()
    since, until = (_instant(filter_, name, now) for name in ("since", "until"))
    page = await jobs.list_(
        db,
        statuses=sorted({ROW_STATES[shown] for shown in ([state] if state else states or ROW_STATES)}),
        queue=queue,
        type_=_pattern(type_),
        limit=MOST_READ,
    )
    shown = [
        envelope.render(job, now)
        for job in page.jobs
        if job.queue != OWN_QUEUE and (not since or job.created_at >= since) and (not until or job.created_at < until)
    ]
    return [job for job in shown if state in (None, job["state"])]


def _string(filter_: Mapping[str, Any], name: str) -> str | None:
    value = filter_.get(name)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"{name} must be a string", field=name)
    return value


def _instant(filter_: Mapping[str, Any], name: str, now: datetime) -> datetime | None:
    value = _string(filter_, name)
    return None if value is None else times.instant(value, field=name, now=now)


def _pattern(type_: str | None) -> str | None:
    """Return a LIKE pattern; a star at the end matches any suffix."""
    if type_ is None:
        return None
    literal = type_.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return literal[:-1] + "%" if literal.endswith("*") else literal


async def list_dead(request: Request) -> Response:
    queue = request.query_params.get("queue")
    rows, _ = await dead_letters.list_by_queue(await dependencies.db(request), queue=queue, limit=MOST_READ, offset=0)
    return answer(request, dependencies.numbered_page(request, [envelope.render(job, job.updated_at) for job in rows]))


async def get_dead(request: Request) -> Response:
    await dead_letters.check(await dependencies.db(request), dependencies.job_id(request))
    return await get_job(request)


async def count_dead(request: Request) -> Response:
    db = await dependencies.db(request)
    _, total = await dead_letters.list_by_queue(db, queue=None, limit=1, offset=0)
    groups = [
        {"type": group.type, "queue": group.queue, "error": group.error, "count": group.count}
        for group in (await dead_letters.groups(db)).groups
    ]
    return answer(request, {"total": total, "groups": groups})


async def delete_dead(request: Request) -> Response:
    await job_routes.delete_dead(request)
    return Response(status_code=204)


async def reset(request: Request) -> Response:
    """Delete all data, for conformance suites; only with WINDLASS_TEST_MODE=on."""
    if not dependencies.app(request).settings.test_mode:
        raise HTTPException(404, "not found: WINDLASS_TEST_MODE is off")
    _log.warning("test mode: deleting all data")
    await reset_database(await dependencies.db(request))
    (await dependencies.remote_jobs(request)).admission.forget()
    return answer(request, {"reset": True})


ROUTES = [
    Route("/admin/stats", overview, methods=["GET"], needs=Scope.READ),
    Route("/admin/jobs", list_jobs, methods=["GET"], needs=Scope.READ),
    Route("/admin/jobs/bulk/retry", retry_many, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/jobs/bulk/cancel", cancel_many, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/jobs/{id}", get_job, methods=["GET"], needs=Scope.READ),
    Route("/admin/jobs/{id}/cancel", job_routes.cancel, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/jobs/{id}/retry", retry_job, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/dead-letter", list_dead, methods=["GET"], needs=Scope.READ),
    Route("/admin/dead-letter/stats", count_dead, methods=["GET"], needs=Scope.READ),
    Route("/admin/dead-letter/{id}", get_dead, methods=["GET"], needs=Scope.READ),
    Route("/admin/dead-letter/{id}", delete_dead, methods=["DELETE"], needs=Scope.OPERATE),
    Route("/admin/dead-letter/{id}/retry", job_routes.retry_dead, methods=["POST"], needs=Scope.OPERATE),
    Route("/admin/reset", reset, methods=["POST"], needs=Scope.ADMIN, operator=True),
]
