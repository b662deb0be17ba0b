"""Keeps one item that cannot be processed from blocking the others in its batch.

Work is done in batches: a hundred reports, runs or schedules in one transaction. `split_batch` processes a batch and,
if that fails, halves it until each failing item is alone; all other items are processed. A failing item is put into
`windlass.quarantine` with the reason. Loops skip the items in quarantine, and `retry_due` retries them with increasing
delays.

`Unavailable` is not handled this way: it is not caused by an item, so the whole batch waits for the database.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar
from uuid import UUID

from windlass.core.json_value import encode, plain
from windlass.engine.database import Database, Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, Locked, NotFound, Unavailable
from windlass.schemas.monitoring import Quarantined
from windlass.store import quarantine as store

Item = TypeVar("Item")
Result = TypeVar("Result")
Retry = Callable[[str], Awaitable[bool]]
MAX_REASON = 2000
KEPT_FOR = timedelta(days=7)  # entries that are not retried
_log = logging.getLogger("windlass.quarantine")


class Kind(StrEnum):
    """The kinds of items in quarantine. An item's key is its id, the name of a duty, or the address of messages."""

    RUN = "run"  # its events cannot be applied
    WORKFLOW = "workflow"  # its pending runs cannot begin
    TRIGGER = "trigger"  # a workflow's schedule
    CRON = "cron"  # a schedule of the Open Job Spec
    SCHEDULE = "schedule"  # a row of workflow.workflow_schedule
    JOB = "job"  # it cannot be claimed, or its outcome cannot be recorded; retried through its queue or lease
    START = "start"  # a requested run cannot start
    MESSAGE = "message"  # messages with this org, name and key cannot be routed; the router retries them
    EVENT = "event"  # an event that could not be delivered to subscribers
    DUTY = "duty"  # a maintenance task


async def split_batch(
    items: Sequence[Item],
    attempt: Callable[[Sequence[Item]], Awaitable[Result]],
    isolate: Callable[[Item, Exception], Awaitable[Result | None]],
) -> list[Result]:
    """Process a batch, halving it on failure until each failing item is alone; return all results, also of `isolate`.

    `attempt` must be all or nothing (one transaction), because its items are attempted again after a failure. An item
    that needs a row locked by another session (`Locked`) counts as failing, so that the other items do not wait for it.
    """
    results: list[Result] = []
    pending = [items] if items else []
    while pending:
        batch = pending.pop()
        try:
            results.append(await attempt(batch))
        except Exception as error:
            if isinstance(error, Unavailable) and not isinstance(error, Locked):
                raise
            if len(batch) > 1:
                middle = len(batch) // 2
                pending += [batch[middle:], batch[:middle]]  # the first half is popped next, which keeps the order
            elif (result := await isolate(batch[0], error)) is not None:
                results.append(result)
    return results


async def each_alone(db: Database, kind: Kind, ids: Sequence[UUID], process: Callable[[UUID], Awaitable[bool]]) -> int:
    """Process items that cannot share a transaction; put failing ones into quarantine. Return the number processed."""
    done = 0
    for id_ in ids:
        try:
            done += await process(id_)
        except Locked:
            continue  # retried by the next call
        except Unavailable:
            raise
        except Exception as error:
            await set_aside(db, kind, id_, error)
    return done


async def set_aside(db: Database, kind: Kind, key: object, error: Exception, *, retry: bool = True) -> None:
    """Put an item into quarantine with the reason. Only its first failure is logged with the traceback."""
    message = str(error).partition("\nDETAIL:")[0]  # the detail quotes whole rows
    reason = plain(message or type(error).__name__)[:MAX_REASON]
    async with db.once() as conn:
        failures = await store.put(conn, kind, str(key), error_type=type(error).__name__, reason=reason, retry=retry)
    log = "%s %s could not be processed and is set aside (failure %d): %s"
    _log.error(log, kind, key, failures, reason, exc_info=error if failures == 1 else None)


async def release(db: Database, kind: Kind, key: object) -> None:
    async with db.once() as conn:
        await store.release(conn, kind, str(key))


async def keys(db: Database, kind: Kind) -> set[str]:
    """Return the keys of the items of this kind that are in quarantine."""
    async with db.once() as conn:
        return await store.keys(conn, kind)


async def retry_due(db: Database, handlers: Mapping[Kind, Retry], *, limit: int = 20) -> int:
    """Retry the due items one by one; return the number processed. A handler returns False if the item is locked."""
    async with db.once() as conn:
        due = await store.take_due(conn, list(handlers), limit)
    done = 0
    for name, key in due:
        kind = Kind(name)
        try:
            if await handlers[kind](key):
                await release(db, kind, key)
                done += 1
        except Unavailable:
            raise
        except Exception as error:
            await set_aside(db, kind, key, error)
    return done


async def list_(db: Tenant, *, limit: int = 100) -> list[Quarantined]:
    """Return the entries of the org, latest first."""
    async with db.once() as conn:
        return await store.list_(conn, org=db.org, limit=limit)


async def retry_now(db: Tenant, kind: Kind, key: str) -> Quarantined:
    """Make an item due for a retry immediately."""
    encode(key, field="key")
    async with db.begin() as conn:
        retried = await store.retry_now(conn, kind, key, org=db.org)
        if retried is None:
            known = {(entry.kind, entry.key) for entry in await store.list_(conn, org=db.org, limit=10_000)}
            if (kind, key) in known:
                raise Conflict(f"{kind} {key} is only reported: there is nothing to retry")
            raise NotFound(f"{kind} in quarantine:", key)
        await audit.record(conn, db, "quarantine.retry", key, kind=kind)
    db.poke("settle")
    return retried


async def count(db: Database) -> dict[str, int]:
    async with db.once() as conn:
        return await store.count(conn)


async def forget(db: Database) -> None:
    async with db.once() as conn:
        await store.forget(conn, age=KEPT_FOR)
