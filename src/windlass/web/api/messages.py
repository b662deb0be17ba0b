"""/events: publish events. /runs/{run_id}/signals: send signals to a run."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.engine import messages
from windlass.schemas.messages import Sent
from windlass.web.api import bodies
from windlass.web.api.shared import Data, RunId, Starting, problems

router = APIRouter(prefix="/events", tags=["messages"])
run_router = APIRouter(tags=["messages"])  # /{run_id}, below each of the two addresses of runs

LIMIT = PAYLOAD_LIMIT + bodies.ROOM
SignalName = Annotated[str, Path(description="The name that a task or a handler waits for.", examples=["approved"])]


class NewSignal(bodies.RequestBody):
    payload: Any = None
    id: str | None = None


class NewEvent(NewSignal):
    name: str
    key: str = ""


@router.post(
    "",
    summary="Publish an event",
    openapi_extra=bodies.described(NewEvent, {"name": "paid", "key": "order-42", "payload": {"cents": 995}}),
    responses=problems(413, 422),
)
async def publish(db: Starting, request: Request) -> Data[Sent]:
    """Reaches every task and handler that waits for this name and key, also those that begin to wait later, and starts
    runs of workflows that it triggers. With an `id` it is published once, however often it is sent."""
    body = await bodies.model(request, NewEvent, limit=LIMIT)
    return Data(await messages.publish(db, body.name, key=body.key, payload=body.payload, id_=body.id))


@run_router.post(
    "/{run_id}/signals/{signal}",
    summary="Send a signal to a run",
    openapi_extra=bodies.described(NewSignal, {"payload": {"by": "ann"}, "id": "approval-7"}),
    responses=problems(404, 409, 410, 413, 422),
)
async def send(db: Starting, run_id: RunId, signal: SignalName, request: Request) -> Data[Sent]:
    """Received once, by the task or handler of the run that has waited longest for this name, or by the next one that
    waits for it. 410 if the run has ended. The id may be that of a job that is not a task of a run."""
    body = await bodies.model(request, NewSignal, limit=LIMIT)
    return Data(await messages.signal(db, run_id, signal, payload=body.payload, id_=body.id))
