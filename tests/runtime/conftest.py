"""Fixtures and helpers: a worker that runs concurrently with the test, and a wait for a condition."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from windlass import Windlass, WorkerOptions

T = TypeVar("T")
Working = Callable[..., Any]


@pytest.fixture
def working() -> Working:
    @asynccontextmanager
    async def run(app: Windlass, **options: Any) -> AsyncIterator[asyncio.Event]:
        stop = asyncio.Event()
        chosen = WorkerOptions(**{"poll": timedelta(milliseconds=50), "grace": timedelta(seconds=5), **options})
        task = asyncio.create_task(app.work(chosen, stop=stop))
        try:
            yield stop
        finally:
            stop.set()
            await task

    return run


async def eventually(look: Callable[[], Awaitable[T | None]], *, seconds: float = 15) -> T:
    """Poll `look` until its result is true; return the result."""
    async with asyncio.timeout(seconds):
        while not (seen := await look()):
            await asyncio.sleep(0.01)
    return seen
