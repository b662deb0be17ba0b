"""Read-only queries for inspecting a run: its event trail, the jobs of its steps, their child runs, and log lines."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple
from uuid import UUID

import asyncpg

from windlass.core.events.cursor import Snapshot, TrailPlace, interleaved
from windlass.core.explain.snapshot import JobSnapshot, ResponseSnapshot, Round, StateChange
from windlass.core.explain.timeline import Move, Span, SpanKind
from windlass.core.jobs.job import JobState
from windlass.core.json_value import decode
from windlass.store.events import snapshot_arguments
from windlass.store.jobs import FAR
from windlass.store.pools import launch_state
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, mapping, statements

_SQL = statements("inspect")
_RUNS = statements("runs")
BEGINNING = TrailPlace()


@dataclass(frozen=True, slots=True)
class RunEvent:
    """An event of a run: about the run, a step, or (`of_job`) an attempt at the job of a step."""

    id: int
    step: int | None
    word: str
    code: str | None
    reason: str | None
    actor: str | None
    created_at: datetime
    attempt: int | None = None
    of_job: bool = False
    xid: int = field(default=0, repr=False, compare=False)

    @property
    def at(self) -> datetime:
        return self.created_at


class FirstJob(NamedTuple):
    job: JobSnapshot
    began_at: datetime
    updated_at: datetime


class Instance(NamedTuple):
    """The instance of a fanned-out step that is shown; `busy`: a worker holds one of the instances; `launching`: a pool
    has them, and none of them has reported that it runs."""

    job: JobSnapshot
    busy: bool
    launching: bool


class Tally(NamedTuple):
    updated_at: datetime | None
    failed: JobSnapshot | None


class Children(NamedTuple):
    step: int
    many: int
    live: int
    began_at: datetime
    ended_at: datetime | None
    id: UUID
    state: str
    letters: str


class LineFilter(NamedTuple):
    """Selects the lines of a run, or of one step, instance or attempt."""

    run: UUID
    step: int | None = None
    item: int | None = None
    attempt: int | None = None


class StepPlace(NamedTuple):
    """The position of a log line among the lines of a run by step, for paging."""

    step: int = -1
    item: int = -1
    epoch: int = 0
    attempt: int = 0
    line: int = 0


class Place(NamedTuple):
    """The position of a log line in a run, for paging."""

    at: datetime
    job_id: UUID
    attempt: int
    line: int


@dataclass(frozen=True, slots=True)
class RunLine:
    """A line that the handler of a step logged."""

    step: int
    item: int
    fanned_out: bool
    job_id: UUID
    attempt: int
    line: int
    at: datetime
    level: str
    message: str

    @property
    def place(self) -> Place:
        return Place(self.at, self.job_id, self.attempt, self.line)


async def events(conn: Connection, id_: UUID, *, limit: int = 10_000) -> list[RunEvent]:
    return [RunEvent(*row) for row in await conn.fetch(_RUNS["events"], id_, limit)]


async def trail(
    conn: Connection,
    id_: UUID,
    steps: Sequence[int],
    *,
    after: TrailPlace = BEGINNING,
    before: int | None = None,
    since: datetime,
    until: datetime | None = None,
    limit: int = 10_000,
) -> list[RunEvent]:
    """Return a page of a run's event trail with the events of the jobs of these steps, oldest first.

    Run events have ids below `before`, job events have times between `since` and `until`.
    """
    rows = await conn.fetch(_RUNS["trail"], id_, limit, *after, before, list(steps), since, until)
    lines = [RunEvent(**{**row, "xid": int(row["xid"])}) for row in rows]
    ours, theirs = ([line for line in lines if line.of_job is of_job] for of_job in (False, True))
    return list(islice(interleaved(ours, theirs), limit))


async def turns(conn: Connection, id_: UUID) -> list[StateChange]:
    return [StateChange(*row) for row in await conn.fetch(_RUNS["turns"], id_)]


async def first_jobs(conn: Connection, run: UUID, steps: Sequence[int]) -> dict[int, FirstJob]:
    rows = await conn.fetch(_SQL["first_jobs"], run, list(steps))
    return {row["step"]: FirstJob(_job(row), row["began_at"], row["updated_at"]) for row in rows}


async def tally(conn: Connection, run: UUID, steps: Sequence[int]) -> dict[int, Tally]:
    rows = await conn.fetch(_SQL["tally"], run, list(steps))
    return {row["step"]: Tally(row["updated_at"], None if row["id"] is None else _job(row)) for row in rows}


async def waiting_jobs(conn: Connection, run: UUID, steps: Mapping[int, bool]) -> dict[int, Instance]:
    """Return one instance of each of these steps; `steps` maps their numbers to whether they run on a pool."""
    rows = await conn.fetch(_SQL["waiting_jobs"], run, list(steps), list(steps.values()))
    return {row["step"]: Instance(_job(row), row["busy"], row["launching"]) for row in rows}


async def paused(conn: Connection, queues: Iterable[str]) -> set[str]:
    return set(column(await conn.fetch(_SQL["paused"], list(queues))))


async def children(conn: Connection, run: UUID, steps: Sequence[int]) -> dict[int, Children]:
    return {row[0]: Children._make(row) for row in await conn.fetch(_SQL["children"], run, list(steps))}


async def responses(conn: Connection, run: UUID, steps: Sequence[int]) -> dict[int, ResponseSnapshot]:
    return {row[0]: _response(*map(decode, row[1:])) for row in await conn.fetch(_SQL["responses"], run, list(steps))}


async def wake_times(conn: Connection, run: UUID) -> dict[int, datetime]:
    return mapping(await conn.fetch(_SQL["wake_times"], run))


async def running_of_workflow(conn: Connection, run: UUID) -> int:
    count: int = await conn.fetchval(_SQL["running_of_workflow"], run)
    return count


async def moves(conn: Connection, run: UUID, steps: Sequence[int], *, limit: int) -> list[Move]:
    rows = await conn.fetch(_SQL["moves"], run, list(steps), limit)
    return [
        Move(step, word, attempt, at, reason, None if delay is None else timedelta(seconds=delay))
        for step, word, attempt, at, reason, delay in rows
    ]


async def spans(conn: Connection, run: UUID, steps: Sequence[int], round_: Round) -> list[Span]:
    """Return one span per step in a round: for all instances of a step, and for its child runs (of any step, not only
    of `steps`)."""
    rows = await conn.fetch(_SQL["spans"], run, list(steps), round_.began_at, round_.left_at, round_.number - 1)
    return [Span(step, SpanKind.RUNNING, None, began, ended, failed) for step, began, ended, failed in rows]


# Log lines


async def lines(conn: Connection, which: LineFilter, *, after: Place, limit: int) -> list[RunLine]:
    """Return a page of lines, ordered by time."""
    return [RunLine(*row) for row in await conn.fetch(_SQL["lines"], *which, *after, limit)]


async def last_lines(conn: Connection, which: LineFilter, count: int) -> list[tuple[int, RunLine]]:
    """Return the last `count` lines, oldest first, as (transaction id, line)."""
    return [_line(row) for row in reversed(await conn.fetch(_SQL["last_lines"], *which, count))]


async def lines_by_step(
    conn: Connection, which: LineFilter, after: StepPlace, *, limit: int
) -> tuple[list[RunLine], StepPlace | None]:
    """Return a page of lines by step and instance, and the position after which the next starts; None at the end."""
    rows = await conn.fetch(_SQL["lines_by_step"], *which, *after, limit)
    last = rows[-1] if len(rows) == limit else None
    place = StepPlace(*(last[name] for name in StepPlace._fields)) if last is not None else None
    return [_line(row)[1] for row in rows], place


async def lines_since(
    conn: Connection, which: LineFilter, base: Snapshot, *, jobs: Collection[UUID] | None = None
) -> list[tuple[int, RunLine]]:
    """Return the lines that a snapshot does not see, as (transaction id, line); only those of `jobs`, if given."""
    arguments = (*which, *snapshot_arguments(base))
    if jobs is None:
        rows = await conn.fetch(_SQL["lines_since"], *arguments)
    else:
        rows = await conn.fetch(_SQL["lines_of_jobs_since"], *arguments, list(jobs)) if jobs else []
    return [_line(row) for row in rows]


async def leased_jobs(conn: Connection, run: UUID, step: int | None) -> set[UUID]:
    return set(column(await conn.fetch(_SQL["leased_jobs"], run, step)))


def _response(status_code: object, duration_ms: object, is_truncated: object) -> ResponseSnapshot:
    """Return the response fields of a result; values of a wrong type, which other workers may write, are dropped."""
    code, took = (value if isinstance(value, int) else None for value in (status_code, duration_ms))
    return ResponseSnapshot(code, took, is_truncated is True)


def _job(row: asyncpg.Record) -> JobSnapshot:
    return JobSnapshot(
        id=row["id"],
        item=row["item"],
        type=row["type"],
        queue=row["queue"],
        state=JobState(row["status"]),
        failures=row["attempt"] + row["lost"],
        max_attempts=row["max_attempts"],
        due_at=row["run_at"] if row["run_at"].tzinfo else FAR,
        error=row["last_error"],
        worker=row["worker"],
        stopping=row["cancel_requested"],
        launch=launch_state(row["queue"], row["status"], row.get("launch")),
        launch_text=row.get("launch_text"),
    )


def _line(row: asyncpg.Record) -> tuple[int, RunLine]:
    return int(row["xid"]), RunLine(*(row[name] for name in RunLine.__slots__))
