"""What happens, as it happens: the lines of the trails that a reader has not had, and where it is after each."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from windlass.core.events.cursor import Cursor, Snapshot, places
from windlass.core.workflows.step import Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.errors import Invalid, NotFound
from windlass.store import live as store
from windlass.store.live import Line

__all__ = ["Batch", "Cursor", "Line", "Snapshot", "Told", "here", "since"]
BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Told:
    """A line of the trail. `cursor` is where its reader is now.

    All readers of a process get the same object, and `rendered` keeps what was made of it for the first of them.
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
    """What a reader that was at `at` had not had; `next` is where it is after it."""

    told: Sequence[Told]
    at: Cursor
    upto: Snapshot
    next: Cursor
    more: bool = False
    state: str | None = None  # of the run that was asked for
    letters: str = ""  # of its steps

    def after(self, had: Snapshot) -> "Batch":
        """The same for a reader that had more than `at` by the time it was read."""
        if self.at.upto.covers(had):
            return self
        if not self.upto.covers(had):
            return replace(self, told=[], upto=had, next=Cursor(had))
        left = [told for told in self.told if not had.sees(told.xid)]
        cursors = places([told.line for told in left], Cursor(had), self.upto)
        return replace(self, told=[replace(told, cursor=at) for told, at in zip(left, cursors, strict=True)])


class ForeignCursor(Invalid):
    """A reader's place in the trail of another cluster: the data came from a dump, or the reader from elsewhere."""

    def __init__(self) -> None:
        super().__init__("after is a place in the stream of another database: begin anew", field="after")


async def here(db: Database) -> Cursor:
    """This moment: what follows is new."""
    async with db.once() as conn:
        return Cursor(await store.here(conn))


async def since(db: Database, at: Cursor, *, run: UUID | None = None, limit: int = BATCH) -> Batch:
    """What came after a place, of all or of one run: a bounded batch, in the order of commits."""
    async with db.once() as conn:
        if run is None:
            read = await store.since(conn, at, limit=limit)
        else:
            read = await store.since_of_run(conn, run, at, limit=limit)
            if read.state is None:
                raise NotFound("run", run)
        if not at.before and not read.more and not read.upto.covers(at.upto):
            raise ForeignCursor
        lines = [line for line in read.lines if read.upto.sees(line.xid) and not at.has(line)]
        versions = {line.version_id for line in lines if line.version_id is not None}
        workflows = await db.definitions.readable(conn, versions)  # a line of another version is shown without names
    cursors = places(lines, at, read.upto, more=read.next.before is not None)
    told = [
        Told(line, None if line.version_id is None else workflows.get(line.version_id), cursor)
        for line, cursor in zip(lines, cursors, strict=True)
    ]
    return Batch(told, at, read.upto, read.next, read.more, read.state, read.letters)
