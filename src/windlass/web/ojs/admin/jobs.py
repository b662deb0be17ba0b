"""Jobs for operators: found by what they are, and steered in bulk, with a word of confirmation."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.job import JobState
from windlass.core.workflows.step_payload import OWN_QUEUE
from windlass.engine.database import Database
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters
from windlass.engine.workers import remote
from windlass.web.ojs import bodies, dependencies, times, vocabulary
from windlass.web.ojs.admin.paging import sliced
from windlass.web.ojs.errors import INVALID_REQUEST, Refusal
from windlass.web.ojs.jobs import dead_letter as face
from windlass.web.ojs.jobs import envelope
from windlass.web.ojs.jobs import jobs as face_jobs
from windlass.web.ojs.responses import answer

LOOKED_AT = 1000  # jobs that a list or a bulk operation goes through at a time
WAITING = (vocabulary.AVAILABLE, vocabulary.SCHEDULED, vocabulary.RETRYABLE, vocabulary.PENDING)
LIVE = (*WAITING, vocabulary.ACTIVE)
ROWS = {**{word: state for state, word in vocabulary.PLAIN.items()}, **dict.fromkeys(WAITING, JobState.PENDING)}
ENDED = (vocabulary.DISCARDED, vocabulary.CANCELLED)


async def list_(request: Request) -> Response:
    found = await _matching(await dependencies.db(request), request.query_params)
    return answer(request, sliced(request, found))


async def get(request: Request) -> Response:
    told = await remote.told(await dependencies.db(request), dependencies.job_id(request))
    return answer(request, envelope.shown(told.job, told.now, told=told))


async def retry(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await face.check_alone(db, id_)
    await jobs.reopen(db, id_)
    told = await remote.told(db, id_)
    return answer(request, {"job": envelope.shown(told.job, told.now, told=told)})


async def retry_many(request: Request) -> Response:
    """Failed and cancelled jobs; steps of workflows are not among them, those are retried as a whole."""
    db, wanted = await dependencies.db(request), await _confirmed(request)
    ids = [dependencies.known_id(job["id"], "job") for job in await _matching(db, wanted, ENDED)]
    return _done(request, "retry", len(ids), len(await jobs.reopen_many(db, ids)))


async def cancel_many(request: Request) -> Response:
    db, wanted = await dependencies.db(request), await _confirmed(request)
    ids = [dependencies.known_id(job["id"], "job") for job in await _matching(db, wanted, LIVE)]
    return _done(request, "cancel", len(ids), len(await jobs.cancel_many(db, ids, reason="cancelled in bulk")))


async def list_dead(request: Request) -> Response:
    queue = request.query_params.get("queue")
    found, _ = await remote.dead_letters(await dependencies.db(request), queue=queue, limit=LOOKED_AT, offset=0)
    return answer(request, sliced(request, [envelope.shown(job, job.updated_at) for job in found]))


async def get_dead(request: Request) -> Response:
    await remote.check_dead_letter(await dependencies.db(request), dependencies.job_id(request))
    return await get(request)


async def count_dead(request: Request) -> Response:
    db = await dependencies.db(request)
    _, total = await remote.dead_letters(db, queue=None, limit=1, offset=0)
    groups = (await dead_letters.groups(db)).groups
    by = [{"type": group.type, "queue": group.queue, "error": group.error, "count": group.count} for group in groups]
    return answer(request, {"total": total, "groups": by})


async def remove_dead(request: Request) -> Response:
    await face.delete(request)
    return Response(status_code=204)


async def _confirmed(request: Request) -> Mapping[str, Any]:
    """The filter of a bulk operation that somebody really wants."""
    body = await bodies.object_(request, optional=True)
    if body.get("confirm") is not True:
        raise Refusal(INVALID_REQUEST, "confirm must be true: this changes many jobs", details={"field": "confirm"})
    wanted = body.get("filter", {})
    if not isinstance(wanted, dict):
        raise Refusal(INVALID_REQUEST, "filter must be an object", details={"field": "filter"})
    return wanted


async def _matching(
    db: Database, wanted: Mapping[str, Any], states: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """The latest jobs that are all of this, of those `states` where they matter."""
    state, type_, queue = (_text(wanted, name) for name in ("state", "type", "queue"))
    if state is not None and (state not in ROWS or (states is not None and state not in states)):
        told = f"state must be one of {', '.join(states or ROWS)}"
        raise Refusal(INVALID_REQUEST, told, details={"field": "state"})
    now = await remote.moment(db)
    since, until = (_instant(wanted, name, now) for name in ("since", "until"))
    found = await jobs.list_(
        db,
        statuses=sorted({ROWS[word] for word in ([state] if state else states or ROWS)}),
        queue=queue,
        type_=_pattern(type_),
        limit=LOOKED_AT,
    )
    shown = [
        envelope.shown(job, now)
        for job in found.jobs
        if job.queue != OWN_QUEUE and (not since or job.created_at >= since) and (not until or job.created_at < until)
    ]
    return [job for job in shown if state in (None, job["state"])]


def _done(request: Request, action: str, matched: int, succeeded: int) -> Response:
    left = matched - succeeded
    return answer(request, {"action": action, "matched": matched, "succeeded": succeeded, "failed": left})


def _text(wanted: Mapping[str, Any], name: str) -> str | None:
    value = wanted.get(name)
    if value is not None and not isinstance(value, str):
        raise Refusal(INVALID_REQUEST, f"{name} must be a text", details={"field": name})
    return value


def _instant(wanted: Mapping[str, Any], name: str, now: Any) -> Any:
    value = _text(wanted, name)
    return None if value is None else times.instant(value, field=name, now=now)


def _pattern(type_: str | None) -> str | None:
    """A star at the end means: begins with."""
    if type_ is None:
        return None
    plain = type_.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return plain[:-1] + "%" if plain.endswith("*") else plain


ROUTES = [
    Route("/admin/jobs", list_, methods=["GET"]),
    Route("/admin/jobs/bulk/retry", retry_many, methods=["POST"]),
    Route("/admin/jobs/bulk/cancel", cancel_many, methods=["POST"]),
    Route("/admin/jobs/{id}", get, methods=["GET"]),
    Route("/admin/jobs/{id}/cancel", face_jobs.cancel, methods=["POST"]),
    Route("/admin/jobs/{id}/retry", retry, methods=["POST"]),
    Route("/admin/dead-letter", list_dead, methods=["GET"]),
    Route("/admin/dead-letter/stats", count_dead, methods=["GET"]),
    Route("/admin/dead-letter/{id}", get_dead, methods=["GET"]),
    Route("/admin/dead-letter/{id}", remove_dead, methods=["DELETE"]),
    Route("/admin/dead-letter/{id}/retry", face.retry, methods=["POST"]),
]
