"""The worker protocol: fetch, report success or failure, show a sign of life."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.job import Failed, Outcome, Released, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode, plain
from windlass.engine.compositions import parent_results
from windlass.engine.compositions.parent_results import Standings
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import Checkpoint
from windlass.engine.workers import remote
from windlass.engine.workers.remote import Job, Wish
from windlass.engine.workers.remote_reports import Told
from windlass.errors import Invalid
from windlass.web.ojs import bodies, dependencies, tenants, times, vocabulary
from windlass.web.ojs.errors import INVALID_REQUEST, Refusal
from windlass.web.ojs.jobs import envelope, parse_job
from windlass.web.ojs.jobs.checkpoints import short
from windlass.web.ojs.responses import answer, instant
from windlass.web.ojs.workflows import render_workflow

MOST = 1000  # jobs a fetch
MOST_QUEUES = 100
MAX_ID = 255
NOBODY = "ojs"  # the holder, where a worker does not say who it is
STATES = {"running": "running", "quiet": "draining", "terminate": "draining", "drain": "draining",
          "draining": "draining", "terminating": "draining", "stopped": "stopped"}  # fmt: skip
FINAL_CODES = {"DISCARD": False, "FAIL": False, "DEAD_LETTER": True}  # what a handler says in `error.code`


async def fetch(request: Request) -> Response:
    body = await bodies.object_(request)
    queues = body.get("queues")
    if not isinstance(queues, list) or not 0 < len(queues) <= MOST_QUEUES:
        raise Refusal(INVALID_REQUEST, "queues must be a list of queue names", details={"field": "queues"})
    names = [parse_job.queue_name(queue, field="queues") for queue in dict.fromkeys(queues)]
    wish = Wish(
        queues=names,
        count=bodies.whole(body, "count", least=1, most=MOST, default=1) or 1,
        worker=_worker(body) or NOBODY,
        lease=_lease(body),
        tenant=tenants.named(request),
    )
    db, jobs = await dependencies.db(request), await (await dependencies.remote_jobs(request)).fetch(wish)
    standings = await parent_results.of_jobs(db, [job for job in jobs if job.run_id is not None])
    saved = await checkpoints.of_jobs(db, [job.id for job in jobs]) if jobs else {}
    handed_out, unreadable = [], {}
    for job in jobs:
        try:
            handed_out.append(_handed_out(job, standings, saved))
        except Exception as error:  # of any kind: the worker still gets the other jobs, which are leased to it
            unreadable[job.id] = f"the job cannot be handed out: {type(error).__name__}: {error}"
    if unreadable:
        await remote.set_aside(db, wish.worker, unreadable)
    return answer(request, {"jobs": handed_out})


async def ack(request: Request) -> Response:
    body = await bodies.object_(request, limit=bodies.RESULT_ROOM)
    result = encode(body.get("result"), field="result", limit=RESULT_LIMIT)
    job = await _report(request, body, Succeeded(result))
    ended = envelope.shown(job, job.updated_at)
    told = {"acknowledged": True, **_named(job), "state": vocabulary.COMPLETED, "completed_at": ended["completed_at"]}
    return answer(request, {**told, "job": ended})


async def nack(request: Request) -> Response:
    body = await bodies.object_(request)
    requeue = body.get("requeue", False)
    if not isinstance(requeue, bool):
        raise Refusal(INVALID_REQUEST, "requeue must be true or false", details={"field": "requeue"})
    job = await _report(request, body, Released() if requeue else _failure(body.get("error")))
    shown = envelope.shown(job, job.updated_at)
    # As the worker counts: the attempt that it reports on.
    names = ("state", "attempt", "max_attempts", "next_attempt_at", "retry_delay_ms", "discarded_at", "completed_at")
    return answer(request, {**_named(job), **{name: shown[name] for name in names if name in shown}, "job": shown})


async def heartbeat(request: Request) -> Response:
    body = await bodies.object_(request)
    worker = _worker(body)
    if worker is None:
        raise Refusal(INVALID_REQUEST, "worker_id must be a text", details={"field": "worker_id"})
    state = body.get("state")
    if state is not None and (not isinstance(state, str) or state not in STATES):
        raise Refusal(INVALID_REQUEST, f"state must be one of {', '.join(STATES)}", details={"field": "state"})
    listed = bodies.texts(body, "active_jobs") or bodies.texts(body, "active_job_ids")
    ids = [id_ for id_ in map(dependencies.as_id, listed) if id_ is not None]
    told = await remote.beat(
        await dependencies.db(request), worker, ids, lease=_lease(body), state=STATES[state] if state else None,
        host=request.client.host if request.client else "",
    )  # fmt: skip
    tested = told.test_directive if dependencies.app(request).settings.test_mode else None
    word = told.directive or (tested if tested in ("quiet", "terminate") else None) or "running"
    return answer(
        request,
        {
            "state": word,
            "directive": "" if word == "running" else word,
            "jobs_extended": [str(id_) for id_ in told.extended],
            "jobs_cancelled": [str(id_) for id_ in told.stop],
            "server_time": instant(told.now),
        },
    )


def _handed_out(job: Job, standings: Standings, saved: Mapping[UUID, Checkpoint]) -> dict[str, Any]:
    if job.run_id is not None and job.step is not None and (job.run_id, job.step) in standings.errors:
        raise standings.errors[job.run_id, job.step]
    found = render_workflow.handed_out(job, standings.found)
    return {**found, "checkpoint": short(saved[job.id])} if job.id in saved else found


async def _report(request: Request, body: dict[str, Any], outcome: Outcome) -> Job:
    named = request.path_params.get("id") or bodies.text(body, "job_id", required=True)
    job_id = dependencies.known_id(named, "job")
    return await (await dependencies.remote_jobs(request)).report(Told(job_id, outcome, worker=_worker(body)))


def _failure(error: Any) -> Failed:
    """What a worker says went wrong. Some codes are words to the server rather than kinds of errors."""
    if error is None:
        error = {}
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, dict):
        raise Refusal(INVALID_REQUEST, "error must be an object", details={"field": "error"})
    details = error.get("details")
    kind = details.get("error_class") if isinstance(details, dict) else None
    code = str(error.get("code") or "handler_error")
    told = {
        "type": plain(str(error.get("type") or kind or code)),
        "code": plain(code),
        "message": plain(str(error.get("message") or code)),
        "details": details,
        "retryable": error.get("retryable") if isinstance(error.get("retryable"), bool) else None,
    }
    encode(told, field="error")
    kept = {name: value for name, value in told.items() if value is not None}
    return Failed(kept, retryable=error.get("retryable") is not False and code not in FINAL_CODES,
                  dead_letter=FINAL_CODES.get(code))  # fmt: skip


def _worker(body: dict[str, Any]) -> str | None:
    worker = bodies.text(body, "worker_id")
    if worker is not None and (len(worker) > MAX_ID or not worker.isprintable()):
        raise Invalid(f"worker_id must be a printable text of at most {MAX_ID} characters", field="worker_id")
    return worker


def _lease(body: dict[str, Any]) -> timedelta | None:
    value = body.get("visibility_timeout_ms")
    return None if value is None else times.milliseconds(value, field="visibility_timeout_ms")


def _named(job: Job) -> dict[str, str]:
    return {"id": job.client_id, "job_id": job.client_id}


ROUTES = [
    Route("/workers/fetch", fetch, methods=["POST"]),
    Route("/workers/ack", ack, methods=["POST"]),
    Route("/workers/nack", nack, methods=["POST"]),
    Route("/jobs/{id}/ack", ack, methods=["POST"]),
    Route("/jobs/{id}/nack", nack, methods=["POST"]),
    Route("/workers/heartbeat", heartbeat, methods=["POST"]),
]
