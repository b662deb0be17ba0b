"""Statements on steps of runs: their jobs, fan-out items, results and timers, and pausing and resuming of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.jobs.job import JobState
from windlass.core.json_value import decode, decode_objects
from windlass.core.launches import LaunchState
from windlass.store.pools import launch_state
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, statements

_SQL = statements("steps")
_TIMERS = statements("timers")
_PAUSED = statements("paused_runs")
StepRef = tuple[UUID, int]  # run id, step number


class Shape(NamedTuple):
    """The columns that the jobs of a step have in common."""

    version_id: int
    step: int
    type: str
    payload: str
    queue: str
    priority: int
    max_attempts: int
    timeout: timedelta | None
    retry: str | None
    foreach: bool


class NewJobs(NamedTuple):
    """Instances `first` to `first + many - 1` of a step; `shape` counts from 1."""

    run_id: UUID
    org: str
    shape: int
    round: int
    first: int
    many: int
    items: int | None
    payload: str | None


class JobRows(NamedTuple):
    """Jobs of steps to insert. `ids` has one id per row; for a row of several instances the database generates ids."""

    shapes: Sequence[Shape] = ()
    rows: Sequence[NewJobs] = ()
    ids: Sequence[UUID] = ()

    @property
    def arguments(self) -> list[Sequence[Any] | None]:
        if not self.rows:
            return [None] * len((*Shape._fields, "id", *NewJobs._fields))
        return [*columns(self.shapes), self.ids, *columns(self.rows)]


class EndedJob(NamedTuple):
    """A job's end that was not recorded through a worker's report."""

    run_id: UUID
    step: int
    status: str
    error: str | None
    error_type: str | None
    deleted: bool


class Withdrawn(NamedTuple):
    run_id: UUID
    step: int
    ended: int
    held: int


class Expansion(NamedTuple):
    kind: str | None  # JSON type of the value; None if there is no value
    many: int
    value: str | None


class Result(NamedTuple):
    run_id: UUID
    step: int
    item: int
    items: int | None
    status: str
    result: str | None
    error: str | None
    attempts: int


class Given(NamedTuple):
    """The input and trigger headers of a run, as JSON."""

    input: str
    headers: str | None


class Child(NamedTuple):
    parent_id: UUID
    step: int
    id: UUID
    version_id: int
    letters: str


@dataclass(frozen=True, slots=True)
class StepJob:
    """The job of a step, or of its first instance."""

    id: UUID
    status: JobState
    attempts: int
    max_attempts: int
    last_error: str | None
    leased_by: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a step, as it is displayed."""

    item: int
    job_id: UUID
    status: JobState
    attempts: int
    max_attempts: int
    result: Any
    last_error: str | None
    errors: list[dict[str, Any]]
    leased_by: str | None
    created_at: datetime
    updated_at: datetime
    launch: LaunchState | None = None  # if a pool holds the job


async def enqueue(conn: Connection, jobs: JobRows, *, actor: str) -> None:
    """Create the jobs of steps."""
    await conn.execute(_SQL["enqueue"], *jobs.arguments, actor)


async def reopen(conn: Connection, run: UUID, step: int, count: int, *, round_: int, actor: str) -> list[str]:
    """Reopen jobs of a step; return their queues."""
    return column(await conn.fetch(_SQL["reopen"], run, step, count, round_, actor))


async def missing(conn: Connection, run: UUID, step: int, created: int, count: int) -> list[int]:
    """Return the created instances that never had a job."""
    return column(await conn.fetch(_SQL["missing"], run, step, created, count))


async def take_ended(conn: Connection, runs: Sequence[UUID], *, batch: int) -> list[EndedJob]:
    return list(map(EndedJob._make, await conn.fetch(_SQL["take_ended"], list(runs), batch)))


async def unsettle(conn: Connection, jobs_: Sequence[UUID]) -> None:
    """Mark the ends of these jobs as not yet settled in their runs."""
    await conn.execute(_SQL["unsettle"], list(jobs_))


async def withdraw(conn: Connection, rows: Sequence[tuple[UUID, int, str]], *, actor: str) -> list[Withdrawn]:
    """Cancel the jobs of steps, given as (run, step, reason)."""
    return list(map(Withdrawn._make, await conn.fetch(_SQL["withdraw"], *columns(rows), actor)))


async def keep_going(conn: Connection, rounds: Mapping[UUID, int]) -> None:
    """Move the unsettled jobs of runs to the current round and clear their cancellation requests. `rounds` maps runs to
    their current rounds."""
    await conn.execute(_SQL["keep_going"], list(rounds), list(rounds.values()))


async def expand(
    conn: Connection, run: UUID, step: int, source: int | None, path: Sequence[str], *, make: bool, value: str | None
) -> Expansion:
    """Read the list that a fan-out iterates over. `make`: also store its items. `value`: use this as the source instead
    of a row."""
    row = await conn.fetchrow(_SQL["expand"], run, step, source, list(path), make, value)
    assert row is not None
    return Expansion._make(row)


async def expand_instances(conn: Connection, run: UUID, step: int, source: int) -> int:
    count: int = await conn.fetchval(_SQL["expand_instances"], run, step, source)
    return count


async def items(conn: Connection, run: UUID, step: int, first: int, count: int) -> list[tuple[int, Any]]:
    return [(row[0], decode(row[1])) for row in await conn.fetch(_SQL["items"], run, step, first, count)]


async def results(conn: Connection, places: Sequence[StepRef], *, most: int) -> list[Result]:
    """Return the results of steps in the order of their items, up to `most` per step."""
    return list(map(Result._make, await conn.fetch(_SQL["results"], *columns(places), most)))


async def codes(conn: Connection, places: Sequence[StepRef]) -> dict[StepRef, str | None]:
    """Return the code of the latest reason of each of these steps."""
    rows = await conn.fetch(_SQL["codes"], *columns(places))
    return {(row[0], row[1]): row[2] for row in rows}


async def inputs(conn: Connection, runs: Sequence[UUID]) -> dict[UUID, Given]:
    return {row[0]: Given(row[1], row[2]) for row in await conn.fetch(_SQL["inputs"], list(runs))}


async def succeeded(conn: Connection, places: Sequence[StepRef]) -> list[StepRef]:
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["succeeded"], *columns(places))]


async def children(conn: Connection, places: Sequence[tuple[UUID, int, bool]]) -> list[Child]:
    """Return the latest child runs of steps, given as (run, step, whether it is fanned out)."""
    return list(map(Child._make, await conn.fetch(_SQL["children"], *columns(places))))


async def instances(conn: Connection, run: UUID, step: int, *, after: int = -1, limit: int = 100) -> list[Instance]:
    rows = await conn.fetch(_SQL["instances"], run, step, after + 1, limit)
    return [
        Instance(
            item=row["item"],
            job_id=row["id"],
            status=JobState(row["status"]),
            attempts=row["attempt"] + row["lost"],
            max_attempts=row["max_attempts"],
            result=decode(row["result"]),
            last_error=row["last_error"],
            errors=decode_objects(row["errors"]),
            leased_by=row["leased_by"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            launch=launch_state(row["queue"], row["status"], row["launch"]),
        )
        for row in rows
    ]


async def jobs(conn: Connection, run: UUID) -> dict[int, StepJob]:
    return {
        row["step"]: StepJob(
            row["id"],
            JobState(row["status"]),
            row["attempt"] + row["lost"],
            row["max_attempts"],
            row["last_error"],
            row["leased_by"],
            row["created_at"],
            row["updated_at"],
        )
        for row in await conn.fetch(_SQL["jobs"], run)
    }


async def insert_timers(conn: Connection, rows: Sequence[tuple[UUID, int, datetime]]) -> None:
    await conn.execute(_TIMERS["insert"], *columns(rows))


async def delete_timers(conn: Connection, places: Sequence[StepRef]) -> list[StepRef]:
    """Delete timers; return those that existed."""
    return [(row[0], row[1]) for row in await conn.fetch(_TIMERS["delete"], *columns(places))]


async def find_due_timers(conn: Connection, batch: int) -> list[UUID]:
    return column(await conn.fetch(_TIMERS["find_due"], batch))


async def take_due_timers(conn: Connection, runs: Sequence[UUID]) -> list[StepRef]:
    return [(row[0], row[1]) for row in await conn.fetch(_TIMERS["take_due"], list(runs))]


class TimersDue(NamedTuple):
    """The time until the next job, sleep and run are due; None if there is none."""

    job: timedelta | None  # becomes due
    sleep: timedelta | None  # ends
    run: timedelta | None  # expires


async def next_due(conn: Connection) -> TimersDue:
    row = await conn.fetchrow(_TIMERS["next_due"])
    assert row is not None
    return TimersDue(*row)


# Paused runs; the caller holds their locks


async def pause(conn: Connection, runs: Sequence[UUID], reason: str) -> None:
    """Pause runs: hold their pending jobs and insert notices for their child runs."""
    await conn.execute(_PAUSED["pause"], list(runs), reason)
    await conn.fetch(_PAUSED["lock_jobs"], list(runs))
    await hold_jobs(conn, runs)


async def hold_jobs(conn: Connection, runs: Sequence[UUID]) -> None:
    """Hold the pending jobs of paused runs."""
    await conn.execute(_PAUSED["hold_jobs"], list(runs))


async def resume(conn: Connection, runs: Sequence[UUID], reason: str) -> set[str]:
    """Resume runs; return the stored queues of the jobs that may start again."""
    await conn.execute(_PAUSED["resume"], list(runs), reason)
    return set(column(await conn.fetch(_PAUSED["release_jobs"], list(runs))))
