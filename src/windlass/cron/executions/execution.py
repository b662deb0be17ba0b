"""One execution of a DAG of entries: a `Run` of the core over a copy of the edges made when it began.

`decide` returns the steps to start (`Enqueue`); the entry's wrapped job starts, and its end goes back as an event. A
step that was started can still end as skipped: by a wrapper, or because its entry is paused or was removed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from windlass.core.runs.command import Command, Enqueue, Note
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Ended, Event
from windlass.core.runs.reason import Reason
from windlass.core.runs.run import Letter, Run, RunState
from windlass.cron.dependencies import Reach
from windlass.cron.errors import EntryNotFound, Key
from windlass.cron.executions.context import EntryId, JobContext
from windlass.cron.executions.result import LETTERS, RESULTS, JobResult
from windlass.cron.job import Ending


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
        """Return the return values of a step's parents by name."""
        plan = self.reach.plan
        parents = (parent for parent, _ in plan.parents[step])
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
