"""Sends messages (signals and events), and routes them to the steps and handlers that wait for them.

A signal is addressed to one run, or to one job that is not a step of a run, and is received once: by the step or
handler there that has waited for its name the longest. A published event has a name and a key, and every waiter for
both receives it. A message that arrives before the wait begins is kept. The sender's id makes sending idempotent.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.core.events.message import MOST_EVENTS, MOST_SIGNALS, check_id, check_key, check_message_name
from windlass.core.json_value import encode
from windlass.engine import quarantine
from windlass.engine.database import Database, Tenant
from windlass.engine.quarantine import Kind, split_batch
from windlass.engine.runs.writes import MESSAGES
from windlass.errors import Conflict, Gone, Locked, NotFound
from windlass.schemas.messages import Sent
from windlass.store import workers
from windlass.store.messages import messages, waiters
from windlass.store.messages.messages import Address
from windlass.store.postgres.pool import Connection, savepoint, translated

__all__ = ["Connection"]


async def publish(
    db: Tenant,
    name: str,
    *,
    key: str = "",
    payload: Any = None,
    id_: str | None = None,
    connection: Connection | None = None,
) -> Sent:
    """Publish an event. With `connection` it becomes part of the caller's transaction."""
    check_message_name(name)
    check_key(key)
    text = _checked(payload, id_)
    async with _transaction(db, connection) as conn:
        new = await messages.publish(conn, name, key, text, org=db.org, id_=id_, sender=db.actor)
    if connection is None:
        db.poke(MESSAGES)
    return Sent(again=not new)


async def signal(
    db: Tenant,
    target: UUID,
    name: str,
    *,
    payload: Any = None,
    id_: str | None = None,
    connection: Connection | None = None,
) -> Sent:
    """Send a signal to a run, or to a job that is not a step of a run."""
    check_message_name(name)
    text = _checked(payload, id_)
    async with _transaction(db, connection) as conn:
        result = await messages.signal(
            conn, target, name, text, org=db.org, id_=id_, sender=db.actor, most=MOST_SIGNALS
        )
        if result == "unknown":
            raise NotFound("run", target)
        if result == "ended":
            raise Gone(f"run {target} has ended: a signal can only reach a live one")
        if result == "full":
            raise Conflict(f"{target} has {MOST_SIGNALS} signals {name!r} that it has not received yet: send later")
    if connection is None:
        db.poke(MESSAGES)
    return Sent(again=result == "again")


@asynccontextmanager
async def _transaction(db: Tenant, connection: Connection | None) -> AsyncIterator[Connection]:
    if connection is None:
        async with db.begin() as conn:
            yield conn
    else:
        with translated():
            async with savepoint(connection):  # all or nothing, even if the caller catches the error and commits
                yield connection


def _checked(payload: Any, id_: str | None) -> str:
    """Return the payload as JSON; raise `Invalid` for a bad id."""
    check_id(id_)
    return encode(payload, field="payload")


# The router


async def route(db: Database, *, batch: int = 1000) -> int:
    """Deliver new messages to their waiters, and messages that arrived early to new waiters.

    Return the number of addresses processed; 0 if there are none or another process is the router.
    """
    async with db.once() as conn:
        addresses = await messages.unrouted(conn, batch)
    if not addresses:
        return 0

    async def attempt(some: Sequence[Address]) -> int:
        async with db.begin() as conn:
            if not await messages.become_router(conn):
                return 0
            await messages.route(conn, some, batch, kept=MOST_EVENTS)
        return len(some)

    async def isolate(address: Address, error: Exception) -> int | None:
        if not isinstance(error, Locked):  # a locked address is retried by the next call
            await quarantine.set_aside(db, Kind.MESSAGE, "/".join(address[:3]), error)
        return None

    return sum(await split_batch(addresses, attempt, isolate))


async def are_pending(db: Database) -> bool:
    """Return whether messages, or runs requested by SQL or by events, are still to be processed."""
    async with db.once() as conn:
        return (await workers.pending_run_work(conn, kinds=())).messages


async def prune(db: Database, *, age: timedelta, batch: int = 500) -> int:
    """Delete a batch of routed messages older than `age`; return their number."""
    async with db.once() as conn:
        return await messages.prune(conn, age=age, batch=batch)


async def wake_handlers(db: Database, *, batch: int = 1000) -> int:
    """Make the jobs of suspended handlers due whose messages have arrived; return their number."""
    async with db.once() as conn:
        queues = await waiters.wake_handlers(conn, batch)
    db.poke(*set(queues))
    return len(queues)
