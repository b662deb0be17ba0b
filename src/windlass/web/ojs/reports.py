"""Records the outcomes of jobs that workers report, one or many per request.

Each of many reports has its own result: a report that is refused does not affect the others, which are recorded in one
transaction.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.job import Failed, Outcome, Released, Succeeded
from windlass.core.jobs.replay import CallKind, MessageWait, NewRecord, Suspended
from windlass.core.jobs.spec import check_name
from windlass.core.json_value import PAYLOAD_LIMIT, RESULT_LIMIT, encode, plain
from windlass.core.orgs import Scope
from windlass.engine.workers.remote import Job
from windlass.engine.workers.remote_reports import NewState, RemoteReport
from windlass.errors import Invalid
from windlass.web.ojs import dependencies, envelope, times
from windlass.web.ojs.responses import answer, entry_error
from windlass.web.ojs.routing import Route

MOST = 1000  # reports per request
MAX_KEY = 400
MOST_MESSAGES = 1000
MANY = "jobs"  # the field of requests with many reports
FINAL_CODES = {"DISCARD": False, "FAIL": False, "DEAD_LETTER": True}  # `error.code` -> is a dead letter


async def ack(request: Request) -> Response:
    body, mistakes = await dependencies.body_of_many(request, MANY, limit=dependencies.RESULT_ROOM)
    if _is_many(request, body):
        return await _record_many(request, body, mistakes, _success)
    job = await _record(request, body, _success(body))
    shown = envelope.render(job, job.updated_at)
    state = {"state": envelope.COMPLETED, "completed_at": shown["completed_at"]}
    return answer(request, {"acknowledged": True, **_ids(job), **state, "job": shown})


async def nack(request: Request) -> Response:
    body, mistakes = await dependencies.body_of_many(request, MANY, limit=dependencies.BULK_LIMIT)
    if _is_many(request, body):
        return await _record_many(request, body, mistakes, _setback)
    job = await _record(request, body, _setback(body))
    shown = envelope.render(job, job.updated_at)
    names = ("state", "attempt", "max_attempts", "next_attempt_at", "retry_delay_ms", "discarded_at", "completed_at")
    return answer(request, {**_ids(job), **{name: shown[name] for name in names if name in shown}, "job": shown})


async def suspend(request: Request) -> Response:
    """Suspend a job until a time, or until a message arrives, and save its state. No attempt is charged."""
    body = await dependencies.body(request)
    job = await _record(request, body, _suspension(body))
    shown = envelope.render(job, job.updated_at)
    return answer(request, {"suspended": True, **_ids(job), "state": shown["state"], "job": shown})


def _is_many(request: Request, body: Mapping[str, Any]) -> bool:
    return MANY in body and "id" not in request.path_params


async def _record(request: Request, body: Mapping[str, Any], outcome: Outcome) -> Job:
    job_id = request.path_params.get("id") or dependencies.required(body, "job_id")
    report = _report(job_id, body, outcome, dependencies.worker_id(body))
    return await (await dependencies.remote_jobs(request)).report(report)


async def _record_many(
    request: Request,
    body: Mapping[str, Any],
    mistakes: Mapping[int, Invalid],
    outcome_of: Callable[[Mapping[str, Any]], Outcome],
) -> Response:
    entries, worker = dependencies.entries(body, MANY, most=MOST), dependencies.worker_id(body)
    answers: dict[int, NewState | Exception] = dict(mistakes)
    reports: dict[int, RemoteReport] = {}
    for n, entry in enumerate(entries):
        if n in mistakes:
            continue
        try:
            if not isinstance(entry, dict):
                raise Invalid(f"{MANY}[{n}] must be an object with a job_id", field=f"{MANY}[{n}]")
            reports[n] = _report(dependencies.required(entry, "job_id"), entry, outcome_of(entry), worker)
        except Exception as error:  # of any kind: the others are recorded
            answers[n] = error
    recorded = await (await dependencies.remote_jobs(request)).report_batch(list(reports.values()))
    answers |= zip(reports, recorded, strict=True)
    return answer(request, {"results": [_result(entry, answers[n]) for n, entry in enumerate(entries)]})


def _result(entry: Any, recorded: NewState | Exception) -> dict[str, Any]:
    job_id = entry.get("job_id") if isinstance(entry, dict) else None
    shown = plain(job_id[: dependencies.MAX_NAME]) if isinstance(job_id, str) else None
    if isinstance(recorded, Exception):
        return {"job_id": shown, "error": entry_error(recorded)}
    return {"job_id": shown, "state": envelope.state_after(recorded)}


def _report(job_id: object, body: Mapping[str, Any], outcome: Outcome, worker: str | None) -> RemoteReport:
    id_ = dependencies.known_id(job_id, "job")
    return RemoteReport(id_, outcome, worker=worker, fence=dependencies.fence(body))


def _success(body: Mapping[str, Any]) -> Succeeded:
    return Succeeded(encode(body.get("result"), field="result", limit=RESULT_LIMIT))


def _setback(body: Mapping[str, Any]) -> Released | Failed:
    requeue = body.get("requeue", False)
    if not isinstance(requeue, bool):
        raise Invalid("requeue must be true or false", field="requeue")
    delay = _delay(body)
    return Released(delay=delay or timedelta()) if requeue else _failure(body.get("error"), delay)


def _delay(body: Mapping[str, Any]) -> timedelta | None:
    value = dependencies.integer(body, "delay_ms", least=0, most=times.LONGEST // timedelta(milliseconds=1))
    return None if value is None else timedelta(milliseconds=value)


def _failure(error: Any, delay: timedelta | None) -> Failed:
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
    return Failed(stored, retryable=retryable, retry_after=delay, dead_letter=FINAL_CODES.get(code))


def _suspension(body: Mapping[str, Any]) -> Suspended:
    """Return the suspension: `for_ms` limits the wait, `wait_for` names a message, `state` replaces the checkpoint."""
    wait = body.get("wait_for")
    delay = None if body.get("for_ms") is None else times.milliseconds(body["for_ms"], field="for_ms")
    if wait is None and delay is None:
        raise Invalid("there is nothing to wait for: give for_ms, wait_for or both", field="for_ms")
    name = f"suspend-{uuid4().hex}"
    saved = _saved_state(body)
    if wait is None:
        return Suspended([name], [*saved, _wait_record(name, CallKind.SLEEP, delay)])
    if not isinstance(wait, dict):
        raise Invalid('wait_for must be an object such as {"name": "paid", "key": "42"}', field="wait_for")
    message, key = wait.get("name"), wait.get("key")
    check_name(message, "wait_for.name", "name the message")
    if key is not None and key != "":
        check_name(key, "wait_for.key", "leave it out for a signal, or give a key", limit=MAX_KEY)
    count = dependencies.integer(wait, "count", least=1, most=MOST_MESSAGES, default=1) or 1
    waits = MessageWait(name, str(message), key or "", key is None, count)
    return Suspended([name], [*saved, _wait_record(name, CallKind.WAIT, delay)], [waits])


def _saved_state(body: Mapping[str, Any]) -> list[NewRecord]:
    if "state" not in body:
        return []
    return [NewRecord("", CallKind.STEP, None, encode(body["state"], field="state", limit=PAYLOAD_LIMIT))]


def _wait_record(name: str, kind: CallKind, delay: timedelta | None) -> NewRecord:
    return NewRecord(name, kind, None, waits=True, delay=delay)


def _ids(job: Job) -> dict[str, str]:
    return {"id": job.client_id, "job_id": job.client_id}


ROUTES = [
    Route("/workers/ack", ack, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/nack", nack, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/workers/suspend", suspend, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/ack", ack, methods=["POST"], needs=Scope.WORK, labels=True),
    Route("/jobs/{id}/nack", nack, methods=["POST"], needs=Scope.WORK, labels=True),
]
