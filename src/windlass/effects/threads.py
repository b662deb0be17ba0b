"""Threads for sync handlers. A thread cannot be stopped: one whose job was taken away counts until it returns."""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Threads:
    def __init__(self, size: int) -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix="windlass-job")
        self._abandoned: set[Future[Any]] = set()

    @property
    def abandoned(self) -> int:
        return len(self._abandoned)

    async def run(self, call: Callable[[], Any]) -> Any:
        """Run `call` with this task's context variables; cancelling the task abandons the thread."""
        future = self._pool.submit(contextvars.copy_context().run, _call, call)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.done():
                self._abandoned.add(future)
                future.add_done_callback(self._abandoned.discard)
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def _call(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except StopIteration as error:  # a future cannot carry it: whoever awaits would wait for ever
        raise RuntimeError("the handler raised StopIteration") from error
