"""Waits for runs to end, with one query per poll for all waiting tasks. A notification only shortens the wait."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.runs.run import RunState
from windlass.engine.database import Database
from windlass.engine.quarantine import split_batch
from windlass.engine.runs import control as runs
from windlass.errors import NotFound, Unavailable
from windlass.runtime.loops.loop import until

POLL = timedelta(seconds=1)
_log = logging.getLogger("windlass.runs")
LIVE = frozenset({RunState.PENDING, RunState.RUNNING})


class Waiters:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: dict[UUID, set[asyncio.Future[RunState]]] = defaultdict(set)
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def ended(self, run: UUID) -> RunState:
        """Wait until the run has ended and return its final state. Raise `NotFound` if there is no such run."""
        answer: asyncio.Future[RunState] = asyncio.get_running_loop().create_future()
        self._waiting[run].add(answer)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        try:
            return await answer
        finally:
            self._waiting[run].discard(answer)
            if not self._waiting[run]:
                del self._waiting[run]

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        """Poll while there are waiting tasks."""
        with self._db.subscribe(self._woken):
            while self._waiting:
                with contextlib.suppress(Unavailable):  # poll again
                    await self._look()
                if self._waiting:
                    await until(self._stop, POLL, wake=self._wake)

    async def _look(self) -> None:
        """Resolve the waits for runs that have ended. A run that cannot be read fails its own waits only."""

        async def read(ids: Sequence[UUID]) -> dict[UUID, RunState]:
            return await runs.states(self._db, ids)

        async def fail(run: UUID, error: Exception) -> None:
            _log.error("run %s cannot be read", run, exc_info=error)
            for answer in tuple(self._waiting.get(run, ())):
                if not answer.done():
                    answer.set_exception(error)

        asked = tuple(self._waiting)
        found = await split_batch(asked, read, fail)
        states = {id_: state for part in found for id_, state in part.items()}
        for run in asked:
            state = states.get(run)
            for answer in tuple(self._waiting.get(run, ())):
                if state is None and not answer.done():
                    answer.set_exception(NotFound("run", run))
                elif state is not None and state not in LIVE and not answer.done():
                    answer.set_result(state)

    def _woken(self, topic: str) -> None:
        if topic in ("run", ""):
            self._wake.set()
