"""A run in somebody's hand: wait for it, look at it, steer it."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.core.explain.explanation import Explanation
from windlass.core.explain.snapshot import RunSnapshot
from windlass.core.runs.run import RunState
from windlass.engine.database import Database
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.engine.runs.control import Instance, RunView
from windlass.engine.runs.inspect import RunLine
from windlass.errors import WindlassError
from windlass.runtime.waiters import Waiters

_SAME: Any = object()  # no input given; None is one


class RunFailed(WindlassError):
    """Raised by `RunResult.value` of a run that did not complete."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `output` is what its last step gave, or its last steps by name."""

    id: UUID
    state: RunState
    output: Any
    steps: dict[str, str]  # what became of each

    @property
    def value(self) -> Any:
        """The output; raises if the run did not complete."""
        if self.state is not RunState.COMPLETED:
            bad = ", ".join(name for name, state in self.steps.items() if state in ("failed", "timed out"))
            raise RunFailed(f"run {self.id} is {self.state}{f': {bad}' if bad else ''}; windlass explain {self.id}")
        return self.output


class Run:
    def __init__(self, db: Database, waiters: Waiters, id_: UUID) -> None:
        self._db = db
        self._waiters = waiters
        self.id = id_

    async def wait(self, *, timeout: timedelta | float | None = None) -> RunResult:
        """Until the run has ended. `TimeoutError` after `timeout`; the run goes on."""
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        await asyncio.wait_for(self.ended(), seconds)
        return await self.result()

    async def ended(self) -> RunState:
        """The state in which the run ended, once it has."""
        return await self._waiters.ended(self.id)

    async def result(self) -> RunResult:
        """How it stands now, and what it gave so far."""
        view = await self.view()
        return RunResult(self.id, view.row.state, await runs.output(self._db, self.id), view.states)

    async def view(self) -> RunView:
        """The run with its definition, its trail and the jobs of its steps."""
        return await runs.view(self._db, self.id)

    async def account(self) -> RunSnapshot:
        """All that is known about the run and each of its steps at this moment."""
        return await inspect.account(self._db, self.id)

    async def explain(self) -> Explanation:
        """Why everything is as it is, in sentences."""
        return (await inspect.explained(self._db, self.id))[1]

    async def lines(self, **wanted: Any) -> Sequence[tuple[str, RunLine]]:
        """(step, line) that handlers logged, oldest first: step, index, attempt, after, limit."""
        return await inspect.lines(self._db, self.id, **wanted)

    async def instances(self, step: str, *, after: int = -1, limit: int = 100) -> Sequence[Instance]:
        """A page of a step's copies, in order."""
        return await runs.instances(self._db, self.id, step, after=after, limit=limit)

    async def cancel(self, *, reason: str | None = None) -> None:
        await runs.cancel(self._db, self.id, reason=reason)

    async def retry(self) -> None:
        """Do again what failed and what hung on it; what succeeded is kept."""
        await runs.retry(self._db, self.id)

    async def rerun(self, step: str, *, input: Any = _SAME) -> None:  # noqa: A002
        """Do a step again, and everything after it; with another input for the run, if one is given."""
        await runs.rerun(self._db, self.id, step, input_=input, with_input=input is not _SAME)

    def __repr__(self) -> str:
        return f"Run({str(self.id)!r})"
