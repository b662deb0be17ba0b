"""Streams the log lines of a run or step as they are written.

Only jobs that are leased, or that have new events, are queried: the event trail names them. Lines are separated by the
snapshots that see them, as in the event trail, so that none is lost and none is sent twice.
"""

import contextlib
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from windlass.core.runs.run import OPEN, RunState
from windlass.engine.database import Database
from windlass.engine.events.stream import Batch, Cursor, Snapshot
from windlass.engine.runs import logs
from windlass.engine.runs.logs import Chosen, RunLine
from windlass.runtime.live import Live

LIVE = frozenset({RunState.PENDING, RunState.RUNNING})


@dataclass(frozen=True, slots=True)
class Lines:
    """Log lines, each with the cursor after it; lines of the initial tail have no cursor."""

    told: Sequence[tuple[RunLine, Cursor | None]]
    next: Cursor
    over: bool = False  # the step or run has ended: there will be no more lines


async def follow(
    live: Live, db: Database, asked: Chosen, at: Cursor | None, *, tail: int
) -> AsyncGenerator[Lines, None]:
    """Yield the lines after a cursor, or the last `tail` lines, and then new ones as they come.

    `Lines.over` marks the end of the step or run; the generator itself does not stop there.
    """
    async with contextlib.aclosing(live.follow(run=asked.which.run)) as batches:
        batch = await anext(batches)
        had, over = batch.upto, _over(batch, asked.which.step)
        busy = await logs.held(db, asked)
        if at is None:
            last = await logs.tail(db, asked, tail, seen_by=had) if tail else []
            yield Lines([(line, None) for line in last], Cursor(had), over)
        else:
            if at.before is not None:
                rest = await logs.new(db, asked, at.before, at.upto)
                yield _lines(rest, at.before, at.upto, skip=at.run_line)
            yield _lines(await logs.new(db, asked, at.upto, had), at.upto, had, over=over)
        async for batch in batches:
            jobs = {told.line.job_id for told in batch.told if told.line.job_id is not None}
            fresh = await logs.new(db, asked, had, batch.upto, jobs=busy | jobs)
            yield _lines(fresh, had, batch.upto, over=_over(batch, asked.which.step))
            had = batch.upto
            _mind(busy, batch)


def _mind(busy: set[UUID], batch: Batch) -> None:
    """Update the set of leased jobs from a batch of events."""
    for told in batch.told:
        if told.line.job_id is not None:
            (busy.add if told.line.word == "leased" else busy.discard)(told.line.job_id)


def _over(batch: Batch, step: int | None) -> bool:
    if batch.more:
        return False
    state = batch.state or (batch.told[-1].line.state if batch.told else None)
    if state is not None and state not in LIVE:
        return True
    letters = {batch.letters[step]} if step is not None and batch.letters else set()
    letters |= {told.line.letters for told in batch.told if told.line.step == step is not None and told.line.letters}
    return bool(letters) and not letters & OPEN


def _lines(lines: Sequence[RunLine], base: Snapshot, upto: Snapshot, *, skip: int = 0, over: bool = False) -> Lines:
    return Lines(list(_placed(lines, base, upto))[skip:], Cursor(upto), over)


def _placed(lines: Sequence[RunLine], base: Snapshot, upto: Snapshot) -> Iterator[tuple[RunLine, Cursor]]:
    for n, line in enumerate(lines, 1):
        yield line, Cursor(upto) if n == len(lines) else Cursor(upto, base, n)
