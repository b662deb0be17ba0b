"""Buffers the chunks that handlers stream, and writes those of all handlers of a worker together."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

from windlass.core.jobs.streams import NewChunk

PAUSE = 0.05  # seconds in which chunks are collected before they are written


class StreamWriter:
    def __init__(self, write: Callable[[Sequence[NewChunk]], Awaitable[None]]) -> None:
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._pending: list[NewChunk] = []
        self._guard = threading.Lock()  # guards `_pending`: handlers stream from any thread
        self._writing = asyncio.Lock()  # one write at a time: chunks must become visible in their order
        self._task: asyncio.Task[None] | None = None

    def add(self, chunk: NewChunk) -> None:
        with self._guard:
            self._pending.append(chunk)
            is_first = len(self._pending) == 1
        if is_first:
            self._loop.call_soon_threadsafe(self._begin)

    async def flush(self) -> None:
        """Write all chunks added so far."""
        async with self._writing:
            with self._guard:
                chunks, self._pending = self._pending, []
            if chunks:
                await self._write(chunks)

    def _begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._write_soon())

    async def _write_soon(self) -> None:
        while self._pending:
            await asyncio.sleep(PAUSE)
            await self.flush()
