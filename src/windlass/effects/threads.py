"""Threads for sync handlers. A thread cannot be stopped: one whose task was cancelled counts as abandoned until it
returns."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

from windlass.effects.context import current


class Threads:
    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="windlass-job")
        self._abandoned: dict[Future[Any], UUID | None] = {}  # still running -> its job

    @property
    def abandoned(self) -> int:
        return len(self._abandoned)

    def occupied_by(self, job: UUID) -> bool:
        """Return whether a thread that could not be stopped still runs the handler of this job."""
        return bool(self._abandoned) and job in tuple(self._abandoned.values())  # a copy: threads remove their entries

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run `call` with this task's context variables; cancelling the task abandons the thread."""
        context = current()
        future = self._pool.submit(contextvars.copy_context().run, _call, call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.done():
                self._abandoned[future] = context.id if context is not None else None
                future.add_done_callback(lambda ended: self._abandoned.pop(ended, None))
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _call(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StopIteration as error:  # a future cannot carry it: awaiting it would never return
        raise RuntimeError("the handler raised StopIteration") from error
