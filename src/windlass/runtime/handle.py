"""The handle of a run: wait for it, inspect it and control it."""

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.core.explain.explanation import Explanation
from windlass.core.explain.snapshot import RunSnapshot
from windlass.core.runs.run import LIVE, RunResult, RunState
from windlass.engine.database import Tenant
from windlass.engine.quarantine import split_batch
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.engine.runs.control import Instance, RunView
from windlass.engine.runs.inspect import RunLine
from windlass.errors import NotFound, Unavailable
from windlass.runtime.loops.loop import until
from windlass.schemas.runs import RestartPreview

_SAME: Any = object()  # no input given; None is a valid input
POLL = timedelta(seconds=1)
_log = logging.getLogger("windlass.runs")


class Waiters:
    """Waits for runs to end, with one query per poll for all waiting tasks. A notification only shortens the wait."""

    def __init__(self, db: Tenant) -> None:
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
        """Poll while there are waiting tasks.

        There is no await between the last check of `_waiting` and the end of this task, so `ended` cannot add a waiter
        that nothing polls for: it finds the task either running or done.
        """
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

        waiting = tuple(self._waiting)
        parts = await split_batch(waiting, read, fail)
        states = {id_: state for part in parts for id_, state in part.items()}
        for run in waiting:
            state = states.get(run)
            for answer in tuple(self._waiting.get(run, ())):
                if state is None and not answer.done():
                    answer.set_exception(NotFound("run", run))
                elif state is not None and state not in LIVE and not answer.done():
                    answer.set_result(state)

    def _woken(self, topic: str) -> None:
        if topic in ("run", ""):
            self._wake.set()


class Run:
    def __init__(self, db: Tenant, waiters: Waiters, id_: UUID) -> None:
        self._db = db
        self._waiters = waiters
        self.id = id_

    async def wait(self, *, timeout: timedelta | float | None = None) -> RunResult:
        """Wait until the run has ended and return its result.

        Raises `TimeoutError` after `timeout` (seconds or a timedelta); the run itself continues.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        async with asyncio.timeout(seconds):
            await self.ended()
        return await self.result()

    async def ended(self) -> RunState:
        """Wait until the run has ended and return its final state."""
        return await self._waiters.ended(self.id)

    async def result(self) -> RunResult:
        """Return the current state of the run and its output so far, without waiting."""
        view = await self.view()
        return RunResult(self.id, view.row.state, await runs.output(self._db, self.id), view.states)

    async def view(self) -> RunView:
        """Return the run with its definition, its event trail and the jobs of its steps."""
        return await runs.view(self._db, self.id)

    async def account(self) -> RunSnapshot:
        """Return a snapshot of the run and all its steps."""
        return await inspect.snapshot(self._db, self.id)

    async def explain(self) -> Explanation:
        """Explain in sentences why the run and its steps are in their current states."""
        return (await inspect.explanation(self._db, self.id))[1]

    async def lines(self, **filters: Any) -> Sequence[tuple[str, RunLine]]:
        """Return the lines that handlers logged, as (step, line), oldest first.

        Keyword arguments: `step`, `index` and `attempt` select lines; `after` and `limit` select the page.
        """
        return await inspect.lines(self._db, self.id, **filters)

    async def instances(self, step: str, *, after: int = -1, limit: int = 100) -> Sequence[Instance]:
        """Return a page of the instances of a fanned-out step, by index."""
        return await runs.instances(self._db, self.id, step, after=after, limit=limit)

    async def cancel(self, *, reason: str | None = None, compensate: bool = False) -> None:
        """Stop the run. With `compensate`, undo the steps that succeeded before it ends."""
        await runs.cancel(self._db, self.id, reason=reason, compensate=compensate)

    async def pause(self, *, reason: str | None = None) -> None:
        """Start no more jobs of the run and of its child runs until it is resumed; running jobs finish."""
        await runs.pause(self._db, self.id, reason=reason)

    async def resume(self) -> None:
        """Resume the run: its jobs start at the times they were scheduled for."""
        await runs.resume(self._db, self.id)

    async def preview(self, step: str | None = None, *, version: str | None = None) -> RestartPreview:
        """Return which steps a retry, or a rerun from a step, would keep and run again. Raises the same errors."""
        return await runs.preview(self._db, self.id, step=step, live=runs.is_live(version))

    async def retry(self, *, version: str | None = None) -> None:
        """Run the failed steps and the steps that depend on them again; the results of succeeded steps are kept.

        `version="live"`: on the live version of the workflow, if the finished steps are the same there.
        """
        await runs.retry(self._db, self.id, live=runs.is_live(version))

    async def rerun(self, step: str, *, input: Any = _SAME, version: str | None = None) -> None:  # noqa: A002
        """Run a step and all steps after it again; with a new input for the run, if `input` is given."""
        same, live = input is _SAME, runs.is_live(version)
        await runs.rerun(self._db, self.id, step, input_=input, with_input=not same, live=live)

    def __repr__(self) -> str:
        return f"Run({str(self.id)!r})"
