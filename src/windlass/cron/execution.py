"""One execution of a DAG of entries: a run of the core over the edges as they were when it began.

`decide` says which step begins (`Enqueue`); the entry's wrapped job starts, and its end goes back as an event. A job
may turn out to be skipped although it was begun: by a wrapper, because its entry is paused or was removed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from windlass.core.command import Command, Enqueue, Note
from windlass.core.decide import decide
from windlass.core.event import Ended, Event
from windlass.core.reason import Reason
from windlass.core.run import Letter, Run, RunState
from windlass.cron.context import EntryId
from windlass.cron.dependencies import Reach
from windlass.cron.job import Ending
from windlass.cron.result import LETTERS, RESULTS, JobResult


@dataclass(slots=True)
class WorkflowExecution:
    """An execution as it was when you asked; changing it changes nothing. `reasons` tells of failures and skips."""

    id: str
    root_id: EntryId
    start_time: datetime
    results: dict[EntryId, JobResult]
    reasons: dict[EntryId, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        return all(result.terminal for result in self.results.values())


class Execution:
    def __init__(self, execution_id: str, reach: Reach, start_time: datetime) -> None:
        self.id, self.reach, self.start_time = execution_id, reach, start_time
        self.held: set[int] = set()  # begun while the scheduler was stopping: their jobs have not started
        self._reasons: dict[int, str] = {}
        self._run = Run(reach.plan, RunState.RUNNING, reach.letters)

    @property
    def complete(self) -> bool:
        return self._run.state is not RunState.RUNNING

    def take(self, events: Iterable[Event], now: datetime) -> list[int]:
        """Feed the core; the steps whose jobs are to start."""
        self._run, commands = decide(self._run, events, now)
        return [step for command in commands if (step := self._carry_out(command)) is not None]

    def waits(self, entry: EntryId) -> int | None:
        """The step of an entry that takes part and has not begun."""
        step = self.reach.number.get(entry)
        if step is None:
            return None
        return step if self._run.letters[step] == Letter.WAITING or step in self.held else None

    def snapshot(self) -> WorkflowExecution:
        members = self.reach.members
        results = {entry: RESULTS[Letter(letter)] for entry, letter in zip(members, self._run.letters, strict=False)}
        reasons = {members[step]: text for step, text in self._reasons.items()}
        return WorkflowExecution(self.id, self.reach.root, self.start_time, results, reasons)

    def _carry_out(self, command: Command) -> int | None:
        match command:
            case Enqueue(step):
                return step
            case Note(step, _, reason):
                self._reasons[step] = reason.text
            case _:  # the scheduler in the process has no other commands to carry out
                pass
        return None


def ended(step: int, ending: Ending) -> Event:
    """The event that tells how a job came out."""
    if ending.result is JobResult.SKIPPED:
        return skipped(step, ending.reason)
    reason = None if ending.error is None else Reason("failed", ending.reason)
    return Ended(step, LETTERS[ending.result], reason)


def skipped(step: int, why: str) -> Event:
    return Ended(step, Letter.SKIPPED, Reason("skipped", why))
