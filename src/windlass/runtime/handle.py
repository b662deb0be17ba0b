"""The handle of a run: wait for it, inspect it and control it."""

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

_SAME: Any = object()  # no input given; None is a valid input


class RunFailed(WindlassError):
    """Raised by `RunResult.value` of a run that did not complete."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """The state and output of a run. `output` is the result of its last step, or of its last steps by name."""

    id: UUID
    state: RunState
    output: Any
    steps: dict[str, str]  # step name -> state

    @property
    def value(self) -> Any:
        """The output of the run. Raises `RunFailed` if the run did not complete."""
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
        """Wait until the run has ended and return its result.

        Raises `TimeoutError` after `timeout` (seconds or a timedelta); the run itself continues.
        """
        seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        await asyncio.wait_for(self.ended(), seconds)
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
        """Return everything that is known about the run and each of its steps at this moment."""
        return await inspect.account(self._db, self.id)

    async def explain(self) -> Explanation:
        """Explain in sentences why the run and its steps are in their current states."""
        return (await inspect.explained(self._db, self.id))[1]

    async def lines(self, **wanted: Any) -> Sequence[tuple[str, RunLine]]:
        """Return the lines that handlers logged, as (step, line), oldest first.

        Keyword arguments: `step`, `index` and `attempt` select lines; `after` and `limit` select the page.
        """
        return await inspect.lines(self._db, self.id, **wanted)

    async def instances(self, step: str, *, after: int = -1, limit: int = 100) -> Sequence[Instance]:
        """Return a page of the instances of a fanned-out step, by index."""
        return await runs.instances(self._db, self.id, step, after=after, limit=limit)

    async def cancel(self, *, reason: str | None = None) -> None:
        await runs.cancel(self._db, self.id, reason=reason)

    async def retry(self) -> None:
        """Run the failed steps and the steps that depend on them again; the results of succeeded steps are kept."""
        await runs.retry(self._db, self.id)

    async def rerun(self, step: str, *, input: Any = _SAME) -> None:  # noqa: A002
        """Run a step and all steps after it again; with a new input for the run, if `input` is given."""
        await runs.rerun(self._db, self.id, step, input_=input, with_input=input is not _SAME)

    def __repr__(self) -> str:
        return f"Run({str(self.id)!r})"
