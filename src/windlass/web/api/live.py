"""/stream and /runs/{run_id}/stream: what happens, as it happens, as server-sent events."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Header, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from windlass.core.events.cursor import MAX_TEXT
from windlass.core.runs.run import RunState
from windlass.engine.events.stream import Batch, Cursor, Told
from windlass.engine.runs import control as runs
from windlass.web.api.request.dependencies import App, Open, RunId
from windlass.web.api.runs import named
from windlass.web.api.schemas import live as schemas
from windlass.web.api.schemas.common import told
from windlass.web.live import MEDIA_TYPE, RETRY, EventStream, event

router = APIRouter(tags=["live"])
run_router = APIRouter(tags=["live"])

CHUNK = 200  # lines that are sent at once
LIVE = frozenset({RunState.PENDING, RunState.RUNNING})
OK: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events.", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
}
LastEventId = Annotated[
    str | None,
    Header(alias="Last-Event-ID", max_length=MAX_TEXT, description="The id of the last event that came: go on after."),
]


class StreamKind(StrEnum):
    RUN = "run"
    TASK = "task"
    JOB = "job"


class Filters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    workflow: str | None = Field(default=None, description="Only of this workflow: its name or its id.")
    kind: list[StreamKind] = Field(default=[], max_length=10, description="Runs, tasks or jobs; may be repeated.")
    after: str | None = Field(default=None, max_length=MAX_TEXT, description="Like Last-Event-ID, which wins.")


@router.get("/stream", summary="Watch everything", responses=OK | told(404, 422), response_class=Response)
async def stream(app: App, db: Open, filters: Annotated[Filters, Query()], last: LastEventId = None) -> Response:
    """What happens to runs, tasks and jobs. `hello` comes first. The `id` of each event is where to go on after it,
    in `Last-Event-ID` or `after`: nothing is lost, and nothing comes twice. Without one it begins now."""
    workflow = await named(db, filters.workflow)
    org = db.org

    def wanted(one: Told) -> bool:
        line = one.line
        return (
            line.org == org
            and (workflow is None or line.workflow == workflow)
            and (not filters.kind or schemas.kind(one) in filters.kind)
        )

    batches = (await app.live()).follow(_cursor(last, filters.after))
    first = await anext(batches)
    return EventStream(_events(batches, first, wanted, schemas.hello(first)))


ENDED: dict[int | str, dict[str, Any]] = {
    204: {"description": "It has ended, and nothing happened since `Last-Event-ID`."}
}


@run_router.get(
    "/{run_id}/stream", summary="Watch a run", responses=OK | ENDED | told(404, 422), response_class=Response
)
async def stream_of_run(
    app: App,
    db: Open,
    run_id: RunId,
    after: Annotated[
        str | None, Query(max_length=MAX_TEXT, description="Like Last-Event-ID, which wins; a run's `cursor` will do.")
    ] = None,
    last: LastEventId = None,
) -> Response:
    """What happens to a run and its tasks. Begins with `hello`, and ends with `end` when the run has ended."""
    await runs.get(db, run_id)
    batches = (await app.live()).follow(_cursor(last, after), run=run_id)
    first = await anext(batches)
    if last is not None and _ended(first) and not first.told:
        await batches.aclose()  # a browser comes back until it is told that there is nothing more
        return Response(status_code=204)
    return EventStream(_events(batches, first, None, schemas.hello(first, run_id), run=run_id))


def _cursor(last: str | None, after: str | None) -> Cursor | None:
    if last:
        return Cursor.parse(last, name="Last-Event-ID")
    return Cursor.parse(after) if after else None


async def _events(
    batches: AsyncGenerator[Batch, None],
    batch: Batch,
    wanted: Callable[[Told], bool] | None,
    hello: dict[str, Any],
    *,
    run: UUID | None = None,
) -> AsyncGenerator[bytes | str, None]:
    async with contextlib.aclosing(batches):
        yield f"retry: {RETRY}\n".encode() + event("hello", hello, id_=str(batch.at))
        while True:
            told = batch.told if wanted is None else [one for one in batch.told if wanted(one)]
            for first in range(0, len(told), CHUNK):
                yield b"".join(_rendered(one, whole=run is not None) for one in told[first : first + CHUNK])
                await asyncio.sleep(0)  # the loop has other readers, and heartbeats
            if not told:
                yield str(batch.next)
            if run is not None and not batch.more and _ended(batch):
                yield event("end", schemas.end(batch, run), id_=str(batch.next))
                return
            try:
                batch = await anext(batches)
            except StopAsyncIteration:
                return


def _rendered(told: Told, *, whole: bool) -> bytes:
    """A line as an event, made once for all readers of the process. `whole`: for those of one run."""
    if (found := told.rendered.get(whole)) is None:
        found = event(schemas.kind(told), schemas.happening(told, whole=whole), id_=str(told.cursor))
        told.rendered[whole] = found
    return found


def _ended(batch: Batch) -> bool:
    """The run of these lines has ended, and this is all."""
    state = schemas.state(batch)
    return state is not None and state not in LIVE and not batch.more
