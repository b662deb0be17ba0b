"""Statements on compositions: their metadata, nesting and jobs. Their runs are in `store.runs`."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.json_value import decode, decode_object
from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import column, columns, statements
from windlass.store.steps import StepRef

_SQL = statements("compositions")

# id, name, document, fingerprint
NewShape = tuple[UUID, str, str, str]


class NewComposition(NamedTuple):
    run_id: UUID
    parent_id: UUID | None
    parent_step: int | None
    kind: str
    name: str
    alias: str | None
    version_id: int
    jobs: int
    labels: str | None  # JSON
    steps: str | None
    retry_of: UUID | None


class ReservedKey(NamedTuple):
    """The unique key of a step's job, prefixed with the org."""

    key: str
    run_id: UUID
    step: int


class NewPart(NamedTuple):
    """Instances `first` to `first + many - 1` of a step of a composition."""

    run_id: UUID
    org: str
    version_id: int
    step: int
    round: int
    first: int
    many: int
    type: str
    queue: str
    items: int | None


class Node(NamedTuple):
    """A composition in a tree, and its run if that has started."""

    run_id: UUID
    parent_id: UUID | None
    parent_step: int | None
    kind: str
    name: str
    alias: str | None
    version_id: int
    jobs: int
    labels: list[str | None] | None
    retry_of: str | None  # the client's id of the composition that this one retries
    created_at: datetime
    started_at: datetime | None
    state: str | None
    letters: str | None
    fans: dict[str, list[int]]
    finished_at: datetime | None
    brought: str | None


class PartJob(NamedTuple):
    id: UUID
    run_id: UUID
    step: int
    item: int
    status: str
    result: str | None
    last_error: str | None
    error: dict[str, Any] | None
    attempts: int
    created_at: datetime
    updated_at: datetime
    client_id: str
    started_at: datetime | None
    is_cut: bool  # the result was not read: all results together would be too large

    @property
    def value(self) -> Any:
        return decode(self.result)


class Listed(NamedTuple):
    """An outermost composition, in a list."""

    run_id: UUID
    kind: str
    name: str
    alias: str | None
    jobs: int
    retry_of: str | None
    created_at: datetime
    started_at: datetime | None
    state: str
    finished_at: datetime | None


class Around(NamedTuple):
    run_id: UUID
    parent_id: UUID | None
    parent_step: int | None
    kind: str
    alias: str | None
    version_id: int


class Below(NamedTuple):
    parent_id: UUID
    step: int
    run_id: UUID
    version_id: int
    letters: str


class PartResult(NamedTuple):
    run_id: UUID
    step: int
    item: int
    items: int | None
    status: str
    result: str | None
    error: dict[str, Any] | None
    last_error: str | None
    attempts: int
    omitted: bool  # the result was not read: all results together would be too large


class CompositionSummary(NamedTuple):
    """A composition; `client_id` and `parent_id` are clients' ids."""

    run_id: UUID
    kind: str
    name: str
    client_id: str
    parent_id: str | None  # of the enclosing composition


class StepJob(NamedTuple):
    client_id: str
    error: dict[str, Any] | None
    started_at: datetime | None


class NestedComposition(NamedTuple):
    """A composition that is a step of another one; `job` is the first of its jobs that failed."""

    client_id: str
    kind: str
    started_at: datetime | None
    job: str | None
    error: dict[str, Any] | None


async def publish(conn: Connection, shapes: Sequence[NewShape], *, org: str) -> None:
    await conn.execute(_SQL["publish"], *columns(shapes), org)


async def insert(conn: Connection, root: UUID, rows: Sequence[NewComposition], *, org: str) -> int:
    return len(await conn.fetch(_SQL["insert"], root, org, *columns(rows)))


async def reserve(conn: Connection, rows: Sequence[tuple[UUID, UUID]]) -> set[UUID]:
    """Reserve job ids, given as (id, run); return those that were free."""
    return set(column(await conn.fetch(_SQL["reserve"], *columns(rows))))


async def reserve_keys(conn: Connection, rows: Sequence[ReservedKey]) -> None:
    await conn.execute(_SQL["reserve_keys"], *columns(rows))


async def keys(conn: Connection, steps: Sequence[tuple[UUID, UUID, int]]) -> list[ReservedKey]:
    """Return the unique keys of steps, given as (old run, new run, step)."""
    return list(map(ReservedKey._make, await conn.fetch(_SQL["keys"], *columns(steps))))


async def enqueue(conn: Connection, rows: Sequence[NewPart], ids: Sequence[UUID], *, actor: str) -> None:
    await conn.execute(_SQL["enqueue"], list(ids), *columns(rows), actor)


async def find(conn: Connection, id_: UUID | None, alias: str, *, org: str) -> tuple[UUID, UUID] | None:
    """Return the ids of a composition and of the outermost composition that contains it."""
    row = await conn.fetchrow(_SQL["find"], org, id_, alias)
    return (row[0], row[1]) if row else None


async def tree(conn: Connection, root: UUID) -> dict[UUID, Node]:
    rows = await conn.fetch(_SQL["tree"], root)
    return {
        row["run_id"]: Node._make(row)._replace(labels=decode(row["labels"]), fans=decode(row["fans"]) or {})
        for row in rows
    }


async def jobs(conn: Connection, run: UUID, inside: Sequence[UUID], *, most: int, bytes_: int) -> list[PartJob]:
    """Return the jobs of a run, and up to `most` jobs of the runs `inside` it, with up to `bytes_` of results."""
    rows = await conn.fetch(_SQL["jobs"], run, list(inside), most, bytes_)
    return [PartJob._make(row)._replace(error=decode_object(row["error"])) for row in rows]


async def list_(conn: Connection, *, org: str, name: str | None, limit: int, offset: int) -> tuple[list[Listed], int]:
    rows = await conn.fetch(_SQL["list"], org, name, limit, offset)
    return [Listed._make(row[1:]) for row in rows if row["run_id"] is not None], rows[0]["total"]


async def start(conn: Connection, runs: Sequence[UUID], *, actor: str) -> None:
    await conn.execute(_SQL["start"], list(runs), actor)


async def above(conn: Connection, runs: Sequence[UUID]) -> dict[UUID, Around]:
    return {row[0]: Around._make(row) for row in await conn.fetch(_SQL["above"], list(runs))}


async def below(conn: Connection, places: Sequence[StepRef]) -> list[Below]:
    return list(map(Below._make, await conn.fetch(_SQL["below"], *columns(places))))


async def results(conn: Connection, places: Sequence[StepRef], *, each: int, most: int) -> list[PartResult]:
    """Return results of up to `each` bytes per run, the last steps first, and up to `most` bytes in total."""
    rows = await conn.fetch(_SQL["results"], *columns(places), each, most)
    return [PartResult._make(row)._replace(error=decode_object(row["error"])) for row in rows]


async def neighbors(conn: Connection, runs: Sequence[UUID]) -> list[UUID]:
    """Return the compositions directly inside or around these that have pending work."""
    return column(await conn.fetch(_SQL["neighbors"], list(runs)))


async def copy_runs(conn: Connection, rows: Sequence[tuple[UUID, UUID, UUID]]) -> None:
    """Copy runs, given as (old run, new run, new parent)."""
    await conn.execute(_SQL["copy_runs"], *columns(rows))


async def copy_jobs(conn: Connection, rows: Sequence[tuple[UUID, UUID, int]]) -> None:
    """Copy the jobs of steps, given as (old run, new run, step)."""
    await conn.execute(_SQL["copy_jobs"], *columns(rows))


async def summaries(conn: Connection, runs: Sequence[UUID]) -> dict[UUID, CompositionSummary]:
    return {row[0]: CompositionSummary._make(row) for row in await conn.fetch(_SQL["summaries"], list(runs))}


async def step_jobs(conn: Connection, places: Sequence[StepRef]) -> dict[StepRef, StepJob]:
    rows = await conn.fetch(_SQL["step_jobs"], *columns(places))
    return {(row[0], row[1]): StepJob(row[2], decode_object(row[3]), row[4]) for row in rows}


async def nested(conn: Connection, places: Sequence[StepRef]) -> dict[StepRef, NestedComposition]:
    rows = await conn.fetch(_SQL["nested"], *columns(places))
    return {(row[0], row[1]): NestedComposition._make([*row[2:6], decode_object(row[6])]) for row in rows}
