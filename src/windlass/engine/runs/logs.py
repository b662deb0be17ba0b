"""Log lines of a run beyond a page: the tail, the whole log, and new lines."""

from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass
from uuid import UUID

from windlass.core.events.cursor import Snapshot
from windlass.core.jobs.spec import check_range
from windlass.engine.database import Database
from windlass.engine.runs.control import known, step_number
from windlass.store import logs as store
from windlass.store.accounts import RunLine
from windlass.store.logs import Mark, Which

__all__ = ["Chosen", "RunLine", "Which", "chosen", "held", "new", "tail", "whole"]
MOST_TAIL = 10_000
PAGE = 5_000


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selection of log lines, with the names of the workflow and its steps."""

    which: Which
    workflow: str
    names: tuple[str, ...]

    def name(self, line: RunLine) -> str:
        return self.names[line.step]


async def chosen(
    db: Database, run: UUID, *, step: str | None = None, index: int | None = None, attempt: int | None = None
) -> Chosen:
    async with db.once() as conn:
        row = await known(conn, db, run)
        workflow = (await db.definitions.of(conn, [row.version_id]))[row.version_id]
    number = None if step is None else step_number(workflow, step)
    return Chosen(Which(run, number, index, attempt), workflow.name, tuple(one.name for one in workflow.steps))


async def tail(db: Database, asked: Chosen, count: int, *, seen_by: Snapshot | None = None) -> list[RunLine]:
    """Return the last lines, in the order of time; if a snapshot is given, only those it sees."""
    check_range(count, "tail", most=MOST_TAIL)
    async with db.once() as conn:
        found = await store.tail(conn, asked.which, count)
    return [line for xid, line in found if seen_by is None or seen_by.sees(xid)]


async def whole(db: Database, asked: Chosen) -> AsyncGenerator[list[RunLine], None]:
    """Yield all lines, a page at a time: step by step, instance by instance, each in the order of time."""
    mark: Mark | None = Mark()
    while mark is not None:
        async with db.once() as conn:
            lines, mark = await store.whole(conn, asked.which, mark, limit=PAGE)
        if lines:
            yield lines


async def new(
    db: Database, asked: Chosen, base: Snapshot, upto: Snapshot, *, jobs: Collection[UUID] | None = None
) -> list[RunLine]:
    """Return the lines that `upto` sees and `base` does not, in the order of time."""
    async with db.once() as conn:
        found = await store.since(conn, asked.which, base, jobs=jobs)
    return [line for xid, line in found if upto.sees(xid)]


async def held(db: Database, asked: Chosen) -> set[UUID]:
    """Return the jobs that are leased and may log more."""
    async with db.once() as conn:
        return await store.held(conn, asked.which.run, asked.which.step)
