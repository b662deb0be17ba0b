"""Updates the schedule, the webhook address and the event of a workflow when it is published, enabled or disabled.

All writes are part of a transaction that has locked the workflow's row.
"""

import logging
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from windlass.core.cron.schedule import Schedule, following
from windlass.core.events import webhook
from windlass.core.json_value import encode
from windlass.core.workflows.workflow import CronTrigger, EventTrigger, WebhookTrigger, Workflow
from windlass.engine.database import Database, Tenant, new_ids
from windlass.errors import Invalid
from windlass.store import runs, schedules
from windlass.store.postgres.pool import Connection
from windlass.store.schedules import LockedSchedule, NewSchedule
from windlass.store.workflows import Live

TOKEN_BYTES = 32
_log = logging.getLogger("windlass.triggers")


async def put(conn: Connection, db: Tenant, workflows: Sequence[Workflow], live: Mapping[str, Live]) -> dict[str, str]:
    """Write the schedules, addresses and events of workflows; return new tokens by name. They are not shown again."""
    timed = {live[one.name].workflow_id: one.trigger for one in workflows if isinstance(one.trigger, CronTrigger)}
    called = {live[one.name].workflow_id: one.name for one in workflows if isinstance(one.trigger, WebhookTrigger)}
    every = {live[one.name].workflow_id for one in workflows}
    await schedules.set_events(
        conn,
        [
            (live[one.name].workflow_id, one.trigger.event if isinstance(one.trigger, EventTrigger) else None)
            for one in workflows
        ],
    )
    await schedules.remove(conn, every - timed.keys())
    await schedules.remove_tokens(conn, every - called.keys())
    if timed:
        on = {known.workflow_id for known in live.values() if known.enabled}
        now = await runs.now(conn)
        rows = [
            _row(id_, workflow_id, trigger, now if workflow_id in on else None)
            for id_, (workflow_id, trigger) in zip(new_ids(len(timed)), timed.items(), strict=True)
        ]
        await schedules.put(conn, rows, org=db.org)
    return await _add_tokens(conn, called)


async def missing(db: Database, workflows: Sequence[Workflow], live: Mapping[str, Live]) -> list[Workflow]:
    """Return those of these published workflows whose trigger needs a schedule or an address that does not exist."""
    timed = {live[one.name].workflow_id for one in workflows if isinstance(one.trigger, CronTrigger)}
    called = {live[one.name].workflow_id for one in workflows if isinstance(one.trigger, WebhookTrigger)}
    if not timed and not called:
        return []
    async with db.once() as conn:
        ids = await schedules.missing(conn, schedules=timed, tokens=called)
    return [one for one in workflows if live[one.name].workflow_id in ids]


async def switch(conn: Connection, db: Tenant, name: str, enabled: bool) -> None:
    """Enable or disable a schedule. Disabled, it keeps its row; enabled, it continues with the first tick after now."""
    locked = await schedules.lock_named(conn, name, org=db.org)
    if locked is None:
        return
    if not enabled:
        await schedules.disable(conn, locked.workflow_id)
    elif locked.schedule.next_run_at is None and not locked.paused:
        try:
            await schedules.set_next(conn, locked.id, following(locked.schedule, locked.now))
        except Invalid as error:
            await pause_invalid(conn, locked, error)


async def pause_invalid(conn: Connection, locked: LockedSchedule, error: Exception) -> None:
    """Pause a schedule whose row is invalid, instead of retrying it forever, and log why."""
    _log.error("the schedule of workflow %s is paused: %s", locked.workflow, error)
    await schedules.pause(conn, locked.id, str(error))


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


async def _add_tokens(conn: Connection, called: Mapping[UUID, str]) -> dict[str, str]:
    if not called:
        return {}
    tokens = {id_: new_token() for id_ in called}
    taken = await schedules.add_tokens(conn, [(id_, webhook.token_digest(token)) for id_, token in tokens.items()])
    return {called[id_]: tokens[id_] for id_ in taken}


def _row(id_: UUID, workflow_id: UUID, trigger: CronTrigger, now: datetime | None) -> NewSchedule:
    schedule = Schedule(cron=trigger.cron, timezone=trigger.timezone)
    next_run_at = None if now is None else following(schedule, now)
    words = (trigger.overlap.value, trigger.catch_up.value)
    return id_, workflow_id, trigger.cron, trigger.timezone, encode(trigger.input, field="input"), *words, next_run_at
