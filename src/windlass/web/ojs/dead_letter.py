"""Jobs that failed for good and were to be kept for somebody to look at."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine import claims, jobs
from windlass.web.ojs import envelope, given
from windlass.web.ojs.answers import answer
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
    await jobs.reopen(unit, id_)
    told = await claims.told(unit, id_)
    return answer(request, {"job": envelope.shown(told.job, told.now, told=told)})


async def delete(request: Request) -> Response:
    unit, id_ = await given.unit(request), given.job_id(request)
    await claims.check_dead_letter(unit, id_)
    await jobs.delete(unit, id_)
    return answer(request, {"deleted": True, "job_id": str(id_)})


ROUTES = [
    Route("/dead-letter", list_, methods=["GET"]),
    Route("/dead-letter/{id}/retry", retry, methods=["POST"]),
    Route("/dead-letter/{id}", delete, methods=["DELETE"]),
]
