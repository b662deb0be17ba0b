"""The live stream: reads the lines of the event trails that a reader has not seen, with the cursor after each."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from windlass.core.events.cursor import Cursor, Snapshot, places
from windlass.core.workflows.step import Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.errors import Invalid, NotFound
from windlass.store import events
from windlass.store.events import Line

__all__ = ["Cursor", "Line", "Snapshot"]
BATCH = 5_000


@dataclass(frozen=True, slots=True)
class TrailEntry:
    """A line of the event trail. `cursor` is the reader's position after it.

    All readers of a process share the object, and `rendered` caches its encoded forms, created by the first reader.
    """

    line: Line
    workflow: Workflow | None
    cursor: Cursor
    rendered: dict[bool, bytes] = field(init=False, default_factory=dict, compare=False, repr=False)

    @property
    def step(self) -> Step | None:
        if self.workflow is None or self.line.step is None:
            return None
        return self.workflow.steps[self.line.step]

    @property
    def xid(self) -> int:
        return self.line.xid


@dataclass(frozen=True, slots=True)
class Batch:
    """The lines that a reader at `at` has not seen; `next` is its position after them."""

    entries: Sequence[TrailEntry]
    at: Cursor
    upto: Snapshot
    next: Cursor
    more: bool = False
    state: str | None = None  # of the requested run
    letters: str = ""  # of its steps

    def after(self, had: Snapshot) -> "Batch":
        """Return the batch without what `had` sees, for a reader that has advanced beyond `at`."""
        if self.at.upto.covers(had):
            return self
        if not self.upto.covers(had):
            return replace(self, entries=[], upto=had, next=Cursor(had))
        left = [entry for entry in self.entries if not had.sees(entry.xid)]
        cursors = places([entry.line for entry in left], Cursor(had), self.upto)
        return replace(self, entries=[replace(entry, cursor=at) for entry, at in zip(left, cursors, strict=True)])


class ForeignCursor(Invalid):
    """A cursor of another cluster: the data was restored from a dump, or the reader comes from elsewhere."""

    def __init__(self) -> None:
        super().__init__("after is a cursor of another database: start again without it", field="after")


async def here(db: Database) -> Cursor:
    """Return a cursor for the current end of the event trails."""
    async with db.once() as conn:
        return Cursor(await events.here(conn))


async def since(db: Database, at: Cursor, *, run: UUID | None = None, limit: int = BATCH) -> Batch:
    """Return the lines after a cursor, of all runs or of one: a bounded batch, in the order of commits."""
    async with db.once() as conn:
        if run is None:
            read = await events.since(conn, at, limit=limit)
        else:
            read = await events.since_of_run(conn, run, at, limit=limit)
            if read.state is None:
                raise NotFound("run", run)
        if not at.before and not read.more and not read.upto.covers(at.upto):
            raise ForeignCursor
        lines = [line for line in read.lines if read.upto.sees(line.xid) and not at.has(line)]
        versions = {line.version_id for line in lines if line.version_id is not None}
        workflows = await db.definitions.readable(conn, versions)  # lines of unreadable versions have no names
    cursors = places(lines, at, read.upto, more=read.next.before is not None)
    entries = [
        TrailEntry(line, None if line.version_id is None else workflows.get(line.version_id), cursor)
        for line, cursor in zip(lines, cursors, strict=True)
    ]
    return Batch(entries, at, read.upto, read.next, read.more, read.state, read.letters)
