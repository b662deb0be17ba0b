"""Reads the streams of handlers for all readers in this process: one query per poll, none without readers."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from uuid import UUID

from windlass.core.jobs.streams import START, Position, StreamPage
from windlass.engine.database import Database
from windlass.engine.jobs import streams
from windlass.errors import Unavailable

POLL = 0.1  # seconds
PAUSE = 1.0  # seconds after a failed poll
MOST_STREAMS = 500
_log = logging.getLogger("windlass.streams")


class Reader:
    """A subscriber of a stream.

    Only readers that wait for a page are polled for, so at most one page is kept for a slow reader.
    """

    def __init__(self, job: UUID, position: Position) -> None:
        self.job = job
        self.position = position
        self.closed = False
        self._page: StreamPage | None = None
        self._news = asyncio.Event()

    @property
    def is_waiting(self) -> bool:
        return self._page is None

    def put(self, page: StreamPage) -> None:
        if page.chunks:
            self.position = page.chunks[-1].position
        self._page = page
        self._news.set()

    def close(self) -> None:
        self.closed = True
        self._news.set()

    async def next(self) -> StreamPage | None:
        """Wait for the next page and return it; return None when the reader is closed."""
        await self._news.wait()
        self._news.clear()
        page, self._page = self._page, None
        return None if self.closed else page


class StreamReader:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._readers: set[Reader] = set()
        self._task: asyncio.Task[None] | None = None

    async def follow(self, job: UUID, after: Position = START) -> AsyncGenerator[StreamPage, None]:
        """Yield the chunks after a position and then new ones, until the job has ended or the process stops."""
        if len(self._readers) >= MOST_STREAMS:
            raise Unavailable(f"{MOST_STREAMS} streams are open in this process already: try again later")
        reader = Reader(job, after)
        self._readers.add(reader)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._poll(), name="windlass-streams")
        try:
            while (page := await reader.next()) is not None:
                yield page
                if page.ended is not None:
                    return
        finally:
            self._readers.discard(reader)

    async def close(self) -> None:
        for reader in tuple(self._readers):
            reader.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _poll(self) -> None:
        """Poll while there are readers.

        There is no await between the last check of `_readers` and the end of this task, so `follow` finds it either
        running or done.
        """
        while self._readers:
            pause = POLL
            try:
                await self._read()
            except Exception as error:  # the readers wait for the next poll
                known = isinstance(error, Unavailable)
                _log.log(logging.INFO if known else logging.ERROR, "%s", error, exc_info=None if known else error)
                pause = PAUSE
            await asyncio.sleep(pause)

    async def _read(self) -> None:
        readers = [reader for reader in self._readers if reader.is_waiting]
        if not readers:
            return
        places = [(reader.job, reader.position) for reader in readers]
        for reader, page in zip(readers, await streams.read(self._db, places), strict=True):
            if page.chunks or page.ended is not None:
                reader.put(page)
