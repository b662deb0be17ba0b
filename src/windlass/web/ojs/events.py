"""Events: polled at /events, or delivered to webhook subscriptions.

A client that polls with the `next` of the previous page receives each event exactly once (see core.events.cursor). A
client that polls with the id of an event receives the events that are now listed after it, and may miss those of a
transaction that committed late, which may be listed before it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.events.cursor import Snapshot
from windlass.core.events.ojs import TYPES, OjsEvent
from windlass.core.orgs import Scope
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Tenant
from windlass.engine.events import ojs as ojs_events
from windlass.engine.events import stream, subscriptions
from windlass.engine.events.stream import Cursor
from windlass.engine.events.subscriptions import Subscription
from windlass.errors import Invalid, NotFound
from windlass.web.ojs import dependencies
from windlass.web.ojs.responses import NOT_FOUND, Refusal, answer, created, instant, pagination
from windlass.web.ojs.routing import Route

MOST_BATCHES = 20  # read for one response
NEIGHBOURS = 1000  # earlier transactions whose events may be listed after the one that a client has seen
PARAMETERS = ("types", "queues", "workflow_id", "limit", "offset", "after", "cursor")
SUBSCRIPTIONS = "/webhooks/subscriptions"
_event_id = re.compile(r"(\d{1,19})-[wc]?\d{1,19}(?:-\d)?").fullmatch


@dataclass(slots=True)
class Poll:
    """A client's filter and position, and the events collected for its response."""

    org: str
    types: Sequence[str]
    queues: Sequence[str]
    limit: int
    at: Cursor
    run: UUID | None = None  # only events of this workflow
    behind: str | None = None  # an event id: skip everything up to it
    events: list[OjsEvent] = field(default_factory=list)
    more: bool = True

    def take(self, batch: Sequence[tuple[OjsEvent, Cursor]]) -> bool:
        """Add the matching events of a batch; return False if the response is full before the end of the batch."""
        if self.behind is not None:
            places = [n for n, (event, _) in enumerate(batch) if event.id == self.behind]
            if not places:
                return True
            batch, self.behind = batch[places[0] + 1 :], None
        matching = [(event, cursor) for event, cursor in batch if self._matches(event)]
        room = max(self.limit - len(self.events), 0)
        # Two events of one line have the same cursor: there is no position between them, so they stay together.
        while 0 < room < len(matching) and matching[room][1] == matching[room - 1][1]:
            room += 1
        self.events += [event for event, _ in matching[:room]]
        if len(matching) > room:
            self.at = matching[room - 1][1] if room else self.at
            return False
        return True

    def _matches(self, event: OjsEvent) -> bool:
        return (
            event.org == self.org
            and (not self.types or any(_matches(event.type, pattern) for pattern in self.types))
            and (not self.queues or event.data.get("queue") in self.queues)
            and (self.run is None or "workflow_id" in event.beside or "workflow_id" in event.data)
        )


async def list_(request: Request) -> Response:
    db = await dependencies.db(request)
    poll = await _poll(request, db)
    for _ in range(MOST_BATCHES):
        batch = await stream.since(db, poll.at, run=poll.run)
        if not poll.take(await ojs_events.of_batch(db, batch)):
            break
        poll.at, poll.more = batch.next, batch.more
        if not poll.more or len(poll.events) >= poll.limit:
            break
    if poll.behind is not None:
        raise Invalid(f"after: there is no event {poll.behind}", field="after")
    events = [event.document() for event in poll.events]
    return answer(request, {"events": events, "has_more": poll.more, "next": poll.at.token})


async def _poll(request: Request, db: Tenant) -> Poll:
    dependencies.check_parameters(request, *PARAMETERS)
    limit, _ = dependencies.page(request, most=1000)
    types, queues = (
        [item for item in request.query_params.get(name, "").split(",") if item] for name in ("types", "queues")
    )
    for pattern in types:
        if not any(_matches(type_, pattern) for type_ in TYPES):
            known = f"{', '.join(sorted(TYPES))}, and job.*, workflow.*"
            raise Invalid(f"types: unknown event {pattern[:100]!r}: there are {known}", field="types")
    after = request.query_params.get("after") or request.query_params.get("cursor")
    run = await _run(db, request.query_params.get("workflow_id"))
    if after is None:
        at = Cursor(Snapshot(0)) if run is not None else await ojs_events.recent(db)
        return Poll(db.org, types, queues, limit, at, run)
    if (event := _event_id(after)) is None:
        return Poll(db.org, types, queues, limit, Cursor.parse(after), run)
    at = Cursor(Snapshot(0 if run is not None else max(0, int(event[1]) - NEIGHBOURS)))
    return Poll(db.org, types, queues, limit, at, run, after)


async def _run(db: Tenant, workflow_id: str | None) -> UUID | None:
    """Return the run of a workflow by its client's id, or by its run id if it was not created through OJS."""
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


# Webhook subscriptions. The secret is returned when it is created or rotated, and never again.


async def subscribe(request: Request) -> Response:
    made, secret = await subscriptions.create(await dependencies.db(request), await dependencies.body(request))
    return _answer(request, made, secret=secret, status=201, headers=created(SUBSCRIPTIONS[1:], made.id))


async def list_subscriptions(request: Request) -> Response:
    limit, offset = dependencies.page(request)
    rows, total = await subscriptions.list_(await dependencies.db(request), limit=limit, offset=offset)
    page = pagination(len(rows), total, limit, offset)
    return answer(request, {"subscriptions": [_subscription(row) for row in rows], "pagination": page})


async def get_subscription(request: Request) -> Response:
    db, id_ = await dependencies.db(request), _subscription_id(request)
    return _answer(request, await subscriptions.get(db, id_))


async def change_subscription(request: Request) -> Response:
    db, id_, body = await dependencies.db(request), _subscription_id(request), await dependencies.body(request)
    return _answer(request, await subscriptions.change(db, id_, body))


async def rotate_secret(request: Request) -> Response:
    body = await dependencies.body(request, optional=True)
    db, id_ = await dependencies.db(request), _subscription_id(request)
    changed, secret = await subscriptions.rotate(db, id_, secret=dependencies.string(body, "secret"))
    return _answer(request, changed, secret=secret)


async def unsubscribe(request: Request) -> Response:
    id_ = _subscription_id(request)
    await subscriptions.remove(await dependencies.db(request), id_)
    return answer(request, {"deleted": True, "id": str(id_)})


async def test_subscription(request: Request) -> Response:
    app, db = dependencies.app(request), await dependencies.db(request)
    return answer(request, await app.ping_subscription(_subscription_id(request), tenant=db))


def _subscription(row: Subscription) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": str(row.id),
        "url": row.url,
        "events": row.events,
        "active": row.active,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
    }
    if row.queues or row.types:
        fields["filter"] = {name: value for name, value in (("queues", row.queues), ("job_types", row.types)) if value}
    if row.metadata is not None:
        fields["metadata"] = row.metadata
    if row.delivered_at is not None:
        fields["last_delivered_at"] = instant(row.delivered_at)
    if row.off_reason is not None:
        fields["inactive_reason"] = row.off_reason
    return fields


def _answer(
    request: Request,
    row: Subscription,
    *,
    secret: str | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
) -> Response:
    fields = _subscription(row) | ({"secret": secret} if secret is not None else {})
    return answer(request, {**fields, "subscription": fields}, status=status, headers=headers)


def _subscription_id(request: Request) -> UUID:
    return dependencies.known_id(request.path_params["id"], "subscription")


ROUTES = [
    Route("/events", list_, methods=["GET"], needs=Scope.READ),
    Route(SUBSCRIPTIONS, subscribe, methods=["POST"], needs=Scope.DEPLOY),
    Route(SUBSCRIPTIONS, list_subscriptions, methods=["GET"], needs=Scope.READ),
    Route(f"{SUBSCRIPTIONS}/{{id}}", get_subscription, methods=["GET"], needs=Scope.READ),
    Route(f"{SUBSCRIPTIONS}/{{id}}", change_subscription, methods=["PATCH", "PUT"], needs=Scope.DEPLOY),
    Route(f"{SUBSCRIPTIONS}/{{id}}", unsubscribe, methods=["DELETE"], needs=Scope.DEPLOY),
    Route(f"{SUBSCRIPTIONS}/{{id}}/rotate-secret", rotate_secret, methods=["POST"], needs=Scope.DEPLOY),
    Route(f"{SUBSCRIPTIONS}/{{id}}/rotate", rotate_secret, methods=["POST"], needs=Scope.DEPLOY),
    Route(f"{SUBSCRIPTIONS}/{{id}}/test", test_subscription, methods=["POST"], needs=Scope.DEPLOY),
]
