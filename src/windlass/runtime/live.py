"""Streams the event trail, and the log lines of a run, to many subscribers from one polling reader per process.

The number of queries does not depend on the number of subscribers, and there are none without subscribers. A
notification only shortens the wait between polls. A subscriber that falls too far behind is disconnected; it can resume
without loss, because every event carries its cursor.

Log lines: only jobs that are leased, or that have new events, are queried; the event trail names them. Lines are
separated by the snapshots that see them, as in the event trail, so that none is lost and none is sent twice.
"""

import asyncio
import contextlib
import logging
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from windlass.core.runs.run import LIVE, OPEN
from windlass.engine.database import Database
from windlass.engine.events import stream
from windlass.engine.events.stream import Batch, Cursor, Snapshot, TrailEntry
from windlass.engine.runs import inspect
from windlass.engine.runs.inspect import LineSelection, RunLine
from windlass.errors import Unavailable, WindlassError
from windlass.runtime.loops.loop import until
from windlass.runtime.streams import StreamReader

POLL = timedelta(milliseconds=500)
PATIENCE = 10  # seconds to wait for the current position in the event trail
PAUSE = 0.05  # minimum seconds between two polls, unless the last one was cut short by its limit
MOST_STREAMS = 500
MOST_WAITING = 20_000  # events that a slow subscriber may have pending
_log = logging.getLogger("windlass.live")


class Feed:
    """The pending batches of one subscriber, to one run or to all runs."""

    def __init__(self, run: UUID | None) -> None:
        self.run = run
        self._batches: deque[Batch] = deque()
        self._waiting = 0
        self._news = asyncio.Event()
        self.closed = False

    def put(self, batch: Batch) -> None:
        """Append a batch. An empty batch only carries a position, so it replaces an empty one before it."""
        if self._batches and not self._batches[-1].entries and not batch.entries:
            self._batches.pop()
        self._waiting += len(batch.entries)
        self._batches.append(batch)
        if self._waiting > MOST_WAITING:
            self.close()
        self._news.set()

    def close(self) -> None:
        self.closed = True
        self._batches.clear()
        self._news.set()

    async def get(self) -> Batch | None:
        """Wait for the next batch and return it; return None when the feed is closed."""
        while not self._batches and not self.closed:
            self._news.clear()
            await self._news.wait()
        if self.closed:
            return None
        batch = self._batches.popleft()
        self._waiting -= len(batch.entries)
        return batch


class Live:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._feeds: set[Feed] = set()
        self._at: Cursor | None = None
        self._ready = asyncio.Event()
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.streams = StreamReader(db)

    async def follow(self, at: Cursor | None = None, *, run: UUID | None = None) -> AsyncGenerator[Batch, None]:
        """Yield the events after a cursor (default: now), then new ones, until the subscriber is too slow or the app
        is closed.

        The first batch is always yielded, even if it is empty: it carries the current position.
        """
        feed = self._subscribe(run)
        try:
            # Subscribe before reading the past: from here on the feed receives every new event. `after` below removes
            # those that the catch-up has already yielded.
            await self._begin()
            at = at or await stream.here(self._db)
            batch = await stream.since(self._db, at, run=run)
            yield batch
            while batch.more:
                batch = await stream.since(self._db, batch.next, run=run)
                yield batch
            had = batch.upto
            while (following := await feed.get()) is not None:
                yield following.after(had)
        finally:
            self._feeds.discard(feed)

    @property
    def watching(self) -> int:
        return len(self._feeds)

    async def idle(self) -> None:
        """Wait until the reader task has ended, which it does when there are no subscribers."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Disconnect all subscribers and stop the reader."""
        await self.streams.close()
        for feed in tuple(self._feeds):
            feed.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def _subscribe(self, run: UUID | None) -> Feed:
        if len(self._feeds) >= MOST_STREAMS:
            raise Unavailable(f"{MOST_STREAMS} streams are open in this process already: try again later")
        feed = Feed(run)
        self._feeds.add(feed)
        if self._task is None or self._task.done():
            self._ready.clear()
            self._task = asyncio.create_task(self._watch(), name="windlass-live")
        return feed

    async def _begin(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._ready.wait()
        except TimeoutError:
            raise Unavailable(f"the database did not answer within {PATIENCE} s") from None

    async def _watch(self) -> None:
        """Poll the event trail while there are subscribers.

        There is no await between the last check of `_feeds` and the end of this task, so `_subscribe` finds it either
        running or done. A new task begins at the current end of the trail; `_ready` is set when that is known.
        """
        self._at = None
        with self._db.subscribe(self._woken):
            while self._feeds:
                try:
                    more = await self._look()
                except WindlassError as error:  # the database is unavailable: poll again
                    _log.info("%s", error)
                    more = False
                except Exception as error:  # of any kind: otherwise all subscribers would wait without an error
                    _log.error("the event trail could not be read: trying again", exc_info=error)
                    more = False
                if self._feeds and not more:
                    await asyncio.sleep(PAUSE)
                    await until(self._stop, POLL, wake=self._wake)

    async def _look(self) -> bool:
        if self._at is None:
            self._at = await stream.here(self._db)
            self._ready.set()
            return False
        batch = await stream.since(self._db, self._at)
        self._at = batch.next
        of_run: dict[UUID | None, list[TrailEntry]] = defaultdict(list)
        for entry in batch.entries:
            of_run[entry.line.run_id].append(entry)
        for feed in tuple(self._feeds):
            feed.put(batch if feed.run is None else replace(batch, entries=of_run.get(feed.run, ())))
        return batch.more

    def _woken(self, _topic: str) -> None:
        self._wake.set()


@dataclass(frozen=True, slots=True)
class LogLines:
    """Log lines, each with the cursor after it; lines of the initial tail have no cursor."""

    lines: Sequence[tuple[RunLine, Cursor | None]]
    next: Cursor
    over: bool = False  # the step or run has ended: there will be no more lines


async def follow_logs(
    live: Live, db: Database, chosen: LineSelection, at: Cursor | None, *, tail: int
) -> AsyncGenerator[LogLines, None]:
    """Yield the lines after a cursor, or the last `tail` lines, and then new lines as they are written.

    `LogLines.over` marks the end of the step or run; the generator itself does not stop there.
    """
    async with contextlib.aclosing(live.follow(run=chosen.which.run)) as batches:
        batch = await anext(batches)
        had, over = batch.upto, _has_ended(batch, chosen.which.step)
        busy = await inspect.leased_jobs(db, chosen)
        if at is None:
            last = await inspect.last_lines(db, chosen, tail, seen_by=had) if tail else []
            yield LogLines([(line, None) for line in last], Cursor(had), over)
        else:
            if at.before is not None:
                rest = await inspect.new_lines(db, chosen, at.before, at.upto)
                yield _log_lines(rest, at.before, at.upto, skip=at.run_line)
            yield _log_lines(await inspect.new_lines(db, chosen, at.upto, had), at.upto, had, over=over)
        async for batch in batches:
            jobs = {entry.line.job_id for entry in batch.entries if entry.line.job_id is not None}
            fresh = await inspect.new_lines(db, chosen, had, batch.upto, jobs=busy | jobs)
            yield _log_lines(fresh, had, batch.upto, over=_has_ended(batch, chosen.which.step))
            had = batch.upto
            _update_leased(busy, batch)


def _update_leased(busy: set[UUID], batch: Batch) -> None:
    """Update the set of leased jobs from a batch of events."""
    for entry in batch.entries:
        if entry.line.job_id is not None:
            (busy.add if entry.line.word in ("leased", "started") else busy.discard)(entry.line.job_id)


def _has_ended(batch: Batch, step: int | None) -> bool:
    if batch.more:
        return False
    state = batch.state or (batch.entries[-1].line.state if batch.entries else None)
    if state is not None and state not in LIVE:
        return True
    letters = {batch.letters[step]} if step is not None and batch.letters else set()
    letters |= {
        entry.line.letters for entry in batch.entries if entry.line.step == step is not None and entry.line.letters
    }
    return bool(letters) and not letters & OPEN


def _log_lines(
    lines: Sequence[RunLine], base: Snapshot, upto: Snapshot, *, skip: int = 0, over: bool = False
) -> LogLines:
    return LogLines(list(_placed(lines, base, upto))[skip:], Cursor(upto), over)


def _placed(lines: Sequence[RunLine], base: Snapshot, upto: Snapshot) -> Iterator[tuple[RunLine, Cursor]]:
    for n, line in enumerate(lines, 1):
        yield line, Cursor(upto) if n == len(lines) else Cursor(upto, base, n)
