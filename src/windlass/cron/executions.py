"""Executions of a DAG of entries: each is a `Run` of the core over a copy of the edges made when it began.

`decide` returns the steps to start (`Enqueue`); the entry's wrapped job starts, and its end is passed to `decide` as an
event. A step that was started can still end as skipped: by a wrapper, or because its entry is paused or was removed.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import uuid4

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.core.runs.command import Command, Enqueue, Note
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun, Ended, Event
from windlass.core.runs.run import Letter, Reason, Run, RunState
from windlass.cron.context import EntryId, JobContext
from windlass.cron.dependencies import LETTERS, RESULTS, JobResult, Reach
from windlass.cron.errors import EntryNotFound, Key
from windlass.cron.job import Ending

REMOVED = "its entry was removed"


@dataclass(slots=True)
class WorkflowExecution:
    """A snapshot of an execution; changing it has no effect. `reasons` explains failures and skips, `outputs` has the
    return values of successful jobs."""

    id: str
    root_id: EntryId
    start_time: datetime
    results: dict[EntryId, JobResult]
    reasons: dict[EntryId, str] = field(default_factory=dict)
    names: dict[EntryId, str] = field(default_factory=dict)  # a copy: an entry may have been removed since
    outputs: dict[EntryId, Any] = field(default_factory=dict)
    end_time: datetime | None = None

    @property
    def complete(self) -> bool:
        return all(result.terminal for result in self.results.values())

    @property
    def name(self) -> str:
        """The name of the root entry."""
        return self.names.get(self.root_id, f"#{self.root_id}")

    def result(self, key: Key) -> JobResult:
        """Return the result of one entry, by id or name."""
        return self.results[self._id(key)]

    def output(self, key: Key) -> Any:
        """Return the return value of one entry's job; None if it has not succeeded."""
        return self.outputs.get(self._id(key))

    def _id(self, key: Key) -> EntryId:
        for entry in self.results:
            if key in (entry, self.names.get(entry)):
                return entry
        raise EntryNotFound(key)


class Triggered(str):
    """The id of the execution that a trigger started; empty if the entry has no children and its job runs alone.

    Await it, or call `wait` in a thread, to get the execution when it has ended; for a job that runs alone, it
    contains just that job. It is not `complete` if the scheduler stopped first.
    """

    _ended: Future[WorkflowExecution]

    def __new__(cls, execution_id: str, ended: Future[WorkflowExecution]) -> "Triggered":
        triggered = super().__new__(cls, execution_id)
        triggered._ended = ended
        return triggered

    def __await__(self) -> Generator[Any, None, WorkflowExecution]:
        # shielded: cancelling one waiter must not cancel the future for the others
        return asyncio.shield(asyncio.wrap_future(self._ended)).__await__()

    def wait(self, timeout: Duration | None = None) -> WorkflowExecution | None:
        """Block until the end and return the execution; None if it has not ended within `timeout`."""
        seconds = None if timeout is None else duration.read(timeout, field="timeout").total_seconds()
        try:
            return self._ended.result(seconds)
        except TimeoutError:
            return None


class Execution:
    def __init__(self, execution_id: str, reach: Reach, start_time: datetime) -> None:
        self.id, self.reach, self.start_time = execution_id, reach, start_time
        self.end_time: datetime | None = None
        self.held: set[int] = set()  # became ready while the scheduler was stopping: their jobs start at the next start
        self._reasons: dict[int, str] = {}
        self._outputs: dict[int, Any] = {}
        self._run = Run(reach.plan, RunState.RUNNING, reach.letters)

    @property
    def complete(self) -> bool:
        return self._run.state is not RunState.RUNNING

    def take(self, events: Iterable[Event], now: datetime) -> list[int]:
        """Apply events to the run and return the steps whose jobs must start."""
        self._run, commands = decide(self._run, events, now)
        if self.complete and self.end_time is None:
            self.end_time = now
        return [step for command in commands if (step := self._carry_out(command)) is not None]

    def keep(self, step: int, output: Any) -> None:
        """Store the return value of a step's job, for its children and for snapshots."""
        self._outputs[step] = output

    def upstream(self, step: int) -> Mapping[str, Any]:
        """Return the return values of a step's parents by name; for a compensation, that of the step it undoes."""
        plan = self.reach.plan
        parents = [parent for parent, _ in plan.parents[step]] or plan.before(step)
        return {plan.steps[parent].name: self._outputs[parent] for parent in parents if parent in self._outputs}

    def waits(self, entry: EntryId) -> int | None:
        """Return the step of an entry if it has not started; None if it has or is not part of the execution."""
        step = self.reach.number.get(entry)
        if step is None:
            return None
        return step if self._run.letters[step] == Letter.WAITING or step in self.held else None

    def snapshot(self) -> WorkflowExecution:
        members = self.reach.members
        return WorkflowExecution(
            self.id,
            self.reach.root,
            self.start_time,
            {entry: RESULTS[Letter(letter)] for entry, letter in zip(members, self._run.letters, strict=False)},
            {members[step]: text for step, text in self._reasons.items()},
            {entry: step.name for entry, step in zip(members, self.reach.plan.steps, strict=False)},
            {members[step]: output for step, output in self._outputs.items()},
            self.end_time,
        )

    def _carry_out(self, command: Command) -> int | None:
        match command:
            case Enqueue(step):
                return step
            case Note(step, _, Reason() as reason):
                self._reasons[step] = reason.text
            case _:  # the in-process scheduler ignores all other commands
                pass
        return None


def ended(step: int, ending: Ending) -> Event:
    """Return the event for the end of a job."""
    if ending.result is JobResult.SKIPPED:
        return skipped(step, ending.reason)
    reason = None if ending.error is None else Reason("failed", ending.reason)
    return Ended(step, LETTERS[ending.result], reason)


def skipped(step: int, why: str) -> Event:
    return Ended(step, Letter.SKIPPED, Reason("skipped", why))


def alone(context: JobContext, ending: Ending, end_time: datetime) -> WorkflowExecution:
    """Return a job that ran outside of any execution as an execution with one entry."""
    entry = context.entry_id
    return WorkflowExecution(
        "",
        entry,
        context.scheduled,
        {entry: ending.result},
        {} if ending.error is None else {entry: ending.reason},
        {entry: context.name},
        {entry: ending.output} if ending.result is JobResult.SUCCESS else {},
        end_time,
    )


class Starter(Protocol):
    def __call__(self, execution: Execution, step: int) -> str | None:
        """Start a step's job, or return why it is skipped."""
        ...


class Executions:
    """Begins, advances, ends and keeps all executions. The scheduler passes in `start`, which starts jobs."""

    def __init__(
        self,
        retention: int,
        now: Callable[[], datetime],
        start: Starter,
        completed: Callable[[Execution], object],
    ) -> None:
        self._retention = retention  # 0: keep all
        self._now, self._start, self._on_complete = now, start, completed
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
        self._on_complete(execution)
        self._completed[execution.id] = execution
        if self._retention and len(self._completed) > self._retention:
            del self._completed[next(iter(self._completed))]
