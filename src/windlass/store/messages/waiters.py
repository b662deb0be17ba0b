"""Waiters: steps of runs and calls in handlers that wait for messages. A handler that waits for a run waits for the
event that the run publishes when it ends.

Waiters are locked after runs and jobs, in ascending id.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.events.message import Awaited
from windlass.core.json_value import decode
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, statements
from windlass.store.steps import StepRef

_SQL = statements("waiters")
_AWAITED = statements("awaited")


class StepWait(NamedTuple):
    """A wait of a step of a run. `until` is for display: a timer ends the wait."""

    run_id: UUID
    step: int
    round: int
    name: str
    key: str
    is_signal: bool
    number: int  # of messages
    until: datetime | None


class HandlerWait(NamedTuple):
    """A wait of a handler; `place` is the name of the recorded call. A signal needs no key: the job determines it.

    `until` is for display: the job's `run_at` ends the wait.
    """

    job_id: UUID
    place: str
    name: str
    key: str
    is_signal: bool
    number: int = 1  # of messages
    until: datetime | None = None


# Waits of steps


async def begin_in_steps(conn: Connection, waits: Sequence[StepWait]) -> None:
    await conn.execute(_SQL["begin_in_steps"], *columns(waits))


async def take_steps(conn: Connection, runs: Iterable[UUID]) -> list[StepRef]:
    """End the waits of locked runs that have received all their messages; return the steps of these waits."""
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["take_steps"], list(runs))]


async def close_steps(conn: Connection, places: Sequence[StepRef]) -> set[StepRef]:
    """End the waits of these steps of locked runs; return those that had received all their messages."""
    rows = await conn.fetch(_SQL["close_steps"], *columns(places))
    return {(row[0], row[1]) for row in rows if row[2]}


async def payloads(conn: Connection, places: Sequence[StepRef]) -> dict[StepRef, str]:
    """Return the payloads that these steps received, as JSON."""
    return {(row[0], row[1]): row[2] for row in await conn.fetch(_SQL["payloads"], *columns(places))}


async def of_run(conn: Connection, run: UUID) -> dict[int, Awaited]:
    """Return the messages that the steps of a run wait for, by step number."""
    return {row[0]: Awaited(*row[1:]) for row in await conn.fetch(_SQL["of_run"], run)}


# Waits of handlers


async def begin_in_handlers(conn: Connection, waits: Sequence[HandlerWait]) -> None:
    """Insert waiters in the transaction that suspends the handlers. The caller holds the locks of their jobs.

    The router also delivers messages that arrived earlier, and `wake_handlers` then makes the jobs due: poke the topic
    `message` after the commit. A call that already waits keeps the messages that it has received.
    """
    await conn.execute(_SQL["begin_in_handlers"], *columns(waits))


async def wake_handlers(conn: Connection, batch: int) -> list[str]:
    """Record the messages that suspended handlers received as results of calls; return the queues of their jobs."""
    return column(await conn.fetch(_SQL["wake_handlers"], batch))


@dataclass(frozen=True, slots=True)
class Received:
    payload: Any


async def give_up(conn: Connection, job: UUID, place: str) -> Received | None:
    """End the wait of a handler that has timed out. Return its message if that has arrived by now: it still counts.

    The caller records the result in the same transaction, under the lock of the job. Return None also if the call does
    not wait.
    """
    row = await conn.fetchrow(_SQL["give_up"], job, place)
    return Received(decode(row[1])) if row is not None and row[0] else None


async def run_depth(conn: Connection, id_: UUID, *, org: str) -> int:
    """Return the nesting depth of a run; 0 if there is no such run."""
    return int(await conn.fetchval(_AWAITED["depth"], id_, org) or 0)


async def await_run(conn: Connection, id_: UUID, job: UUID, *, org: str) -> str | None:
    """Record that the handler of a job waits for a run; return the run's state, or None if there is no such run."""
    state: str | None = await conn.fetchval(_AWAITED["await"], id_, org, job)
    return state
