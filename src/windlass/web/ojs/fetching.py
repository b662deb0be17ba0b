"""Fetches jobs for workers. A fetch may wait for jobs (long polling)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.jobs.replay import CallKind, Recorded
from windlass.core.orgs import Scope
from windlass.engine.compositions import parent_results
from windlass.engine.compositions.parent_results import Positions
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import Resumption
from windlass.engine.workers import remote
from windlass.engine.workers.remote import Fetch, Job
from windlass.errors import Invalid
from windlass.runtime.batching import RemoteJobs
from windlass.runtime.waiting import WaitingFetches
from windlass.web.ojs import dependencies, envelope, parse_job, progress
from windlass.web.ojs.responses import answer
from windlass.web.ojs.routing import Route

MOST = 1000  # jobs per fetch
MOST_QUEUES = 100
MOST_TYPES = 1000
MOST_WAIT = 30_000  # milliseconds
ANONYMOUS = "ojs"  # the lease holder if a worker sends no id


async def fetch(request: Request) -> Response:
    body = await dependencies.body(request)
    wish = _wish(body)
    wait = dependencies.integer(body, "wait_ms", least=0, most=MOST_WAIT, default=0) or 0
    db, remote_jobs = await dependencies.db(request), await dependencies.remote_jobs(request)
    if wish.worker != ANONYMOUS:
        await remote_jobs.register(wish, host=dependencies.host(request))
    jobs = await remote_jobs.fetch(wish)
    if not jobs and wait:
        jobs = await _wait(request, remote_jobs, wish, wait)
    positions = await parent_results.of_jobs(db, [job for job in jobs if job.run_id is not None])
    saved = await checkpoints.of_jobs(db, [job.id for job in jobs]) if jobs else {}
    again = [job.id for job in jobs if job.claim_no > 1]
    recorded = await checkpoints.recorded(db, again) if again else {}
    handed_out, unreadable = [], {}
    for job in jobs:
        try:
            handed_out.append(_handed_out(job, positions, saved, recorded.get(job.id, ())))
        except Exception as error:  # of any kind: the worker still gets the other jobs, which are leased to it
            unreadable[job.id] = f"the job cannot be handed out: {type(error).__name__}: {error}"
    if unreadable:
        await remote.set_aside(db, wish.worker, unreadable)
    return answer(request, {"jobs": handed_out})


def _wish(body: Mapping[str, Any]) -> Fetch:
    queues = body.get("queues")
    if not isinstance(queues, list) or not 0 < len(queues) <= MOST_QUEUES:
        raise Invalid("queues must be a list of queue names", field="queues")
    return Fetch(
        queues=list(dict.fromkeys(parse_job.queue_name(queue, field="queues") for queue in queues)),
        count=dependencies.integer(body, "count", least=1, most=MOST, default=1) or 1,
        worker=dependencies.worker_id(body) or ANONYMOUS,
        lease=dependencies.lease(body),
        types=_types(body),
    )


def _types(body: Mapping[str, Any]) -> list[str] | None:
    types = dependencies.strings(body, "types") if body.get("types") is not None else None
    if types is not None and not 0 < len(types) <= MOST_TYPES:
        raise Invalid(f"types must have 1 to {MOST_TYPES} names or patterns: leave it out for all types", field="types")
    return types


async def _wait(request: Request, remote_jobs: RemoteJobs, wish: Fetch, milliseconds: int) -> list[Job]:
    """Wait for jobs and return them. If the client has disconnected, release the jobs that were claimed for it."""
    waiting_fetches: WaitingFetches = request.app.state.waiting_fetches
    gone = asyncio.create_task(_gone(request))
    ends = asyncio.create_task(_ends(request, gone))
    try:
        jobs = await waiting_fetches.wait(remote_jobs, wish, seconds=milliseconds / 1000, ends=ends)
        if jobs and gone.done():
            await remote_jobs.give_back(jobs, worker=wish.worker)
            jobs = []
        return jobs
    finally:
        gone.cancel()
        ends.cancel()


async def _gone(request: Request) -> None:
    """Return when the client has disconnected. The body has been read: nothing else arrives."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _ends(request: Request, gone: "asyncio.Task[None]") -> None:
    """Return when the client has disconnected or the server stops."""
    stopping: asyncio.Event | None = request.scope.get("state", {}).get("stopping")
    stopped = asyncio.create_task((stopping or asyncio.Event()).wait())
    try:
        await asyncio.wait({gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()


def _handed_out(
    job: Job, positions: Positions, saved: Mapping[UUID, Resumption], recorded: Sequence[Recorded]
) -> dict[str, Any]:
    if job.run_id is not None and job.step is not None and (job.run_id, job.step) in positions.errors:
        raise positions.errors[job.run_id, job.step]
    shown = envelope.within(job, envelope.render(job, job.updated_at), positions.by_step)
    shown["fence"] = job.claim_no
    if (resumed := saved.get(job.id)) is not None:
        if resumed.checkpoint is not None:
            shown["checkpoint"] = progress.checkpoint(resumed.checkpoint)
        if resumed.wait is not None:
            shown["wait"] = {"payload": resumed.wait.payload, "timed_out": resumed.wait.timed_out}
    if steps := [{"name": row.name, "value": row.value} for row in recorded if row.kind == CallKind.STEP]:
        shown["steps"] = steps
    return shown


ROUTES = [Route("/workers/fetch", fetch, methods=["POST"], needs=Scope.WORK, labels=True)]
