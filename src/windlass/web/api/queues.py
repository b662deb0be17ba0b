"""/queues: how much lies in them, how fast it goes, and a switch for each."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from windlass.engine import queues
from windlass.engine.unit import Unit
from windlass.web.api import schemas_queues as schemas
from windlass.web.api.given import Open
from windlass.web.api.paging import Limit
from windlass.web.api.schemas import Data, Listing, told
from windlass.web.api.schemas_queues import Queue

router = APIRouter(prefix="/queues", tags=["queues"])

QueueName = Annotated[str, Path(description="The name of a queue.", examples=["default"])]


@router.get("", summary="List queues", responses=told(422))
async def list_(
    unit: Open,
    after: Annotated[str, Query(max_length=255, description="Go on after this name.")] = "",
    limit: Limit = 100,
) -> Listing[Queue]:
    """By name: those in which something lies, and those that were ever paused."""
    page = await queues.list_(unit, after=after, limit=limit)
    return Listing[Queue](data=[schemas.queue(found) for found in page.queues], next=page.next)


@router.get("/{name}", summary="Get a queue", responses=told(404, 422))
async def get(unit: Open, name: QueueName) -> Data[Queue]:
    """A queue that nobody has named yet is an empty one."""
    return await _shown(unit, name)


@router.post("/{name}/pause", summary="Pause a queue", responses=told(404, 422))
async def pause(unit: Open, name: QueueName) -> Data[Queue]:
    """From now on no worker of ours claims from it; what they hold they finish. Plain SQL clients do not see it."""
    await queues.pause(unit, name)
    return await _shown(unit, name)


@router.post("/{name}/resume", summary="Resume a queue", responses=told(404, 422))
async def resume(unit: Open, name: QueueName) -> Data[Queue]:
    await queues.resume(unit, name)
    return await _shown(unit, name)


async def _shown(unit: Unit, name: str) -> Data[Queue]:
    return Data[Queue](data=schemas.queue(await queues.get(unit, name)))
