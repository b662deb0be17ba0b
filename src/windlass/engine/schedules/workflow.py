"""Starts runs for due schedules and for requests to a workflow's webhook address.

One tick starts one run, however many schedulers run: a schedule is fired under its lock, and the run has the tick's
idempotency key.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from uuid import UUID

from windlass.core.cron import schedule
from windlass.core.cron.schedule import Overlap, Schedule
from windlass.core.definition.fields import workflow_name_mistake
from windlass.core.events import webhook
from windlass.core.events.webhook import parse_body
from windlass.core.explain.snapshot import SCHEDULED_FOR
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import encode
from windlass.core.runs.event import CancelRequested
from windlass.core.runs.run import LIVE, Reason
from windlass.core.workflows.workflow import Trigger, WebhookTrigger
from windlass.engine.database import Database, Tenant
from windlass.engine.definitions import find_live
from windlass.engine.orgs import audit
from windlass.engine.quarantine import Kind, each_alone
from windlass.engine.runs import start as run_start
from windlass.engine.runs.inputs import Versions, start_checked
from windlass.engine.runs.settle import Wakeups, settle
from windlass.engine.runs.start import RunSpec
from windlass.engine.schedules.publish import new_token, pause_invalid
from windlass.errors import Conflict, Invalid, NotFound, QuotaExceeded, Refused
from windlass.schemas.common import CREATE_LIMIT, PAGE_LIMIT
from windlass.store import runs
from windlass.store import schedules as store
from windlass.store.postgres.pool import Connection, savepoint
from windlass.store.schedules import LockedSchedule, NextDue, ScheduleRow

__all__ = ["NextDue", "ScheduleRow"]
ACTOR = "scheduler"
REPLACED = "the next tick of its schedule replaced it"
MAX_REASON = 1024
MAX_TOKEN = 128
MAX_KEY = 255
_log = logging.getLogger("windlass.triggers")


@dataclass(frozen=True, slots=True)
class Backfill:
    """The run of each tick, and how many were started now. `next` is the first tick beyond the limit; None: the end."""

    runs: list[tuple[datetime, UUID]]
    started: int
    next: datetime | None


@dataclass(frozen=True, slots=True)
class Unfilled:
    """The number of ticks within the limit that have no run; `next` as in a backfill."""

    count: int
    next: datetime | None


# Firing


async def tick(db: Database, *, batch: int = 100) -> int:
    """Fire the schedules that are due, each in its own transaction; return their number."""
    async with db.once() as conn:
        due = await store.find_due(conn, batch)
    return await each_alone(db, Kind.TRIGGER, due, partial(serve, db))


async def next_due(db: Database) -> NextDue:
    """Return how long until a schedule of any kind is due, and whether ticks wait for runs or jobs to end."""
    async with db.once() as conn:
        return await store.next_due(conn)


async def serve(db: Database, id_: UUID) -> bool:
    """Start the runs that are due; return False if another process holds the schedule or a key was just taken."""
    try:
        return await _serve(db, id_)
    except Conflict as conflict:
        _log.warning("schedule %s will be retried shortly: %s", id_, conflict)
        return False


async def _serve(db: Database, id_: UUID) -> bool:
    async with db.begin() as conn:
        locked = await store.lock_due(conn, id_)
        if locked is None:
            return False
        if not locked.enabled:
            await store.disable(conn, locked.workflow_id)
            return True
        try:
            async with savepoint(conn):  # after a failed tick the schedule is still locked, and is paused
                wakeups = await _fire(conn, db.tenant(locked.org, actor=ACTOR), locked)
        except (Invalid, NotFound) as error:
            await pause_invalid(conn, locked, error)
            wakeups = []
    for each in wakeups:
        each.poke(db)
    return True


async def _fire(conn: Connection, db: Tenant, locked: LockedSchedule) -> list[Wakeups]:
    live = await store.live_runs(conn, locked.workflow_id) if locked.schedule.overlap is not Overlap.ALLOW else []
    firing = schedule.fire(locked.schedule, locked.now, live=bool(live))
    specs = [_spec(locked, tick) for tick in firing.ticks]
    cancelled, started, ids = Wakeups(), Wakeups(), list[UUID]()
    try:
        async with savepoint(conn) if firing.replaces else contextlib.nullcontext():
            if firing.replaces:
                cancelled = await _cancel(conn, db, live)
            ids, started = await run_start.include(conn, db, locked.workflow, specs, checked=None)
    except QuotaExceeded as refusal:
        cancelled, firing = Wakeups(), schedule.skip(firing, str(refusal))
    await store.move(conn, locked.id, firing, run_id=ids[-1] if ids else None)
    if firing.reason:
        skipped = (locked.workflow, firing.skipped_at, firing.reason)
        _log.info("the schedule of workflow %s started no run for %s: %s", *skipped)
    return [cancelled, started]


async def _cancel(conn: Connection, db: Tenant, ids: Sequence[UUID]) -> Wakeups:
    locked = [run for run in await runs.lock(conn, ids) if run.state in LIVE]
    events = {run.id: [CancelRequested(Reason("replaced", REPLACED))] for run in locked}
    return await settle(conn, db, locked, events, actor=db.actor) if locked else Wakeups()


def _spec(locked: LockedSchedule, tick: datetime, **labels: str) -> RunSpec:
    return RunSpec(
        input=locked.input,
        idempotency_key=schedule.key(locked.id, tick),
        labels=labels,
        headers={SCHEDULED_FOR: schedule.moment(tick)},
    )


# Operations


async def get(db: Tenant, name: str) -> ScheduleRow:
    async with db.begin() as conn:
        row = None if workflow_name_mistake(name) else await store.get(conn, name, org=db.org)
        if row is None:
            raise await _unscheduled(conn, db, name)
    return row


async def pause(db: Tenant, name: str, *, reason: str | None = None) -> None:
    """Pause a schedule: no tick starts a run until it is resumed; live runs continue."""
    encode(reason, field="reason", limit=MAX_REASON)
    async with db.begin() as conn:
        await store.pause(conn, (await _lock(conn, db, name)).id, reason)
        await audit.record(conn, db, "schedule.pause", name, reason=reason)


async def resume(db: Tenant, name: str) -> None:
    """Resume with the first tick after now: ticks missed during the pause are not caught up."""
    async with db.begin() as conn:
        locked = await _lock(conn, db, name)
        following = schedule.following(locked.schedule, locked.now) if locked.enabled else None
        await store.resume(conn, locked.id, following)
        await audit.record(conn, db, "schedule.resume", name)


async def run_now(db: Tenant, name: str) -> UUID:
    """Start a run with the schedule's input, even if others are running; the ticks do not change."""
    async with db.begin() as conn:
        locked = await _lock(conn, db, name)
        [id_], wakeups = await run_start.include(conn, db, name, [RunSpec(input=locked.input)], checked=None)
        await audit.record(conn, db, "schedule.run", name, run=str(id_))
    wakeups.poke(db)
    return id_


async def preview(db: Tenant, name: str, *, count: int = 10) -> list[datetime]:
    """Return the next ticks, in the schedule's time zone; for a paused schedule, those it would have."""
    check_range(count, "count", most=PAGE_LIMIT)
    row = await get(db, name)
    upcoming = Schedule(cron=row.cron, timezone=row.timezone, next_run_at=row.next_run_at)
    async with db.once() as conn:
        return schedule.upcoming(upcoming, await runs.now(conn), count)


async def backfill(
    db: Tenant, name: str, start: datetime, end: datetime | None = None, *, limit: int = 1000
) -> Backfill:
    """Start the runs of past ticks from `start` until before `end` (default: now). Ticks with a run are skipped."""
    async with db.begin() as conn:
        locked = await _lock(conn, db, name)
        ticks, known, beyond = await _past(conn, db, locked, (start, end), limit)
        specs = [_spec(locked, tick, backfill=schedule.moment(locked.now)) for tick in ticks]
        ids, wakeups = await run_start.include(conn, db, name, specs, checked=None)
        await audit.record(conn, db, "schedule.backfill", name, count=len(ids) - known)
    wakeups.poke(db)
    return Backfill(list(zip(ticks, ids, strict=True)), len(ids) - known, beyond)


async def unfilled(
    db: Tenant, name: str, start: datetime, end: datetime | None = None, *, limit: int = 1000
) -> Unfilled:
    """Return how many runs a backfill would start."""
    async with db.begin() as conn:
        ticks, known, beyond = await _past(conn, db, await _lock(conn, db, name), (start, end), limit)
    return Unfilled(len(ticks) - known, beyond)


async def _past(
    conn: Connection, db: Tenant, locked: LockedSchedule, span: tuple[datetime, datetime | None], limit: int
) -> tuple[list[datetime], int, datetime | None]:
    """Return past ticks up to the limit, how many of them have a run, and the first tick beyond the limit."""
    start, end = span[0], locked.now if span[1] is None else span[1]
    _check_range(start, end, locked.now, limit)
    past = schedule.between(locked.schedule, start, end, limit=limit + 1)
    ticks = past[:limit]
    known = await runs.find_keys(conn, [schedule.key(locked.id, tick) for tick in ticks], org=db.org)
    return ticks, len(known), past[limit] if len(past) > limit else None


def _check_range(start: datetime, end: datetime, now: datetime, limit: int) -> None:
    for field, moment in (("start", start), ("end", end)):
        if moment.utcoffset() is None:
            raise Invalid(f"{field} is {moment.isoformat()}: it needs a time zone, for example a Z", field=field)
    if start >= end:
        raise Invalid("the range is empty: it ends before it begins", field="end")
    if end > now:
        raise Invalid(
            f"{schedule.moment(end)} is in the future: the schedule will start those runs itself", field="end"
        )
    check_range(limit, "limit", most=CREATE_LIMIT)


async def _lock(conn: Connection, db: Tenant, name: str) -> LockedSchedule:
    locked = None if workflow_name_mistake(name) else await store.lock_named(conn, name, org=db.org)
    if locked is None:
        raise await _unscheduled(conn, db, name)
    return locked


async def _unscheduled(conn: Connection, db: Tenant, name: str) -> NotFound:
    await find_live(conn, name, org=db.org)
    return NotFound("schedule of workflow", name, hint="its trigger is not a cron")


# Webhook requests


async def check_token(db: Database, token: str) -> None:
    """Raise the error that `receive` would raise for this token, before an untrusted body is read."""
    if len(token) > MAX_TOKEN:
        raise _unknown_address()
    async with db.once() as conn:
        _checked(await store.of_token(conn, webhook.token_digest(token)))


async def receive(db: Database, token: str, body: bytes, headers: Mapping[str, str]) -> UUID:
    """Start a run from a request to a workflow's webhook address, with its body as input and its headers."""
    if len(token) > MAX_TOKEN:
        raise _unknown_address()
    return await start_checked(db, partial(_receive, db, token, body, headers))


async def _receive(db: Database, token: str, body: bytes, headers: Mapping[str, str], checked: Versions) -> UUID:
    async with db.begin() as conn:
        address = _checked(await store.of_token(conn, webhook.token_digest(token)))
        trigger = (await db.definitions.one(conn, address.version_id)).trigger
        lowered = {name.lower(): value for name, value in headers.items()}
        if isinstance(trigger, WebhookTrigger) and trigger.secret is not None:
            secret = await db.vault.resolve(conn, address.org, trigger.secret)
            _check_signature(secret, trigger.scheme, lowered, body, address.now)
        key = _key(address.name, trigger, lowered, body)
        spec = RunSpec(input=parse_body(body, lowered.get("content-type")), headers=lowered, idempotency_key=key)
        acting = db.tenant(address.org, actor="webhook")
        [id_], wakeups = await run_start.include(conn, acting, address.name, [spec], checked=checked)
    wakeups.poke(db)
    return id_


async def rotate(db: Tenant, name: str) -> str:
    """Replace the token of a workflow's webhook address and return it: it is shown once; the old one stops working."""
    token = new_token()
    async with db.begin() as conn:
        live = await find_live(conn, name, org=db.org)
        workflow = await db.definitions.one(conn, live.version_id)
        if not isinstance(workflow.trigger, WebhookTrigger):
            raise Conflict(f"workflow {name!r} has no address: its trigger is not a webhook")
        await store.rotate(conn, live.workflow_id, webhook.token_digest(token))
        await audit.record(conn, db, "workflow.rotate", name)
    return token


async def address(db: Database, token: str) -> str:
    """Return the URL for requests with this token."""
    async with db.once() as conn:
        return f"{await db.public_url.get(conn)}/in/{token}"


def _check_signature(
    secret: str, scheme: webhook.Scheme, headers: Mapping[str, str], body: bytes, now: datetime
) -> None:
    """Raise `Refused` if a request is not signed as its workflow requires, before any part of it is used."""
    if why := webhook.signature_mistake(secret, headers, body, now, scheme):
        raise Refused(f"the request is not signed as the workflow requires ({scheme}): {why}")


def _key(workflow: str, trigger: Trigger, headers: Mapping[str, str], body: bytes) -> str | None:
    """Return the idempotency key of a request, so that a repeated request starts no second run.

    Where requests are signed, only an id that the signature covers counts (except for GitHub, see `signed_id`): a
    replay could change any other header.
    """
    if isinstance(trigger, WebhookTrigger) and trigger.secret is not None:
        id_ = webhook.signed_id(headers, body, trigger.scheme)
    else:
        id_ = headers.get("idempotency-key") or headers.get("webhook-id")
    if not id_:
        return None
    if len(id_) > MAX_KEY:
        raise Invalid(f"idempotency-key has {len(id_)} characters, the limit is {MAX_KEY}", field="idempotency-key")
    return f"webhook/{workflow}/{id_}"


def _checked(address: store.Address | None) -> store.Address:
    if address is None:
        raise _unknown_address()
    if not address.enabled:
        raise Conflict("the workflow of this address is disabled")
    return address


def _unknown_address() -> NotFound:
    return NotFound("workflow", "has this address")
