"""Jobs: push one or many, look, cancel, activate."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.jobs.spec import JobSpec
from windlass.engine.compositions import parent_results
from windlass.engine.jobs import control as jobs
from windlass.engine.runs import family
from windlass.engine.workers import remote
from windlass.errors import Invalid
from windlass.web.ojs import bodies, dependencies, tenants, vocabulary
from windlass.web.ojs.admission import admit
from windlass.web.ojs.errors import INVALID_REQUEST, Refusal
from windlass.web.ojs.jobs import envelope, parse_job
from windlass.web.ojs.responses import answer, created, instant
from windlass.web.ojs.workflows import render_workflow

MOST = 10_000  # jobs in a batch


async def push(request: Request) -> Response:
    body = await bodies.object_(request)
    admitted = await admit(request, [parse_job.read_job(body, await _now(request, [body]))])
    pushed = (await (await dependencies.remote_jobs(request)).push(admitted.specs))[0]
    job = envelope.shown(pushed.job, await _as_of(request, pushed.job, pushed.existed))
    if pushed.existed:
        return answer(request, {"job": job, "deduplicated": True})
    told = {"job": job, "id": job["id"], **({"warnings": admitted.warnings} if admitted.warnings else {})}
    return answer(request, told, status=201, headers={**created("jobs", pushed.job.id), **admitted.headers})


async def push_many(request: Request) -> Response:
    listed = (await bodies.object_(request, limit=bodies.BULK_LIMIT)).get("jobs")
    if not isinstance(listed, list) or not 0 < len(listed) <= MOST:
        raise Refusal(INVALID_REQUEST, f"jobs must be a list of 1 to {MOST} jobs", details={"field": "jobs"})
    admitted = await admit(request, _read_all(listed, await _now(request, listed)))
    pushed = await (await dependencies.remote_jobs(request)).push(admitted.specs)
    found = [envelope.shown(each.job, each.job.created_at) for each in pushed]
    told = {"jobs": found, "count": len(found), **({"warnings": admitted.warnings} if admitted.warnings else {})}
    return answer(request, told, status=201, headers=admitted.headers)


async def get(request: Request) -> Response:
    db = await dependencies.db(request)
    told = await remote.told(db, dependencies.job_id(request))
    tenants.check(request, told.job)
    standings = await parent_results.of_jobs(db, [told.job])
    return answer(
        request,
        {"job": render_workflow.within(told.job, envelope.shown(told.job, told.now, told=told), standings.found)},
    )


async def cancel(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    before = await remote.told(db, id_)
    tenants.check(request, before.job)
    await jobs.cancel(db, id_, reason="cancelled by a client")
    if before.job.run_id is not None:
        await family.heed(db, [id_])
    after = await remote.told(db, id_)
    job = envelope.shown(after.job, after.now, told=after)
    return answer(request, {"job": {**job, "previous_state": vocabulary.state(before.job, before.now)}})


async def activate(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await remote.activate(db, id_)
    told = await remote.told(db, id_)
    job = envelope.shown(told.job, told.now, told=told)
    return answer(request, {"job": {**job, "activated_at": instant(told.job.run_at)}})


def _read_all(listed: Sequence[Any], now: datetime) -> list[JobSpec]:
    """All of them, or the first mistake with its place."""
    specs: list[JobSpec] = []
    for n, body in enumerate(listed):
        try:
            specs.append(parse_job.read_job(body, now))
        except Invalid as error:
            raise Invalid(f"jobs[{n}]: {error}", field=f"jobs[{n}].{error.field}") from None
    return specs


async def _now(request: Request, listed: Sequence[Any]) -> datetime:
    """Asked of Postgres only if somebody counts from it."""
    if any(isinstance(body, dict) and parse_job.needs_clock(body) for body in listed):
        return await remote.moment(await dependencies.db(request))
    return datetime.now(UTC)


async def _as_of(request: Request, job: remote.Job, existed: bool) -> datetime:
    """What was written just now is shown as of then."""
    return await remote.moment(await dependencies.db(request)) if existed else job.created_at


ROUTES = [
    Route("/jobs", push, methods=["POST"]),
    Route("/jobs/batch", push_many, methods=["POST"]),
    Route("/jobs/{id}", get, methods=["GET"]),
    Route("/jobs/{id}", cancel, methods=["DELETE"]),
    Route("/jobs/{id}/cancel", cancel, methods=["POST"]),
    Route("/jobs/{id}/activate", activate, methods=["POST"]),
]
