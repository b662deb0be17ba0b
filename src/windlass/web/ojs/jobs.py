"""Jobs: push one or many, get, cancel, activate; and dead letters, the failed jobs that are kept for inspection."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.spec import JobSpec
from windlass.core.orgs import Scope
from windlass.engine.compositions import parent_results
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters
from windlass.engine.runs import sweep
from windlass.errors import Conflict, Invalid
from windlass.schemas.common import CREATE_LIMIT
from windlass.web.ojs import admission, dependencies, envelope, parse_job
from windlass.web.ojs.responses import PREFIX, answer, created, instant, pagination
from windlass.web.ojs.routing import Route


async def push(request: Request) -> Response:
    body = await dependencies.body(request)
    admitted = await admission.admit(request, [parse_job.read_job(body, await _now(request, [body]))])
    pushed = (await (await dependencies.remote_jobs(request)).push(admitted.specs))[0]
    if pushed.existed:
        now = await (await dependencies.db(request)).now()
        return answer(request, {"job": envelope.render(pushed.job, now), "deduplicated": True})
    job = envelope.render(pushed.job, pushed.job.created_at)
    content = {"job": job, "id": job["id"], **({"warnings": admitted.warnings} if admitted.warnings else {})}
    return answer(request, content, status=201, headers={**created("jobs", pushed.job.id), **admitted.headers})


async def push_many(request: Request) -> Response:
    listed = (await dependencies.body(request, limit=dependencies.BULK_LIMIT)).get("jobs")
    if not isinstance(listed, list) or not 0 < len(listed) <= CREATE_LIMIT:
        raise Invalid(f"jobs must be a list of 1 to {CREATE_LIMIT} jobs", field="jobs")
    admitted = await admission.admit(request, _read_all(listed, await _now(request, listed)))
    pushed = await (await dependencies.remote_jobs(request)).push(admitted.specs)
    shown = [envelope.render(each.job, each.job.created_at) for each in pushed]
    content = {"jobs": shown, "count": len(shown), **({"warnings": admitted.warnings} if admitted.warnings else {})}
    return answer(request, content, status=201, headers=admitted.headers)


def _read_all(listed: Sequence[Any], now: datetime) -> list[JobSpec]:
    specs: list[JobSpec] = []
    for n, body in enumerate(listed):
        try:
            specs.append(parse_job.read_job(body, now))
        except Invalid as error:
            raise Invalid(f"jobs[{n}]: {error}", field=f"jobs[{n}].{error.field}") from None
    return specs


async def _now(request: Request, bodies: Sequence[Any]) -> datetime:
    """Return the database's time if a job has a relative time; otherwise the local time, which is then not used."""
    if any(isinstance(body, dict) and parse_job.needs_clock(body) for body in bodies):
        return await (await dependencies.db(request)).now()
    return datetime.now(UTC)


async def get(request: Request) -> Response:
    db = await dependencies.db(request)
    current = await jobs.details(db, dependencies.job_id(request))
    positions = await parent_results.of_jobs(db, [current.job])
    return answer(request, {"job": envelope.within(current.job, envelope.current(current), positions.by_step)})


async def cancel(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    before = await jobs.details(db, id_)
    await jobs.cancel(db, id_, reason="cancelled by a client")
    if before.job.run_id is not None:
        await sweep.settle_jobs(db, [id_])
    previous = envelope.job_state(before.job, before.now)
    return answer(request, {"job": {**envelope.current(await jobs.details(db, id_)), "previous_state": previous}})


async def activate(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await jobs.activate(db, id_)
    current = await jobs.details(db, id_)
    return answer(request, {"job": {**envelope.current(current), "activated_at": instant(current.job.run_at)}})


# Dead letters


async def list_dead(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    queue = request.query_params.get("queue")
    rows, total = await dead_letters.list_by_queue(
        await dependencies.db(request), queue=queue, limit=limit, offset=offset
    )
    shown = [envelope.render(job, job.updated_at) for job in rows]
    return answer(request, {"jobs": shown, "pagination": pagination(len(shown), total, limit, offset)})


async def retry_dead(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await dead_letters.check(db, id_)
    return answer(request, {"job": await reopen(db, id_)})


async def delete_dead(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await dead_letters.check(db, id_)
    await _check_alone(db, id_)
    await jobs.delete(db, id_)
    return answer(request, {"deleted": True, "job_id": str(id_)})


async def reopen(db: Tenant, id_: UUID) -> dict[str, Any]:
    """Reopen a failed or cancelled job and return its envelope."""
    await _check_alone(db, id_)
    await jobs.reopen(db, id_)
    return envelope.current(await jobs.details(db, id_))


async def _check_alone(db: Tenant, id_: UUID) -> None:
    """Refuse a job of a workflow: its outcome is part of the workflow's record, which must not change."""
    job = (await jobs.details(db, id_)).job
    if job.run_id is None:
        return
    positions = await parent_results.of_jobs(db, [job])
    position = next(iter(positions.by_step.values()), None)
    if position is None:
        raise Conflict(f"job {id_} is a step of run {job.run_id}: retry the run, windlass runs retry {job.run_id}")
    again = f'{{"retry_of": "{position.workflow_id}"}}'
    raise Conflict(
        f"job {id_} is part of workflow {position.workflow_id}: retry the workflow, POST {PREFIX}/workflows {again}"
    )


ROUTES = [
    Route("/jobs", push, methods=["POST"], needs=Scope.START, labels=True),
    Route("/jobs/batch", push_many, methods=["POST"], needs=Scope.START, labels=True),
    Route("/jobs/{id}", get, methods=["GET"], needs=Scope.READ, labels=True),
    Route("/jobs/{id}", cancel, methods=["DELETE"], needs=Scope.OPERATE, labels=True),
    Route("/jobs/{id}/cancel", cancel, methods=["POST"], needs=Scope.OPERATE, labels=True),
    Route("/jobs/{id}/activate", activate, methods=["POST"], needs=Scope.START, labels=True),
    Route("/dead-letter", list_dead, methods=["GET"], needs=Scope.READ),
    Route("/dead-letter/{id}/retry", retry_dead, methods=["POST"], needs=Scope.OPERATE),
    Route("/dead-letter/{id}", delete_dead, methods=["DELETE"], needs=Scope.OPERATE),
]
