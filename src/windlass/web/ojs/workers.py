"""Workers: fetch jobs, report outcomes, send heartbeats; operators list workers and direct them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.job import Failed, Outcome, Released, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode, plain
from windlass.core.orgs import Scope
from windlass.engine.compositions import parent_results
from windlass.engine.compositions.parent_results import Positions
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import Resumption
from windlass.engine.workers import registry, remote
from windlass.engine.workers.registry import WorkerRow
from windlass.engine.workers.remote import Fetch, Job, RemoteReport
from windlass.errors import Invalid
from windlass.web.ojs import dependencies, envelope, parse_job, progress, suspension, times
from windlass.web.ojs.responses import answer, instant
from windlass.web.ojs.routing import Route

MOST = 1000  # jobs per fetch
MOST_QUEUES = 100
MAX_ID = 255
ANONYMOUS = "ojs"  # the lease holder if a worker sends no id
STATES = {"running": "running", "quiet": "draining", "terminate": "draining", "drain": "draining",
          "draining": "draining", "terminating": "draining", "stopped": "stopped"}  # fmt: skip
SHOWN = {"running": "running", "draining": "quiet", "stopped": "terminate"}
DIRECTIVES = {"quiet": "quiet", "terminate": "terminate", "resume": None}
FINAL_CODES = {"DISCARD": False, "FAIL": False, "DEAD_LETTER": True}  # `error.code` -> goes to the dead letters


async def fetch(request: Request) -> Response:
    body = await dependencies.body(request)
    queues = body.get("queues")
    if not isinstance(queues, list) or not 0 < len(queues) <= MOST_QUEUES:
        raise Invalid("queues must be a list of queue names", field="queues")
    wish = Fetch(
        queues=[parse_job.queue_name(queue, field="queues") for queue in dict.fromkeys(queues)],
        count=dependencies.integer(body, "count", least=1, most=MOST, default=1) or 1,
        worker=_worker_id(body) or ANONYMOUS,
        lease=_lease(body),
    )
    db, jobs = await dependencies.db(request), await (await dependencies.remote_jobs(request)).fetch(wish)
    positions = await parent_results.of_jobs(db, [job for job in jobs if job.run_id is not None])
    saved = await checkpoints.of_jobs(db, [job.id for job in jobs]) if jobs else {}
    handed_out, unreadable = [], {}
    for job in jobs:
        try:
            handed_out.append(_handed_out(job, positions, saved))
        except Exception as error:  # of any kind: the worker still gets the other jobs, which are leased to it
            unreadable[job.id] = f"the job cannot be handed out: {type(error).__name__}: {error}"
    if unreadable:
        await remote.set_aside(db, wish.worker, unreadable)
    return answer(request, {"jobs": handed_out})


def _handed_out(job: Job, positions: Positions, saved: Mapping[UUID, Resumption]) -> dict[str, Any]:
    if job.run_id is not None and job.step is not None and (job.run_id, job.step) in positions.errors:
        raise positions.errors[job.run_id, job.step]
    shown = envelope.within(job, envelope.render(job, job.updated_at), positions.by_step)
    if (resumed := saved.get(job.id)) is not None:
        if resumed.checkpoint is not None:
            shown["checkpoint"] = progress.checkpoint(resumed.checkpoint)
        if resumed.wait is not None:
            shown["wait"] = {"payload": resumed.wait.payload, "timed_out": resumed.wait.timed_out}
    return shown


async def ack(request: Request) -> Response:
    body = await dependencies.body(request, limit=dependencies.RESULT_ROOM)
    result = encode(body.get("result"), field="result", limit=RESULT_LIMIT)
    job = await _report(request, body, Succeeded(result))
    shown = envelope.render(job, job.updated_at)
    state = {"state": envelope.COMPLETED, "completed_at": shown["completed_at"]}
    return answer(request, {"acknowledged": True, **_ids(job), **state, "job": shown})


async def nack(request: Request) -> Response:
    body = await dependencies.body(request)
    requeue = body.get("requeue", False)
    if not isinstance(requeue, bool):
        raise Invalid("requeue must be true or false", field="requeue")
    job = await _report(request, body, Released() if requeue else _failure(body.get("error")))
    shown = envelope.render(job, job.updated_at)
    names = ("state", "attempt", "max_attempts", "next_attempt_at", "retry_delay_ms", "discarded_at", "completed_at")
    return answer(request, {**_ids(job), **{name: shown[name] for name in names if name in shown}, "job": shown})


async def suspend(request: Request) -> Response:
    """Put a job back until a time, or until a message arrives, and save its state: no attempt is used up."""
    body = await dependencies.body(request)
    job = await _report(request, body, suspension.outcome(body))
    shown = envelope.render(job, job.updated_at)
    return answer(request, {"suspended": True, **_ids(job), "state": shown["state"], "job": shown})


async def _report(request: Request, body: dict[str, Any], outcome: Outcome) -> Job:
    job_id = dependencies.known_id(request.path_params.get("id") or dependencies.required(body, "job_id"), "job")
    return await (await dependencies.remote_jobs(request)).report(
        RemoteReport(job_id, outcome, worker=_worker_id(body))
    )


def _failure(error: Any) -> Failed:
    """Return the outcome for a reported error. Some codes are commands to the server rather than kinds of errors."""
    if error is None:
        error = {}
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, dict):
        raise Invalid("error must be an object", field="error")
    details = error.get("details")
    kind = details.get("error_class") if isinstance(details, dict) else None
    code = str(error.get("code") or "handler_error")
    document = {
        "type": plain(str(error.get("type") or kind or code)),
        "code": plain(code),
        "message": plain(str(error.get("message") or code)),
        "details": details,
        "retryable": error.get("retryable") if isinstance(error.get("retryable"), bool) else None,
    }
    encode(document, field="error")
    stored = {name: value for name, value in document.items() if value is not None}
    retryable = error.get("retryable") is not False and code not in FINAL_CODES
    return Failed(stored, retryable=retryable, dead_letter=FINAL_CODES.get(code))


async def heartbeat(request: Request) -> Response:
    """Extend the leases of the listed jobs; return the jobs to stop, and the operator's directive."""
    body = await dependencies.body(request)
    worker = _worker_id(body) or dependencies.required(body, "worker_id")
    state = body.get("state")
    if state is not None:
        _check_state(state)
    listed = dependencies.strings(body, "active_jobs") or dependencies.strings(body, "active_job_ids")
    ids = [id_ for id_ in map(dependencies.as_id, listed) if id_ is not None]
    answered = await remote.heartbeat(
        await dependencies.db(request), worker, ids, lease=_lease(body), state=STATES[state] if state else None,
        host=_host(request),
    )  # fmt: skip
    tested = answered.test_directive if dependencies.app(request).settings.test_mode else None
    directive = answered.directive or (tested if tested in ("quiet", "terminate") else None) or "running"
    return answer(
        request,
        {
            "state": directive,
            "directive": "" if directive == "running" else directive,
            "jobs_extended": [str(id_) for id_ in answered.extended],
            "jobs_cancelled": [str(id_) for id_ in answered.stop],
            "server_time": instant(answered.now),
        },
    )


async def beat(request: Request) -> Response:
    """Record a heartbeat with the worker's state, as the graceful-shutdown extension defines it.

    `active_jobs` may be the number of jobs instead of a list of ids.
    """
    body = await dependencies.body(request)
    worker = dependencies.required(body, "worker_id")
    state = body.get("state") or "running"
    _check_state(state)
    active = body.get("active_jobs")
    ids = [id_ for id_ in map(dependencies.as_id, active) if id_ is not None] if isinstance(active, list) else []
    db = await dependencies.db(request)
    answered = await remote.heartbeat(db, worker, ids, state=STATES[state], host=_host(request))
    return answer(
        request,
        {
            "acknowledged": True,
            "worker_id": worker,
            "state": answered.directive or SHOWN[answered.state],
            "directive": answered.directive or "",
            "jobs_extended": [str(id_) for id_ in answered.extended],
            "server_time": instant(answered.now),
        },
    )


async def health(request: Request) -> Response:
    worker, held = await registry.get(await dependencies.db(request), request.path_params["id"])
    return answer(
        request,
        {
            "worker_id": worker.id,
            "state": "drain" if worker.alive and worker.state == "draining" else _state(worker),
            "healthy": worker.alive,
            "active_jobs": len(held),
            "last_heartbeat_at": instant(worker.seen_at),
        },
    )


def _worker_id(body: dict[str, Any]) -> str | None:
    worker = dependencies.string(body, "worker_id")
    if worker is not None and (len(worker) > MAX_ID or not worker.isprintable()):
        raise Invalid(f"worker_id must be a printable string of at most {MAX_ID} characters", field="worker_id")
    return worker


def _check_state(state: object) -> None:
    if not isinstance(state, str) or state not in STATES:
        raise Invalid(f"state must be one of {', '.join(STATES)}", field="state")


def _lease(body: dict[str, Any]) -> timedelta | None:
    value = body.get("visibility_timeout_ms")
    return None if value is None else times.milliseconds(value, field="visibility_timeout_ms")


def _host(request: Request) -> str:
    return request.client.host if request.client else ""


def _ids(job: Job) -> dict[str, str]:
    return {"id": job.client_id, "job_id": job.client_id}


# For operators


async def list_all(request: Request) -> Response:
    items = [_summary(worker) for worker in await registry.list_(await dependencies.db(request))]
    counts = {state: sum(item["state"] == state for item in items) for state in ("running", "quiet", "stale")}
    summary = {"total": len(items), **counts}
    return answer(request, {**dependencies.numbered_page(request, items), "summary": summary})


async def inspect(request: Request) -> Response:
    worker, held = await registry.get(await dependencies.db(request), request.path_params["id"])
    return answer(request, {**_summary(worker), "jobs": [str(job.id) for job in held]})


async def direct(request: Request) -> Response:
    """Store a directive, which the worker receives with its next heartbeat."""
    id_, directive = request.path_params["id"], request.path_params["directive"]
    if directive not in DIRECTIVES:
        raise Invalid(f"the directive must be one of {', '.join(DIRECTIVES)}", field="directive")
    await registry.direct(await dependencies.db(request), id_, DIRECTIVES[directive])
    return answer(request, {"acknowledged": True, "worker_id": id_, "directive": directive})


async def forget(request: Request) -> Response:
    id_ = request.path_params["id"]
    await registry.forget(await dependencies.db(request), id_)
    return answer(request, {"deleted": True, "worker_id": id_})


def _summary(worker: WorkerRow) -> dict[str, Any]:
    return {
        "id": worker.id,
        "hostname": worker.host,
        "state": _state(worker),
        "queues": worker.queues,
        "concurrency": worker.concurrency,
        "active_jobs": worker.active,
        "started_at": instant(worker.started_at),
        "last_heartbeat_at": instant(worker.seen_at),
    }


def _state(worker: WorkerRow) -> str:
    return SHOWN[worker.state] if worker.alive or worker.state == "stopped" else "stale"


ROUTES = [
    Route("/workers/fetch", fetch, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/ack", ack, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/nack", nack, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/suspend", suspend, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/ack", ack, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/nack", nack, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/heartbeat", heartbeat, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/beat", beat, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/{id}/health", health, methods=["GET"], needs=Scope.READ),
    Route("/admin/workers", list_all, methods=["GET"], needs=Scope.READ),
    Route("/admin/workers/{id}", inspect, methods=["GET"], needs=Scope.READ),
    Route("/admin/workers/{id}", forget, methods=["DELETE"], needs=Scope.OPERATE),
    Route("/admin/workers/{id}/{directive}", direct, methods=["POST"], needs=Scope.OPERATE),
]
