"""Jobs that failed for good and were to be kept for somebody to look at."""

from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine import claims, jobs, parent_results
from windlass.engine.unit import Unit
from windlass.errors import Conflict
from windlass.web.ojs import envelope, given
from windlass.web.ojs.answers import PREFIX, answer
from windlass.web.ojs.paging import pagination


async def list_(request: Request) -> Response:
    limit, offset = given.page(request)
    queue = request.query_params.get("queue")
    found, total = await claims.dead_letters(await given.unit(request), queue=queue, limit=limit, offset=offset)
    shown = [envelope.shown(job, job.updated_at) for job in found]
    return answer(request, {"jobs": shown, "pagination": pagination(len(found), total, limit, offset)})


async def retry(request: Request) -> Response:
    unit, id_ = await given.unit(request), given.job_id(request)
    await claims.check_dead_letter(unit, id_)
    await check_alone(unit, id_)
    await jobs.reopen(unit, id_)
    told = await claims.told(unit, id_)
    return answer(request, {"job": envelope.shown(told.job, told.now, told=told)})


async def delete(request: Request) -> Response:
    unit, id_ = await given.unit(request), given.job_id(request)
    await claims.check_dead_letter(unit, id_)
    await check_alone(unit, id_)
    await jobs.delete(unit, id_)
    return answer(request, {"deleted": True, "job_id": str(id_)})


async def check_alone(unit: Unit, id_: UUID) -> None:
    """Refuse a job of a workflow: what became of it is part of the workflow's record, which stays as it is."""
    job = (await claims.told(unit, id_)).job
    if job.run_id is None:
        return
    standings = await parent_results.of_jobs(unit, [job])
    found = next(iter(standings.values()), None)
    if found is None:
        raise Conflict(f"job {id_} is a step of run {job.run_id}: retry the run, windlass runs retry {job.run_id}")
    again = f'{{"retry_of": "{found.workflow_id}"}}'
    raise Conflict(
        f"job {id_} is part of workflow {found.workflow_id} and goes with it: "
        f"to do what failed again, send POST {PREFIX}/workflows {again}"
    )


ROUTES = [
    Route("/dead-letter", list_, methods=["GET"]),
    Route("/dead-letter/{id}/retry", retry, methods=["POST"]),
    Route("/dead-letter/{id}", delete, methods=["DELETE"]),
]
