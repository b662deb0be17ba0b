"""/events: publish events. /runs/{run_id}/signals: send signals to a run."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request

from windlass.core.json_value import PAYLOAD_LIMIT
from windlass.engine import messages
from windlass.schemas.messages import Sent
from windlass.web.api import bodies
from windlass.web.api.shared import Data, RunId, Starting, problems

router = APIRouter(prefix="/events", tags=["messages"])
run_router = APIRouter(tags=["messages"])  # /{run_id}, mounted at both paths of runs

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
    """Publish an event to every task and handler that waits for its name and key, including those that start to wait
    later, and start runs of the workflows that it triggers. With an `id`, repeated requests publish it once."""
    body = await bodies.model(request, NewEvent, limit=LIMIT)
    return Data(await messages.publish(db, body.name, key=body.key, payload=body.payload, id_=body.id))


@run_router.post(
    "/{run_id}/signals/{signal}",
    summary="Send a signal to a run",
    openapi_extra=bodies.described(NewSignal, {"payload": {"by": "ann"}, "id": "approval-7"}),
    responses=problems(404, 409, 410, 413, 422),
)
async def send(db: Starting, run_id: RunId, signal: SignalName, request: Request) -> Data[Sent]:
    """Send a signal to a run; `run_id` may also be the id of a job that is not a task of a run. The signal is received
    once, by the task or handler that has waited longest for its name, or by the next one that waits for it. 409 if too
    many signals of this name have not been received yet; 410 if the run has ended."""
    body = await bodies.model(request, NewSignal, limit=LIMIT)
    return Data(await messages.signal(db, run_id, signal, payload=body.payload, id_=body.id))
