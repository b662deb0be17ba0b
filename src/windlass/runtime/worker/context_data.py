"""Saves data that handlers record through their context: step results immediately, progress in periodic batches."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar
from uuid import UUID

from windlass.core.json_value import encode
from windlass.effects.threads import Threads
from windlass.engine.database import Database
from windlass.engine.jobs import checkpoints, progress
from windlass.engine.jobs.progress import Said
from windlass.errors import Unavailable

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds
T = TypeVar("T")


class ContextData:
    def __init__(self, db: Database, concurrency: int) -> None:
        self.threads = Threads(concurrency)
        self._db = db
        self._loop = asyncio.get_running_loop()
        self._said: dict[UUID, Said] = {}
        self._door = threading.Lock()  # guards `_said`: handlers report progress from any thread

    async def steps(self, job: UUID) -> dict[str, Any]:
        return await _patiently(lambda: checkpoints.steps(self._db, job))

    async def save_step(self, job: UUID, fence: int, name: str, result: Any) -> None:
        await _patiently(lambda: checkpoints.save_step(self._db, job, fence=fence, name=name, result=result))

    async def call(self, function: Callable[[], Any]) -> Any:
        return await self.threads.run(function)

    def wait(self, answer: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()

    def progress(self, job: UUID, fence: int, fraction: float, message: str | None, data: Any) -> None:
        said = Said(job, fence, fraction, message, None if data is None else encode(data, field="data"))
        with self._door:
            self._said[job] = said

    async def tell(self) -> None:
        """Write the progress reported since the last call. If the database is unavailable, keep it for the next call,
        unless newer progress of the same job has arrived."""
        with self._door:
            said, self._said = self._said, {}
        if not said:
            return
        try:
            await progress.report(self._db, list(said.values()))
        except Unavailable:
            with self._door:
                self._said = said | self._said
            raise


async def _patiently(ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Retry until the database answers: its unavailability must not fail the step."""
    pause = FIRST_PAUSE
    while True:
        try:
            return await ask()
        except Unavailable as error:
            await _recovery(error, pause)
            pause = min(LONGEST_PAUSE, pause * 2)


async def _recovery(error: Unavailable, seconds: float) -> None:
    """Wait until the outage is over, at most `seconds`; without a recovery event wait `seconds`."""
    if error.recovered is None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(error.recovered.wait(), seconds)
