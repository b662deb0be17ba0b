"""/queues, /workers, /pools, /quarantine and /stats: monitor an installation; pause queues, retry quarantined items."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from windlass.engine import pools, quarantine, stats
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import queues
from windlass.engine.quarantine import Kind
from windlass.engine.views import jobs as views
from windlass.engine.workers import registry as workers
from windlass.schemas.monitoring import Pool, Quarantined, Queue, Stats, Worker, WorkerDetail
from windlass.web.api.shared import Data, Governing, Limit, Listing, Operating, Reading, problems

queues_router = APIRouter(prefix="/queues", tags=["queues"])
workers_router = APIRouter(prefix="/workers", tags=["workers"])
pools_router = APIRouter(prefix="/pools", tags=["pools"])
quarantine_router = APIRouter(prefix="/quarantine", tags=["quarantine"])
stats_router = APIRouter(prefix="/stats", tags=["stats"])

QUARANTINE_LIMIT = 1000
QueueName = Annotated[str, Path(description="The name of a queue.", examples=["default"])]
WorkerId = Annotated[str, Path(description="The id of a worker.", examples=["web-1-4711"])]
PoolName = Annotated[str, Path(description="The name of a pool.", examples=["gpu"])]
QuarantineKind = Annotated[Kind, Path(description="The kind of the item.")]
QuarantineKey = Annotated[str, Path(max_length=255, description="Its id or name.")]


@queues_router.get("", summary="List queues", responses=problems(422))
async def list_queues(
    db: Reading,
    after: Annotated[str, Query(max_length=255, description="Continue after this name.")] = "",
    limit: Limit = 100,
) -> Listing[Queue]:
    """Return queues that have live jobs, or that were ever paused or configured, sorted by name."""
    page = await queues.list_(db, after=after, limit=limit)
    return Listing([views.queue(row) for row in page.queues], page.next)


@queues_router.get("/{name}", summary="Get a queue", responses=problems(404, 422))
async def get_queue(db: Reading, name: QueueName) -> Data[Queue]:
    """Return a queue. A name that was never used returns an empty queue, not 404."""
    return await _queue(db, name)


@queues_router.post("/{name}/pause", summary="Pause a queue", responses=problems(404, 422))
async def pause_queue(db: Operating, name: QueueName) -> Data[Queue]:
    """Pause a queue: workers claim no more of its jobs, and finish those that they hold. Workers that use plain SQL do
    not see the pause."""
    await queues.pause(db, name)
    return await _queue(db, name)


@queues_router.post("/{name}/resume", summary="Resume a queue", responses=problems(404, 422))
async def resume_queue(db: Operating, name: QueueName) -> Data[Queue]:
    await queues.resume(db, name)
    return await _queue(db, name)


@workers_router.get("", summary="List workers")
async def list_workers(db: Reading) -> Listing[Worker]:
    """Return workers, latest heartbeat first, without those that have sent no heartbeat for a day."""
    return Listing([views.worker(row) for row in await workers.list_(db)])


@workers_router.get("/{worker_id}", summary="Get a worker", responses=problems(404, 422))
async def get_worker(db: Reading, worker_id: WorkerId) -> Data[WorkerDetail]:
    """Return a worker with the jobs that it holds."""
    row, held = await workers.get(db, worker_id)
    tasks = await jobs.steps(db, held)
    return Data(views.worker_detail(row, held, org=db.org, tasks=tasks))


@pools_router.get("", summary="List pools")
async def list_pools(db: Reading) -> Listing[Pool]:
    """Return the pools that processes offer or have offered, sorted by name."""
    return Listing(await pools.list_(db))


@pools_router.get("/{name}", summary="Get a pool", responses=problems(404, 422))
async def get_pool(db: Reading, name: PoolName) -> Data[Pool]:
    return Data(await pools.get(db, name))


@pools_router.delete("/{name}", summary="Forget a pool", status_code=204, responses=problems(404, 409, 422))
async def forget_pool(db: Governing, name: PoolName) -> None:
    """Remove a pool. Steps that name it wait until a process offers it again. 409 while a process offers it."""
    await pools.forget(db, name)


@quarantine_router.get("", summary="List quarantined items")
async def list_quarantine(db: Reading) -> Listing[Quarantined]:
    """Return quarantined items, latest failure first, at most 1,000."""
    return Listing(await quarantine.list_(db, limit=QUARANTINE_LIMIT))


@quarantine_router.post("/{kind}/{key}/retry", summary="Retry a quarantined item", responses=problems(404, 409, 422))
async def retry_quarantined(db: Operating, kind: QuarantineKind, key: QuarantineKey) -> Data[Quarantined]:
    """Make a quarantined item due for a retry immediately. 409 if the item is only reported and never retried
    (`retry_at` is null)."""
    return Data(await quarantine.retry_now(db, kind, key))


@stats_router.get("", summary="Get an overview")
async def get_stats(db: Reading) -> Data[Stats]:
    """Return counts of runs and jobs by state, the runs of the last day by hour, recent failures, queues, workers and
    the next ticks."""
    return Data(stats.to_schema(await stats.overview(db)))


async def _queue(db: Tenant, name: str) -> Data[Queue]:
    return Data(views.queue(await queues.get(db, name)))
