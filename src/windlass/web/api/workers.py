"""/workers: who works here, and on what."""

from typing import Annotated

from fastapi import APIRouter, Path

from windlass.engine import jobs, workers
from windlass.web.api import schemas_workers as schemas
from windlass.web.api.given import Open
from windlass.web.api.schemas import Data, Listing, told
from windlass.web.api.schemas_workers import Worker, WorkerDetail

router = APIRouter(prefix="/workers", tags=["workers"])


@router.get("", summary="List workers")
async def list_(unit: Open) -> Listing[Worker]:
    """The latest sign of life first; who has been silent for a day is forgotten."""
    return Listing[Worker](data=[schemas.worker(row) for row in await workers.list_(unit)])


@router.get("/{worker_id}", summary="Get a worker", responses=told(404, 422))
async def get(
    unit: Open, worker_id: Annotated[str, Path(description="The id of a worker.", examples=["web-1-4711"])]
) -> Data[WorkerDetail]:
    """With the jobs that it holds."""
    row, held = await workers.get(unit, worker_id)
    tasks = await jobs.steps(unit, held)
    return Data[WorkerDetail](data=schemas.detail(row, held, org=unit.org, tasks=tasks))
