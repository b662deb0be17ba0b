"""/workers: who works here, and on what."""

from typing import Annotated

from fastapi import APIRouter, Path

from windlass.engine.jobs import control as jobs
from windlass.engine.workers import registry as workers
from windlass.web.api.request.dependencies import Open
from windlass.web.api.schemas import workers as schemas
from windlass.web.api.schemas.common import Data, Listing, told
from windlass.web.api.schemas.workers import Worker, WorkerDetail

router = APIRouter(prefix="/workers", tags=["workers"])


@router.get("", summary="List workers")
async def list_(db: Open) -> Listing[Worker]:
    """The latest sign of life first; who has been silent for a day is forgotten."""
    return Listing[Worker](data=[schemas.worker(row) for row in await workers.list_(db)])


@router.get("/{worker_id}", summary="Get a worker", responses=told(404, 422))
async def get(
    db: Open, worker_id: Annotated[str, Path(description="The id of a worker.", examples=["web-1-4711"])]
) -> Data[WorkerDetail]:
    """With the jobs that it holds."""
    row, held = await workers.get(db, worker_id)
    tasks = await jobs.steps(db, held)
    return Data[WorkerDetail](data=schemas.detail(row, held, org=db.org, tasks=tasks))
