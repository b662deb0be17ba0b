"""Manages webhook subscriptions and delivers events to them by signed requests.

Events are read in the same way as for the live stream. The cursor and the delivery jobs are written in one transaction,
so each event creates exactly one job per subscription, even after a crash. The job is retried until the receiver
accepts the event or the attempts are used up.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from windlass.core.events.cursor import Cursor
from windlass.core.events.ojs import (
    DELIVERY_TYPE,
    MAX_ATTEMPTS,
    OVERLAP,
    REQUESTED,
    RETRY,
    TIMEOUT,
    EventFilter,
    OjsEvent,
    Target,
    check_events,
    instant,
    secret_of,
)
from windlass.core.events.webhook import MIN_SECRET
from windlass.core.jobs.spec import OWN_QUEUE, JobSpec, check_name
from windlass.core.json_value import encode
from windlass.effects.http import request
from windlass.engine import approvals, quarantine
from windlass.engine.database import Database, Tenant, new_ids
from windlass.engine.events import ojs as ojs_events
from windlass.engine.events import stream
from windlass.engine.events.stream import ForeignCursor
from windlass.engine.faults import point
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import audit
from windlass.engine.quarantine import Kind, split_batch
from windlass.engine.vault import subscription_secret
from windlass.errors import Conflict, Invalid, Locked, NotFound, Unavailable
from windlass.schemas.approvals import ApprovalLinks
from windlass.store import events as event_store
from windlass.store import subscriptions as store
from windlass.store.orgs import secrets
from windlass.store.postgres.pool import Connection
from windlass.store.subscriptions import Change, Interest, Subscription

__all__ = ["Subscription"]
TOPIC = "subscriptions"  # of the notification after a subscription was created or changed
MOST = 1000  # per org
MOST_GIVEN_UP = 50  # consecutive failed deliveries that deactivate a subscription
MAX_METADATA = 16_384
_log = logging.getLogger("windlass.subscriptions")
CHUNK = 1000  # jobs in one statement
STRIDE = 1000  # transactions: without events the cursor is saved only this often, since saving it is a transaction, too


@dataclass(frozen=True, slots=True)
class FeedResult:
    """The number of lines read and deliveries made, and whether there is more to read."""

    lines: int = 0
    deliveries: int = 0
    more: bool = False


async def create(db: Tenant, body: Mapping[str, Any]) -> tuple[Subscription, str]:
    """Create a subscription; return it with its secret, which is not shown again."""
    change, secret = _change(body, whole=True), _secret(body.get("secret"))
    [id_] = new_ids(1)
    async with db.begin() as conn:
        if await store.count(conn, org=db.org) >= MOST:
            raise Conflict(f"there are {MOST} subscriptions already: delete one that is not used")
        await store.begin_at(conn, str(Cursor(await event_store.here(conn))), but=id_)
        made = await store.insert(conn, id_, change, org=db.org)
        await audit.record(conn, db, "subscription.create", str(id_))
        signed = await _signed_with(conn, db, made, secret)
    db.poke(TOPIC)
    return made, signed


async def get(db: Tenant, id_: UUID) -> Subscription:
    async with db.once() as conn:
        return _known(await store.get(conn, id_, org=db.org), id_)


async def list_(db: Tenant, *, limit: int = 50, offset: int = 0) -> tuple[list[Subscription], int]:
    """Return a page and the total count."""
    async with db.begin() as conn:
        return await store.list_(conn, org=db.org, limit=limit, offset=offset), await store.count(conn, org=db.org)


async def change(db: Tenant, id_: UUID, body: Mapping[str, Any]) -> Subscription:
    """Change the given fields. A reactivated subscription receives only events from then on."""
    requested = _change(body)
    async with db.begin() as conn:
        if requested.active:
            await store.begin_at(conn, str(Cursor(await event_store.here(conn))), but=id_)
        changed = _known(await store.change(conn, id_, requested, org=db.org), id_)
        await audit.record(conn, db, "subscription.change", str(id_))
    db.poke(TOPIC)
    return changed


async def rotate(db: Tenant, id_: UUID, *, secret: str | None = None) -> tuple[Subscription, str]:
    """Replace the secret; for a day requests are signed with the previous one, too."""
    own_secret = _secret(secret)
    async with db.begin() as conn:
        subscription = _known(await store.rotate(conn, id_, org=db.org), id_)
        await audit.record(conn, db, "subscription.rotate", str(id_))
        return subscription, await _signed_with(conn, db, subscription, own_secret)


async def remove(db: Tenant, id_: UUID) -> None:
    """Delete a subscription; pending deliveries are dropped."""
    async with db.begin() as conn:
        if not await store.remove(conn, id_, org=db.org):
            raise NotFound("subscription", id_)
        await audit.record(conn, db, "subscription.delete", str(id_))
        await secrets.delete_below(conn, db.org, subscription_secret(id_, ""))


async def target(db: Database, id_: UUID, *, job: UUID | None = None) -> Target | None:
    """Return a delivery's URL and secrets; None if the subscription is inactive or not of the job's org."""
    async with db.begin() as conn:
        row = await store.target(conn, id_, job, overlap=OVERLAP)
        if row is None:
            return None
        rotations = [row.rotation, row.rotation - 1] if row.overlaps else [row.rotation]
        names = [(row.org, subscription_secret(id_, rotation)) for rotation in rotations]
        own, key = await db.vault.read(conn, names), await db.hook_key(conn)
    signing = [own.get(name) or secret_of(key, id_, rotation) for name, rotation in zip(names, rotations, strict=True)]
    return Target(row.url, signing, row.now)


async def delivered(db: Database, id_: UUID) -> None:
    async with db.once() as conn:
        await store.delivered(conn, id_)


async def delivery_failed(db: Database, id_: UUID, *, reason: str | None = None) -> None:
    """Count a delivery that failed for good; many in a row, or a `reason` to stop, deactivate the subscription."""
    async with db.once() as conn:
        await store.delivery_failed(conn, id_, most=MOST_GIVEN_UP, reason=reason)


async def place(db: Database) -> str | None:
    """Return the cursor of the event reader; None if no subscription is active."""
    async with db.once() as conn:
        return await store.place(conn)


async def feed(db: Database, *, batch: int = 500) -> FeedResult:
    """Read the next events and enqueue a delivery job for each event and each subscription that matches it."""
    begun = await place(db)
    if begun is None:
        return FeedResult()
    at = Cursor.parse(begun)
    try:
        read = await stream.since(db, at, limit=batch)
    except ForeignCursor:  # the data came from another cluster, which has other transaction ids
        return await _restart(db, begun)
    events = await _with_links([event for event, _ in await ojs_events.of_batch(db, read)], db)
    moves = bool(read.entries or read.more or read.upto.xmax - at.upto.xmax > STRIDE)
    try:
        made = await _deliver(db, events, begun, str(read.next) if moves else None)
    except Unavailable:
        raise
    except Exception as error:
        _log.warning("deliveries of %d events are enqueued in smaller batches: %s", len(events), error)
        await _deliver_apart(db, events)
        made = await _deliver(db, [], begun, str(read.next))
    if made:
        db.poke(OWN_QUEUE)
    return FeedResult(len(read.entries), made or 0, read.more) if made is not None else FeedResult()


async def _with_links(events: Sequence[OjsEvent], db: Database) -> list[OjsEvent]:
    """Add the links to the events of open approvals. Only subscribers get them: anyone with a link may decide."""
    ids = [UUID(event.data["approval_id"]) for event in events if event.type == REQUESTED]
    links = await approvals.links_of(db, ids) if ids else {}
    return [
        replace(event, data={**event.data, "links": _links(links[UUID(event.data["approval_id"])])})
        if event.type == REQUESTED and UUID(event.data["approval_id"]) in links
        else event
        for event in events
    ]


def _links(links: ApprovalLinks) -> dict[str, str]:
    return {"approve": links.approve, "reject": links.reject, "expires_at": instant(links.expires_at)}


async def _deliver(db: Database, events: Sequence[OjsEvent], begun: str, place: str | None) -> int | None:
    """Enqueue the delivery jobs of these events and move the cursor, in one transaction; return the number of jobs.

    Return None if another process has locked or moved the cursor.
    """
    async with db.begin() as conn:
        if await store.lock_cursor(conn) != begun:  # locks the cursor; None if another process has it locked
            return None
        made = await _enqueue(conn, db, await _deliveries(conn, events))
        point("feed.enqueued")
        if place is not None:
            await store.save_cursor(conn, place)
    return made


async def _deliver_apart(db: Database, events: Sequence[OjsEvent]) -> None:
    """Enqueue the delivery jobs in smaller batches; put events that cannot be delivered into quarantine.

    The idempotency keys prevent a second job for a delivery that was enqueued before.
    """

    async def enqueue(batch: Sequence[OjsEvent]) -> int:
        async with db.begin() as conn:
            return await _enqueue(conn, db, await _deliveries(conn, batch))

    async def set_aside(event: OjsEvent, error: Exception) -> None:
        if isinstance(error, Locked):  # not caused by the event, and quarantined events are not retried
            raise error
        await quarantine.set_aside(db, Kind.EVENT, event.id, error, retry=False)

    await split_batch(events, enqueue, set_aside)


async def _deliveries(conn: Connection, events: Sequence[OjsEvent]) -> Mapping[str, Sequence[JobSpec]]:
    interests: dict[str, list[Interest]] = defaultdict(list)
    for interest in await store.interests(conn) if events else ():
        interests[interest.org].append(interest)
    specs: dict[str, list[JobSpec]] = defaultdict(list)
    for event in events:
        specs[event.org] += [_delivery(each, event) for each in interests[event.org] if _matches(each, event)]
    return specs


async def _restart(db: Database, begun: str) -> FeedResult:
    """Move the cursor to the end of the event trail, and log that events since the dump are not delivered."""
    async with db.begin() as conn:
        if await store.lock_cursor(conn) == begun:
            await store.save_cursor(conn, str(Cursor(await event_store.here(conn))))
            _log.warning("the saved cursor is not in this event trail: subscribers receive only later events")
    return FeedResult()


async def _enqueue(conn: Connection, db: Database, specs: Mapping[str, Sequence[JobSpec]]) -> int:
    for org, org_specs in specs.items():
        acting = db.tenant(org, actor="subscriptions")
        for first in range(0, len(org_specs), CHUNK):
            await jobs.submit(acting, org_specs[first : first + CHUNK], connection=conn)
    return sum(map(len, specs.values()))


def _matches(interest: Interest, event: OjsEvent) -> bool:
    return event.at >= interest.since and EventFilter(interest.events, interest.queues, interest.types).covers(event)


def _delivery(interest: Interest, event: OjsEvent) -> JobSpec:
    return JobSpec(
        type=DELIVERY_TYPE,
        payload={"subscription": str(interest.id), "event": event.document()},
        queue=OWN_QUEUE,
        max_attempts=MAX_ATTEMPTS,
        retry=RETRY,
        timeout=TIMEOUT,
        idempotency_key=f"webhook/{interest.id}/{event.id}",
        internal=True,
    )


def _change(body: Mapping[str, Any], *, whole: bool = False) -> Change:
    """Return the requested change, validated; `whole`: for a new subscription."""
    url = body.get("url")
    if url is not None or whole:
        if not isinstance(url, str) or len(url) > 2048:
            raise Invalid("url must be an address that begins with https:// or http://", field="url")
        request.read_url(url)
    events = check_events(body.get("events")) if whole or body.get("events") is not None else None
    active, filter_, metadata = body.get("active"), body.get("filter"), body.get("metadata")
    if active is not None and not isinstance(active, bool):
        raise Invalid("active must be true or false", field="active")
    if filter_ is not None and not isinstance(filter_, dict):
        raise Invalid("filter must be an object with queues or job_types", field="filter")
    if metadata is not None and not isinstance(metadata, dict):
        raise Invalid("metadata must be an object", field="metadata")
    return Change(
        url=url,
        events=events,
        queues=_names(filter_, "queues"),
        types=_names(filter_, "job_types"),
        metadata=None if metadata is None else encode(metadata, field="metadata", limit=MAX_METADATA),
        active=active if active is not None or not whole else True,
    )


def _names(filter_: Mapping[str, Any] | None, name: str) -> list[str] | None:
    names = None if filter_ is None else filter_.get(name, [])
    if names is None:
        return None
    if not isinstance(names, list) or len(names) > 100:
        raise Invalid(f"filter.{name} must be a list of at most 100 names", field=f"filter.{name}")
    for one in names:
        check_name(one, f"filter.{name}", "give a name")
    return names


async def _signed_with(conn: Connection, db: Tenant, subscription: Subscription, own: str | None) -> str:
    """Store the secret of this rotation and return it. If `own` is None, it is derived from the hook key instead."""
    id_, rotation = subscription.id, subscription.rotation
    kept = [subscription_secret(id_, number) for number in (rotation, rotation - 1)]
    await secrets.lock(conn, db.org)
    await secrets.delete_below(conn, db.org, subscription_secret(id_, ""), keep=kept)
    if own is None:
        return secret_of(await db.hook_key(conn), id_, rotation)
    await db.vault.put(conn, db.org, kept[0], own, by=db.actor)
    return own


def _secret(secret: object) -> str | None:
    if secret is None:
        return None
    check_name(secret, "secret", f"leave it out, or give at least {MIN_SECRET} characters")
    assert isinstance(secret, str)
    if len(secret) < MIN_SECRET:
        raise Invalid(f"secret is too short: give at least {MIN_SECRET} characters, or leave it out", field="secret")
    return secret


def _known(subscription: Subscription | None, id_: UUID) -> Subscription:
    if subscription is None:
        raise NotFound("subscription", id_)
    return subscription
