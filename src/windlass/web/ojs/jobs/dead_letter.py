"""Jobs that failed for good and were to be kept for somebody to look at."""

from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.compositions import parent_results
from windlass.engine.database import Database
from windlass.engine.jobs import control as jobs
from windlass.engine.workers import remote
from windlass.errors import Conflict
from windlass.web.ojs import dependencies
from windlass.web.ojs.jobs import envelope
from windlass.web.ojs.paging import pagination
from windlass.web.ojs.responses import PREFIX, answer


async def list_(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    queue = request.query_params.get("queue")
    found, total = await remote.dead_letters(await dependencies.db(request), queue=queue, limit=limit, offset=offset)
    shown = [envelope.shown(job, job.updated_at) for job in found]
    return answer(request, {"jobs": shown, "pagination": pagination(len(found), total, limit, offset)})


async def retry(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await remote.check_dead_letter(db, id_)
    await check_alone(db, id_)
    await jobs.reopen(db, id_)
    told = await remote.told(db, id_)
    return answer(request, {"job": envelope.shown(told.job, told.now, told=told)})


async def delete(request: Request) -> Response:
    db, id_ = await dependencies.db(request), dependencies.job_id(request)
    await remote.check_dead_letter(db, id_)
    await check_alone(db, id_)
    await jobs.delete(db, id_)
    return answer(request, {"deleted": True, "job_id": str(id_)})


async def check_alone(db: Database, id_: UUID) -> None:
    """Refuse a job of a workflow: what became of it is part of the workflow's record, which stays as it is."""
    job = (await remote.told(db, id_)).job
    if job.run_id is None:
        return
    standings = await parent_results.of_jobs(db, [job])
    found = next(iter(standings.found.values()), None)
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
