"""What happened, for clients that poll: engine.happenings says what there is.

A client that goes on from `next` misses nothing and sees nothing twice: see core.trail.
"""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.core.happening import Happening
from windlass.engine import happenings, job_events, live
from windlass.engine.live import Cursor
from windlass.web.ojs import given
from windlass.web.ojs.answers import answer

MOST_BATCHES = 20  # of lines that are looked at for one answer


async def list_(request: Request) -> Response:
    unit = await given.unit(request)
    limit, _ = given.page(request, most=1000)
    wanted = [_listed(request, name) for name in ("types", "queues")]
    after = request.query_params.get("after") or request.query_params.get("cursor")
    at = Cursor.parse(after) if after else await job_events.recent(unit)
    found: list[Happening] = []
    more = True
    for _ in range(MOST_BATCHES):
        batch = await live.since(unit, at)
        told = [one for one in await happenings.of_batch(unit, batch) if _fits(one[0], unit.org, *wanted)]
        room = _room(told, limit - len(found))
        found += [event for event, _ in told[:room]]
        if len(told) > room:
            at = told[room - 1][1] if room else at
            break
        at, more = batch.next, batch.more
        if not more or len(found) >= limit:
            break
    return answer(request, {"events": [one.document() for one in found], "has_more": more, "next": str(at)})


def _room(told: Sequence[tuple[Happening, Cursor]], room: int) -> int:
    """Two events of one line are told together: there is no place between them."""
    while 0 < room < len(told) and told[room][1] == told[room - 1][1]:
        room += 1
    return max(room, 0)


def _fits(event: Happening, org: str, types: Sequence[str], queues: Sequence[str]) -> bool:
    return event.org == org and (not types or event.type in types) and (not queues or event.data.get("queue") in queues)


def _listed(request: Request, name: str) -> list[str]:
    return [item for item in request.query_params.get(name, "").split(",") if item]


ROUTES = [Route("/events", list_, methods=["GET"])]
