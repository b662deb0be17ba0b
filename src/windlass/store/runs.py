"""Statements on runs and the notices for them. Lock order everywhere: run, job, timer, hook; ids ascending.

Parent and child runs are never locked together: they communicate through notices.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.events.cursor import Cursor, Snapshot
from windlass.core.explain.snapshot import Origin, origin
from windlass.core.json_value import decode, plain
from windlass.core.runs.run import LIVE, RunState
from windlass.store import archive
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, mapping, statements, without_conflicts
from windlass.store.steps import JobRows

_SQL = statements("runs")
_INSERT_PLAIN = without_conflicts(_SQL["insert"])  # for rows without keys and parents, see `jobs.insert`
OLDEST, NEWEST = UUID(int=0), UUID(int=2**128 - 1)
MOST_PRUNED = 20_000  # jobs that one statement deletes with their runs: about half a second

# parent_id, step, first, count, round, workflow_id, version_id, steps, input, max_duration, foreach, labels
NewChildren = tuple[Any, ...]


class LockedRun(NamedTuple):
    """A locked run, as it is stored."""

    id: UUID
    org: str
    workflow_id: UUID
    version_id: int
    state: str
    steps: str
    fans: str | None
    round: int
    depth: int
    expires_at: datetime
    now: datetime
    paused: bool = False


class NewRun(NamedTuple):
    """A run to insert; `fans`, `input`, `labels` and `headers` are JSON."""

    id: UUID
    state: str
    steps: str
    fans: str | None
    input: str
    labels: str | None = None
    idempotency_key: str | None = None
    parent_id: UUID | None = None
    parent_step: int | None = None
    parent_item: int | None = None
    parent_round: int | None = None
    depth: int = 0
    headers: str | None = None  # of the request that started it


class InsertedRun(NamedTuple):
    id: UUID
    state: str
    started_at: datetime | None  # None: the run is pending


class SavedRun(NamedTuple):
    """The new state of a locked run."""

    id: UUID
    state: str
    steps: str
    fans: str | None
    round: int
    word: str | None  # type of the event to write, if the run began or ended
    code: str | None = None
    reason: str | None = None


class RunNote(NamedTuple):
    """An event for the trail of a run, about a step or the run."""

    run_id: UUID
    step: int | None
    word: str
    code: str | None
    reason: str | None


class Notice(NamedTuple):
    run_id: UUID
    word: str
    step: int | None
    item: int | None
    round: int | None
    letter: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as it is displayed."""

    id: UUID
    workflow: str
    version: int
    state: RunState
    letters: str
    input: Any
    labels: dict[str, str]
    idempotency_key: str | None
    round: int
    parent_id: UUID | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    expires_at: datetime
    version_id: int
    fans: dict[str, Any]
    workflow_id: UUID
    paused_at: datetime | None = None
    # Set only by `get`: what started the run, and the cursor after which events are newer than this row.
    trigger: Origin | None = None
    cursor: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    org: str
    workflow_id: UUID | None = None
    states: Sequence[str] | None = None
    labels: str | None = None  # JSON
    before: UUID | None = None
    since: UUID = OLDEST  # lower bound of the ids
    created_after: datetime | None = None
    created_before: datetime | None = None
    about: str | None = None  # prefix of an id, a workflow's name, or a label's key or value
    ids: tuple[UUID, UUID] | None = None  # the first and last id with that prefix
    retrying: bool = False
    label: tuple[str, str] | None = None  # one of the labels, for the index on labels
    limit: int = 50

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Query arguments of the list queries."""
        states = sorted(set(self.states)) if self.states else None
        before = self.before or NEWEST
        page = (self.org, self.workflow_id, states, self.labels, before, self.limit)
        return (*page, self.since, self.created_after, self.created_before)

    @property
    def more_arguments(self) -> tuple[Any, ...]:
        """Query arguments of the list queries that support all filters."""
        first, last = self.ids or (None, None)
        return (*self.arguments, self.about, first, last, self.retrying)


async def insert(
    conn: Connection,
    rows: Sequence[NewRun],
    jobs: JobRows,
    *,
    org: str,
    workflow_id: UUID,
    version_id: int,
    max_duration: timedelta,
    actor: str,
    live: int | None = None,
) -> list[InsertedRun]:
    """Insert runs with their first jobs. With `live`, nothing is inserted unless this is the number of the workflow's
    live version and the workflow is enabled."""
    common = (org, workflow_id, version_id, max_duration, actor)
    is_plain = all(row.idempotency_key is None and row.parent_id is None for row in rows)
    statement = _INSERT_PLAIN if is_plain else _SQL["insert"]
    inserted = await conn.fetch(statement, *columns(rows), *common, *jobs.arguments, live)
    return list(map(InsertedRun._make, inserted))


async def insert_children(conn: Connection, rows: Sequence[NewChildren], *, actor: str) -> None:
    await conn.execute(_SQL["insert_children"], *columns(rows), actor)


async def live_below(conn: Connection, ids: Iterable[UUID], *, cap: int) -> dict[UUID, tuple[UUID, int]]:
    """Return for each run the root of its tree, and the number of live runs below that root, counted up to `cap`."""
    return {row[0]: (row[1], row[2]) for row in await conn.fetch(_SQL["live_below"], list(ids), cap)}


async def own_ancestors(conn: Connection, pairs: Iterable[tuple[UUID, UUID]]) -> dict[tuple[UUID, UUID], int]:
    """Return for pairs of run and workflow how many of the run and its ancestors belong to that workflow."""
    rows = await conn.fetch(_SQL["own_ancestors"], *columns(pairs))
    return {(row[0], row[1]): row[2] for row in rows}


async def find_keys(conn: Connection, keys: Sequence[str], *, org: str) -> dict[str, tuple[UUID, UUID]]:
    """Return the run and workflow of each idempotency key."""
    return {row[0]: (row[1], row[2]) for row in await conn.fetch(_SQL["find_keys"], org, list(keys))}


async def lock(conn: Connection, ids: Iterable[UUID], *, wait: bool = True) -> list[LockedRun]:
    """Lock runs in ascending id; without `wait`, skip those that are locked. Archived runs are restored first.

    The archive is searched only for runs that the first statement did not find, also because a run may be archived
    while that statement waits for its lock. Without `wait` the archive is not searched: only sweeps call it that way,
    and they have just read that the runs have pending work, so the runs are live.
    """
    wanted = list(ids)
    rows = await conn.fetch(_SQL["lock" if wait else "lock_free"], wanted)
    if wait and len(rows) < len(wanted):
        missing = set(wanted).difference(row[0] for row in rows)
        if missing and await archive.restore_runs(conn, missing):
            rows = await conn.fetch(_SQL["lock"], wanted)
    return list(map(LockedRun._make, rows))


async def save(conn: Connection, rows: Sequence[SavedRun], *, actor: str) -> bool:
    """Write advanced runs; return whether a notice for a parent run or an event for a handler was inserted."""
    noticed: bool = await conn.fetchval(_SQL["save"], *columns(rows), actor)
    return noticed


async def log(conn: Connection, rows: Sequence[RunNote], *, actor: str) -> None:
    """Write events. Reasons may quote user values: characters that Postgres cannot store are replaced."""
    clean = [(*rest, plain(reason) if reason else reason) for *rest, reason in rows]
    await conn.execute(_SQL["log"], *columns(clean), actor)


async def find_unsettled(conn: Connection, batch: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_unsettled"], batch))


async def take_notices(conn: Connection, runs: Sequence[UUID]) -> list[Notice]:
    return list(map(Notice._make, await conn.fetch(_SQL["take_notices"], list(runs))))


async def withdraw_children(conn: Connection, rows: Sequence[tuple[UUID, int, str, str]]) -> None:
    """Insert notices that stop the live child runs of steps, given as (run, step, word, reason)."""
    await conn.execute(_SQL["withdraw_children"], *columns(rows))


async def undo_children(
    conn: Connection, rows: Sequence[tuple[UUID, int, int, int, str]]
) -> dict[tuple[UUID, int], int]:
    """Insert notices that undo child runs, given as (run, step, compensation, instances, reason).

    Return the number of notices by run and compensation.
    """
    return {(row[0], row[1]): row[2] for row in await conn.fetch(_SQL["undo_children"], *columns(rows))}


async def reply(conn: Connection, rows: Sequence[tuple[UUID, int, str, str | None]]) -> None:
    """Insert notices for the parents of undone runs, given as (run, compensation, letter, reason)."""
    await conn.execute(_SQL["reply"], *columns(rows))


async def bad_children(conn: Connection, id_: UUID, step: int, created: int, count: int, *, round_: int) -> list[int]:
    """Return up to `count` of the created instances whose child run has to be started again."""
    return column(await conn.fetch(_SQL["bad_children"], id_, step, created, round_, count))


async def find_pending(conn: Connection, batch: int, *, after: UUID) -> list[UUID]:
    """Return workflows with pending runs: those with ids above `after`, then the others."""
    return column(await conn.fetch(_SQL["find_pending"], batch, after))


async def lock_workflow(conn: Connection, workflow_id: UUID, *, wait: bool = True) -> int | None:
    """Lock a workflow; return its live version, or None if another session holds it and `wait` is false."""
    query = _SQL["lock_workflow" if wait else "lock_free_workflow"]
    version: int | None = await conn.fetchval(query, workflow_id)
    return version


async def now(conn: Connection) -> datetime:
    at: datetime = await conn.fetchval(_SQL["now"])
    return at


async def running(conn: Connection, workflow_id: UUID) -> int:
    count: int = await conn.fetchval(_SQL["running"], workflow_id)
    return count


async def workflows_of(conn: Connection, ids: Iterable[UUID]) -> dict[UUID, UUID]:
    return mapping(await conn.fetch(_SQL["workflows_of"], list(ids)))


async def first_pending(conn: Connection, workflow_id: UUID, count: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["first_pending"], workflow_id, count))


async def find_expired(conn: Connection, batch: int) -> list[UUID]:
    return column(await conn.fetch(_SQL["find_expired"], batch))


async def replace_input(conn: Connection, ids: Iterable[UUID], input_: str | None) -> None:
    await conn.execute(_SQL["replace_input"], list(ids), input_)


async def get(conn: Connection, id_: UUID, *, org: str) -> RunRow | None:
    row = await conn.fetchrow(_SQL["get"], id_, org)
    return _run(row) if row else None


async def states(conn: Connection, ids: Iterable[UUID]) -> dict[UUID, str]:
    return mapping(await conn.fetch(_SQL["states"], list(ids)))


async def list_(conn: Connection, filter_: RunFilter) -> list[RunRow]:
    name, arguments = _way(filter_)
    return [_run(row) for row in await conn.fetch(_SQL[name], *arguments)]


def _way(filter_: RunFilter) -> tuple[str, tuple[Any, ...]]:
    """Return the query whose index leaves the fewest runs to filter, and its arguments."""
    states = set(filter_.states or ())
    if filter_.retrying:
        return "list_retrying", filter_.more_arguments
    if states and RunState.COMPLETED not in states:
        return "list_by_state", filter_.more_arguments
    if filter_.about is not None:
        return "list_about", filter_.more_arguments
    if filter_.label is not None:
        return "list_labelled", (*filter_.arguments, *filter_.label)
    return "list" if filter_.workflow_id is None else "list_of_workflow", filter_.arguments


async def find(conn: Connection, filter_: RunFilter) -> list[UUID]:
    """Return the ids of matching runs, newest first; the states must be all live or all bad."""
    name = "find_live" if set(filter_.states or ()) <= LIVE else "find_bad"
    return column(await conn.fetch(_SQL[name], *filter_.more_arguments))


async def prune(conn: Connection, *, age: timedelta, batch: int, most_jobs: int = MOST_PRUNED) -> int:
    """Delete old runs with at most `most_jobs` jobs in total; return their number, or `batch` if some did not fit."""
    count: int = await conn.fetchval(_SQL["prune"], age, batch, most_jobs)
    return count


def _run(row: asyncpg.Record) -> RunRow:
    return RunRow(
        id=row["id"],
        workflow=row["workflow"],
        version=row["version"],
        state=RunState(row["state"]),
        letters=row["steps"],
        input=decode(row["input"]),
        labels=decode(row["labels"]) or {},
        idempotency_key=row["idempotency_key"],
        round=row["round"],
        parent_id=row["parent_id"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        expires_at=row["expires_at"],
        version_id=row["version_id"],
        fans=decode(row["fans"]) or {},
        workflow_id=row["workflow_id"],
        paused_at=row["paused_at"],
        trigger=_origin(row) if "hidden" in row else None,
        cursor=str(Cursor(Snapshot.parse(row["snapshot"]))) if "snapshot" in row else None,
    )


def _origin(row: asyncpg.Record) -> Origin:
    return origin(
        key=row["idempotency_key"],
        headers=decode(row["trigger_headers"]),
        parent_id=row["parent_id"],
        composed=row["hidden"],
    )
