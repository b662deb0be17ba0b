"""Delivers events to webhook subscribers: a loop that turns events into jobs, and the handler that sends them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from windlass.core.events.ojs import DELIVERY_TYPE, MAX_ATTEMPTS, TEST, TIMEOUT, OjsEvent, Target, headers
from windlass.core.jobs.job import Cancelled, Failed, Outcome, Succeeded
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.json_value import RESULT_LIMIT, decode, encode
from windlass.effects.context import Context
from windlass.effects.handlers import Handler
from windlass.effects.http.step import Http, HttpRequest
from windlass.effects.tracing import traceparent
from windlass.engine.database import Database, Tenant
from windlass.engine.events import subscriptions
from windlass.engine.events.subscriptions import FeedResult
from windlass.engine.upkeep import PendingWork
from windlass.errors import NotFound, Unavailable
from windlass.runtime.loops.loop import SELDOM, LeaderTerm, run_periodically

GONE = 410  # HTTP 410 Gone: the receiver wants no further deliveries


@dataclass(frozen=True, kw_only=True)
class DeliveryOptions:
    every: timedelta = timedelta(milliseconds=500)  # while there are subscriptions
    idle: timedelta = SELDOM  # while there are none
    term: timedelta = timedelta(seconds=10)
    batch: int = 500


class Deliveries:
    """Creates delivery jobs from the event trail.

    The leader term normally lets one process read the trail. If two do, only the one that locks the cursor row before
    it has moved creates jobs.
    """

    def __init__(self, db: Database, holder: str, options: DeliveryOptions | None = None) -> None:
        self.options = options or DeliveryOptions()
        self._db = db
        self._term = LeaderTerm(db, "subscriptions", holder, length=self.options.term)
        self._wake = asyncio.Event()
        self._has_subscriptions = True

    async def tick(self) -> FeedResult:
        """Create a batch of delivery jobs; none if there is no subscription or another process holds the term."""
        self._has_subscriptions = await subscriptions.place(self._db) is not None
        if not self._has_subscriptions or not await self._term.held():
            return FeedResult()
        return await subscriptions.feed(self._db, batch=self.options.batch)

    async def run(self, stop: asyncio.Event) -> None:
        async def round_() -> timedelta | None:
            if (await self.tick()).more:
                return timedelta()
            return self.options.every if self._has_subscriptions else None

        with self._db.subscribe(self._woken):
            await run_periodically(round_, every=self.options.idle, stop=stop, wake=self._wake)
        with contextlib.suppress(Unavailable):
            await self._term.resign()

    def notice(self, work: PendingWork, within: timedelta) -> bool:
        """Wake the loop for the first subscription: while there are subscriptions it polls on its own."""
        if has_work := work.process.subscriptions and not self._has_subscriptions:
            self.wake()
        return has_work

    def wake(self) -> None:
        self._wake.set()

    def _woken(self, topic: str) -> None:
        if topic in (subscriptions.TOPIC, ""):
            self.wake()


def delivery_handler(http: Http, open_: Callable[[], Awaitable[Database]]) -> Handler:
    """Return the handler of delivery jobs. It looks up the URL and the signing secret when it sends, because both may
    have changed since the event."""

    async def deliver(ctx: Context, payload: Any) -> Outcome:
        db, id_ = await open_(), UUID(payload["subscription"])
        target = await subscriptions.target(db, id_, job=ctx.id) if ctx.queue == OWN_QUEUE else None
        if target is None:
            return Cancelled()
        outcome = await _send(http, target, payload, ctx.id, ctx.fence, ctx.attempt)
        if isinstance(outcome, Succeeded):
            await subscriptions.delivered(db, id_)
        elif isinstance(outcome, Failed) and (not outcome.retryable or ctx.attempt >= MAX_ATTEMPTS):
            gone = _status(outcome.result) == GONE
            await subscriptions.delivery_failed(db, id_, reason="the receiver answered 410 Gone" if gone else None)
        return outcome

    return Handler.of(DELIVERY_TYPE, deliver, queue=OWN_QUEUE, keeps_time=True, wants_upstream=False)


async def ping(http: Http, db: Tenant, id_: UUID) -> dict[str, Any]:
    """Send a subscriber a test event now, and return the response."""
    await subscriptions.get(db, id_)
    target = await subscriptions.target(db, id_)
    if target is None:
        raise NotFound("active subscription", id_)
    began = datetime.now(UTC)
    event = OjsEvent(f"test-{uuid4().hex}", TEST, str(id_), began, db.org, {"message": "a test of Windlass"})
    payload = {"subscription": str(id_), "event": event.document()}
    outcome = await _send(http, target, payload, id_, fence=1, attempt=1)
    answer = decode(outcome.result) if isinstance(outcome, Succeeded | Failed) and outcome.result else {}
    took = (datetime.now(UTC) - began) / timedelta(milliseconds=1)
    result = {"success": isinstance(outcome, Succeeded), "response_time_ms": answer.get("duration_ms", round(took))}
    if answer:
        result |= {"status_code": answer["status_code"], "response_body": answer["body"]}
    if isinstance(outcome, Failed):
        result["error"] = outcome.error["message"]
    return result


async def _send(http: Http, target: Target, payload: Any, job: UUID, fence: int, attempt: int) -> Outcome:
    event = payload["event"]
    body = encode(event, field="event", limit=RESULT_LIMIT)  # encoded once: the signature covers these exact bytes
    request = HttpRequest(
        url=target.url,
        headers=headers(
            target, id_=event["id"], event=event["type"], subscription=payload["subscription"], body=body.encode()
        ),
        body=body,
        idempotency_key=event["id"],
        fence=fence,
        attempt=attempt,
        run_id=job,
        timeout=TIMEOUT,
        traceparent=traceparent(),
    )
    return await http.perform(request)


def _status(result: str | None) -> int | None:
    status: int | None = decode(result).get("status_code") if result else None
    return status
