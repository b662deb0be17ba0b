"""Batches concurrent requests: requests that arrive while a batch is in flight form the next one; otherwise a request
is sent immediately.

A batch that fails is split, so that only the request that causes the error fails.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from windlass.engine.quarantine import split_batch

Asked = TypeVar("Asked")
Given = TypeVar("Given")


class Gathering(Generic[Asked, Given]):
    """`serve` returns one answer per request, in order, or fails as a whole. An answer that is an exception is raised
    in the task that made the request."""

    def __init__(
        self,
        serve: Callable[[Sequence[Asked]], Awaitable[Sequence[Given | Exception]]],
        *,
        most: int = 100,
        lanes: int = 1,
    ) -> None:
        self._serve = serve
        self._most = most
        self._lanes = lanes  # maximum number of batches in flight
        self._waiting: list[tuple[Asked, asyncio.Future[Given]]] = []
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()  # strong references: the event loop keeps only weak ones

    async def ask(self, asked: Asked) -> Given:
        answer: asyncio.Future[Given] = asyncio.get_running_loop().create_future()
        self._waiting.append((asked, answer))
        if self._busy < self._lanes:
            self._busy += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    async def _work(self) -> None:
        try:
            await self._serve_all()
        finally:
            self._busy -= 1  # here and not in a done callback: `ask` must not rely on a task that no longer serves

    async def _answers(self, asked: Sequence[Asked]) -> Sequence[Given | Exception]:
        async def alone(_: Asked, error: Exception) -> Sequence[Given | Exception]:
            return [error]

        try:
            return [answer for part in await split_batch(asked, self._serve, alone) for answer in part]
        except Exception as error:
            return [error] * len(asked)

    async def _serve_all(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            answers = await self._answers([asked for asked, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():
                    continue  # the request was cancelled
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
