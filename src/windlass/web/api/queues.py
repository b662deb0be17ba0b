"""/queues: how much lies in them, how fast it goes, and a switch for each."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from windlass.engine.database import Database
from windlass.engine.jobs import queues
from windlass.web.api.request.dependencies import Open
from windlass.web.api.request.paging import Limit
from windlass.web.api.schemas import queues as schemas
from windlass.web.api.schemas.common import Data, Listing, told
from windlass.web.api.schemas.queues import Queue

router = APIRouter(prefix="/queues", tags=["queues"])

QueueName = Annotated[str, Path(description="The name of a queue.", examples=["default"])]


@router.get("", summary="List queues", responses=told(422))
async def list_(
    db: Open,
    after: Annotated[str, Query(max_length=255, description="Go on after this name.")] = "",
    limit: Limit = 100,
) -> Listing[Queue]:
    """By name: those in which something lies, and those that were ever paused."""
    page = await queues.list_(db, after=after, limit=limit)
    return Listing[Queue](data=[schemas.queue(found) for found in page.queues], next=page.next)


@router.get("/{name}", summary="Get a queue", responses=told(404, 422))
async def get(db: Open, name: QueueName) -> Data[Queue]:
    """A queue that nobody has named yet is an empty one."""
    return await _shown(db, name)


@router.post("/{name}/pause", summary="Pause a queue", responses=told(404, 422))
async def pause(db: Open, name: QueueName) -> Data[Queue]:
    """From now on no worker of ours claims from it; what they hold they finish. Plain SQL clients do not see it."""
    await queues.pause(db, name)
    return await _shown(db, name)


@router.post("/{name}/resume", summary="Resume a queue", responses=told(404, 422))
async def resume(db: Open, name: QueueName) -> Data[Queue]:
    await queues.resume(db, name)
    return await _shown(db, name)


async def _shown(db: Database, name: str) -> Data[Queue]:
    return Data[Queue](data=schemas.queue(await queues.get(db, name)))
