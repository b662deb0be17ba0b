"""Events for clients that poll: engine.happenings makes them of the trail.

A client that goes on from `next` misses nothing and sees nothing twice: see core.trail. One that goes on from the id of
an event gets what is listed behind it now; a transaction that committed late may be listed before it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.events.cursor import Snapshot
from windlass.core.events.ojs_event import TYPES, OjsEvent
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Database
from windlass.engine.events import ojs as ojs_events
from windlass.engine.events import ojs_jobs, stream
from windlass.engine.events.stream import Cursor
from windlass.errors import NotFound
from windlass.web.ojs import dependencies
from windlass.web.ojs.errors import INVALID_REQUEST, NOT_FOUND, Refusal
from windlass.web.ojs.responses import answer

MOST_BATCHES = 20  # of lines that are looked at for one answer
_event_id = re.compile(r"(\d{1,19})-[wc]?\d{1,19}(?:-\d)?").fullmatch
NEIGHBOURS = 1000  # transactions before that of an event which may be listed behind it
PARAMETERS = ("types", "queues", "workflow_id", "limit", "offset", "after", "cursor")


@dataclass(slots=True)
class Asked:
    """What a client wants of the stream, and how far it has got."""

    org: str
    types: Sequence[str]
    queues: Sequence[str]
    limit: int
    at: Cursor
    run: UUID | None = None  # only what belongs to this workflow
    behind: str | None = None  # an event: what is listed up to it was had
    found: list[OjsEvent] = field(default_factory=list)
    more: bool = True

    def take(self, told: Sequence[tuple[OjsEvent, Cursor]]) -> bool:
        """Take what fits of a batch of events; False: the answer is full before its end."""
        if self.behind is not None:
            places = [n for n, (event, _) in enumerate(told) if event.id == self.behind]
            if not places:
                return True
            told, self.behind = told[places[0] + 1 :], None
        told = [one for one in told if self._fits(one[0])]
        room = _room(told, self.limit - len(self.found))
        self.found += [event for event, _ in told[:room]]
        if len(told) > room:
            self.at = told[room - 1][1] if room else self.at
            return False
        return True

    def _fits(self, event: OjsEvent) -> bool:
        return (
            event.org == self.org
            and (not self.types or any(_matches(event.type, pattern) for pattern in self.types))
            and (not self.queues or event.data.get("queue") in self.queues)
            and (self.run is None or "workflow_id" in event.beside or "workflow_id" in event.data)
        )


async def list_(request: Request) -> Response:
    db = await dependencies.db(request)
    asked = await _asked(request, db)
    for _ in range(MOST_BATCHES):
        batch = await stream.since(db, asked.at, run=asked.run)
        if not asked.take(await ojs_events.of_batch(db, batch)):
            break
        asked.at, asked.more = batch.next, batch.more
        if not asked.more or len(asked.found) >= asked.limit:
            break
    if asked.behind is not None:
        raise Refusal(INVALID_REQUEST, f"after: there is no event {asked.behind}", details={"field": "after"})
    events = [one.document() for one in asked.found]
    return answer(request, {"events": events, "has_more": asked.more, "next": asked.at.token})


async def _asked(request: Request, db: Database) -> Asked:
    dependencies.only(request, *PARAMETERS)
    limit, _ = dependencies.page(request, most=1000)
    types, queues = (_listed(request, name) for name in ("types", "queues"))
    for pattern in types:
        if not any(_matches(type_, pattern) for type_ in TYPES):
            told = f"types: {pattern[:100]!r} is no event: there are {', '.join(sorted(TYPES))}, and job.*, workflow.*"
            raise Refusal(INVALID_REQUEST, told, details={"field": "types"})
    after = request.query_params.get("after") or request.query_params.get("cursor")
    run = await _run(db, request.query_params.get("workflow_id"))
    if after is None:
        at = Cursor(Snapshot(0)) if run is not None else await ojs_jobs.recent(db)
        return Asked(db.org, types, queues, limit, at, run)
    if (event := _event_id(after)) is None:
        return Asked(db.org, types, queues, limit, Cursor.parse(after), run)
    at = Cursor(Snapshot(0 if run is not None else max(0, int(event[1]) - NEIGHBOURS)))
    return Asked(db.org, types, queues, limit, at, run, after)


async def _run(db: Database, workflow_id: str | None) -> UUID | None:
    """The run of a workflow, as its client knows it, or of one that was not made through this face."""
    if workflow_id is None:
        return None
    own = compositions.own_id(workflow_id)
    async with db.once() as conn:
        try:
            return (await compositions.find(conn, db, workflow_id))[0]
        except NotFound:
            if own is None:
                raise Refusal(NOT_FOUND, f"Workflow {workflow_id[: compositions.MAX_ID]} not found") from None
            return own


def _matches(type_: str, pattern: str) -> bool:
    return type_ == pattern or (pattern.endswith(".*") and type_.startswith(pattern[:-1]))


def _room(told: Sequence[tuple[OjsEvent, Cursor]], room: int) -> int:
    """Two events of one line are told together: there is no place between them."""
    while 0 < room < len(told) and told[room][1] == told[room - 1][1]:
        room += 1
    return max(room, 0)


def _listed(request: Request, name: str) -> list[str]:
    return [item for item in request.query_params.get(name, "").split(",") if item]


ROUTES = [Route("/events", list_, methods=["GET"])]
