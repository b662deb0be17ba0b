"""Everybody who watches, fed from one reader a process: one question a moment, however many watch, none if nobody does.

A notification only shortens the wait. Who does not keep up is let go, and catches up when it comes back: the place of
every line is in the line.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from windlass.engine.database import Database
from windlass.engine.events import stream
from windlass.engine.events.stream import Batch, Cursor, Told
from windlass.errors import Unavailable, WindlassError
from windlass.runtime.loops.loop import until

POLL = timedelta(milliseconds=500)
PATIENCE = 10  # seconds that the database gets to tell where we are
PAUSE = 0.05  # seconds between two questions, whatever the hurry
MOST_STREAMS = 500
MOST_WAITING = 20_000  # lines that a slow reader may be behind
_log = logging.getLogger("windlass.live")


class Feed:
    """What one reader has yet to be told; of one run, or of all."""

    def __init__(self, run: UUID | None) -> None:
        self.run = run
        self._batches: deque[Batch] = deque()
        self._waiting = 0
        self._news = asyncio.Event()
        self.closed = False

    def put(self, batch: Batch) -> None:
        """One without lines only says where the reader is: of several such the last is enough."""
        if self._batches and not self._batches[-1].told and not batch.told:
            self._batches.pop()
        self._waiting += len(batch.told)
        self._batches.append(batch)
        if self._waiting > MOST_WAITING:
            self.close()
        self._news.set()

    def close(self) -> None:
        self.closed = True
        self._batches.clear()
        self._news.set()

    async def get(self) -> Batch | None:
        """The next batch; None: there will be no more."""
        while not self._batches and not self.closed:
            self._news.clear()
            await self._news.wait()
        if self.closed:
            return None
        batch = self._batches.popleft()
        self._waiting -= len(batch.told)
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

    async def follow(self, at: Cursor | None = None, *, run: UUID | None = None) -> AsyncGenerator[Batch, None]:
        """What came after a place, and then what comes, until the reader is too slow or the app is closed.

        The first batch is never missing, though it may be empty: it says where the reader is.
        """
        feed = self._subscribe(run)
        try:
            await self._begin()  # from here on nothing escapes the feed
            at = at or await stream.here(self._db)
            batch = await stream.since(self._db, at, run=run)
            yield batch
            while batch.more:
                batch = await stream.since(self._db, batch.next, run=run)
                yield batch
            had = batch.upto
            while (heard := await feed.get()) is not None:
                heard = heard.after(had)
                yield heard
        finally:
            self._feeds.discard(feed)

    @property
    def watching(self) -> int:
        return len(self._feeds)

    async def idle(self) -> None:
        """Until nobody watches and nothing is asked any more."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """Everybody is let go."""
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
            await asyncio.wait_for(self._ready.wait(), PATIENCE)
        except TimeoutError:
            raise Unavailable(f"the database did not answer within {PATIENCE} s") from None

    async def _watch(self) -> None:
        """Look as long as somebody watches."""
        self._at = None
        with self._db.subscribe(self._woken):
            while self._feeds:
                try:
                    more = await self._look()
                except WindlassError as error:  # the database is away: it will be asked again
                    _log.info("%s", error)
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
        of_run: dict[UUID | None, list[Told]] = defaultdict(list)
        for told in batch.told:
            of_run[told.line.run_id].append(told)
        for feed in tuple(self._feeds):
            feed.put(batch if feed.run is None else replace(batch, told=of_run.get(feed.run, ())))
        return batch.more

    def _woken(self, _topic: str) -> None:
        self._wake.set()
