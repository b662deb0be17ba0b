"""All executions: begins, advances, ends and keeps them. The scheduler passes in `start`, which starts jobs."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol
from uuid import uuid4

from windlass.core.runs.event import Begun, Event
from windlass.cron.dependencies import Reach
from windlass.cron.executions.context import EntryId
from windlass.cron.executions.execution import Execution, WorkflowExecution, ended, skipped
from windlass.cron.executions.result import JobResult
from windlass.cron.job import Ending

REMOVED = "its entry was removed"


class Starter(Protocol):
    def __call__(self, execution: Execution, step: int) -> str | None:
        """Start a step's job, or return why it is skipped."""
        ...


class Executions:
    def __init__(
        self,
        retention: int,
        now: Callable[[], datetime],
        start: Starter,
        tell: Callable[[Execution], object],
    ) -> None:
        self._retention = retention  # 0: keep all
        self._now, self._start, self._tell = now, start, tell
        self._active: dict[str, Execution] = {}
        self._completed: dict[str, Execution] = {}

    def begin(self, reach: Reach, start_time: datetime) -> Execution:
        execution = Execution(str(uuid4()), reach, start_time)
        self._active[execution.id] = execution
        self._advance(execution, [Begun()])
        return execution

    def end(self, execution: Execution, step: int, ending: Ending) -> None:
        if ending.result is JobResult.SUCCESS:
            execution.keep(step, ending.output)
        self._advance(execution, [ended(step, ending)])

    def removed(self, entry: EntryId) -> None:
        """Skip a removed entry in every execution where it has not started, and decide its descendants."""
        for execution in list(self._active.values()):
            step = execution.waits(entry)
            if step is not None:
                execution.held.discard(step)
                self._advance(execution, [skipped(step, REMOVED)])

    def resume(self) -> None:
        """Start the steps that became ready while the scheduler was stopping."""
        for execution in list(self._active.values()):
            held, execution.held = execution.held, set()
            self._begin_steps(execution, sorted(held))
            self._close(execution)

    def status(self, execution_id: str) -> WorkflowExecution | None:
        execution = self._active.get(execution_id) or self._completed.get(execution_id)
        return execution.snapshot() if execution else None

    def active(self) -> list[WorkflowExecution]:
        return [execution.snapshot() for execution in self._active.values()]

    def all(self) -> list[WorkflowExecution]:
        """Return active and kept executions, oldest first."""
        known = [*self._completed.values(), *self._active.values()]
        return [execution.snapshot() for execution in sorted(known, key=lambda one: one.start_time.timestamp())]

    def using(self, child: EntryId, parent: EntryId) -> str | None:
        """Return the id of an active execution that uses this edge; None if there is none."""
        return next((known.id for known in self._active.values() if known.reach.has_edge(child, parent)), None)

    def _advance(self, execution: Execution, events: Iterable[Event]) -> None:
        self._begin_steps(execution, execution.take(events, self._now()))
        self._close(execution)

    def _begin_steps(self, execution: Execution, steps: Iterable[int]) -> None:
        """Start steps. A step that cannot start is skipped, which may make other steps ready: repeat until none is."""
        waiting = list(steps)
        while waiting:
            refused = [(step, why) for step in waiting if (why := self._start(execution, step)) is not None]
            answers = [skipped(step, why) for step, why in refused]
            waiting = execution.take(answers, self._now()) if answers else []

    def _close(self, execution: Execution) -> None:
        if not execution.complete or self._active.pop(execution.id, None) is None:
            return
        self._tell(execution)
        self._completed[execution.id] = execution
        if self._retention and len(self._completed) > self._retention:
            del self._completed[next(iter(self._completed))]
