"""The runs of a batch as locked and as decided so far, with the resulting commands and rows. No I/O."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, assert_never
from uuid import UUID

from windlass.core.runs.command import (
    AwaitMessages,
    CancelChildren,
    CancelJobs,
    CancelTimer,
    Command,
    Conclude,
    Enqueue,
    Expand,
    ForgetHook,
    Judge,
    ListenUntil,
    Note,
    OpenHook,
    Pause,
    Reopen,
    Reply,
    RequestApproval,
    RestartChildren,
    Resume,
    StartChild,
    UndoChildren,
    Undoing,
    WakeAt,
)
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Event
from windlass.core.runs.run import NO_UNDO, Reason, Run, RunState, read_counters
from windlass.core.workflows.workflow import Workflow
from windlass.engine.definitions import StepTemplate, StepTemplates
from windlass.engine.runs.evaluate import Question
from windlass.engine.runs.writes import RunWrites
from windlass.store.runs import LockedRun, SavedRun

Events = Mapping[UUID, Sequence[Event]]
Kind = TypeVar("Kind", bound=Command)
STATES = {state.value: state for state in RunState}  # calling the enum costs more than the rest of reading a run


class Batch:
    """The locked runs of a batch and the decisions about them. Commands still to be carried out are kept by kind."""

    def __init__(
        self,
        locked: Sequence[LockedRun],
        workflows: Mapping[int, Workflow],
        templates: StepTemplates,
        writes: RunWrites,
    ) -> None:
        self.locked = {row.id: row for row in locked}
        self.runs = _stored_runs(locked, workflows)
        self.writes = writes
        self.commands: dict[type, list[tuple[UUID, Any]]] = defaultdict(list)
        self._workflows, self._templates = workflows, templates
        self._changed: dict[UUID, None] = {}  # runs to save, in the order of their decisions
        self._ended: dict[UUID, Reason | None] = {}  # with the reason; includes a retried run that ends at once

    def decide(self, events: Events) -> None:
        """Decide each run. Identical runs with the same events are decided once, which halves the time that a batch of
        chains takes here."""
        decided: dict[tuple[int, datetime, tuple[Event, ...]], tuple[Run, Run, list[Command]]] = {}
        for id_, some in events.items():
            run, now = self.runs[id_], self.locked[id_].now
            key = id(run), now, tuple(some)
            if (known := decided.get(key)) is None:
                known = decided[key] = (run, *decide(run, some, now))  # `run` is kept, so that its id() stays unique
            _, self.runs[id_], commands = known
            self._changed[id_] = None
            for command in commands:
                self.add(id_, command)

    def add(self, id_: UUID, command: Command) -> None:
        """Collect the rows that a command creates, or the command itself if it has to be carried out."""
        match command:
            case Enqueue(step, first, count):
                template = self.template(id_, step)
                if template.is_plain:
                    self.enqueue(id_, template, first, count)
                else:
                    self.commands[Enqueue].append((id_, command))
            case WakeAt(step, at):
                self.writes.timer(id_, step, at)
            case Note():
                self.writes.note(id_, command)
            case Undoing(reason):
                self.writes.note_run(id_, "compensating", reason)
            case Pause(reason) | Resume(reason):
                self.writes.note_run(id_, "paused" if isinstance(command, Pause) else "resumed", reason)
                self.commands[type(command)].append((id_, command))
            case Reply():
                self.writes.reply(id_, command)
            case Conclude(_, reason):
                self._ended[id_] = reason
                self.writes.wakeups.ended = True
                # A run that waits for the concurrency slot of this one may begin.
                self.writes.wakeups.unsettled |= self._workflows[self.locked[id_].version_id].concurrency is not None
            case (
                (Judge() | Expand() | StartChild() | Reopen() | RestartChildren() | UndoChildren())
                | (OpenHook() | ForgetHook() | ListenUntil() | AwaitMessages() | RequestApproval())
                | (CancelJobs() | CancelTimer() | CancelChildren())
            ):
                self.commands[type(command)].append((id_, command))
            case _:
                assert_never(command)

    def take(self, kind: type[Kind]) -> list[tuple[UUID, Kind]]:
        """Return and remove the commands of a kind, each with its run."""
        return self.commands.pop(kind, [])

    def enqueue(self, id_: UUID, template: StepTemplate, first: int, count: int, payload: str | None = None) -> None:
        fan = self.runs[id_].fans.get(template.number)
        items = None if fan is None else fan.count
        self.writes.jobs(self.locked[id_], template, first=first, count=count, items=items, payload=payload)

    def template(self, id_: UUID, step: int) -> StepTemplate:
        return self._templates.of(self.locked[id_].version_id, step, self.runs[id_].plan)

    def question(
        self, id_: UUID, step: int, command: Enqueue | StartChild | AwaitMessages | RequestApproval | None = None
    ) -> Question:
        return Question(self.locked[id_], self.runs[id_], self.template(id_, step), command)

    def stop_reason(self, id_: UUID) -> str:
        """Return why a run was cancelled or expired. A run whose steps are undone first has not ended yet."""
        reason = self._ended[id_] if id_ in self._ended else self.runs[id_].undo.reason
        assert reason is not None  # only a run that completed has none
        return reason.text

    @property
    def insertable(self) -> Mapping[UUID, Run]:
        """Return new runs as they are inserted: a run that has already ended as running; its end is saved later."""
        return {
            id_: run._replace(state=RunState.RUNNING) if id_ in self._ended else run for id_, run in self.runs.items()
        }

    def inserted(self) -> None:
        """Forget the changes that were inserted: only runs that ended differ and must be saved."""
        self._changed = dict.fromkeys(self._ended)

    def saved(self) -> list[SavedRun]:
        return [self._saved(self.locked[id_], self.runs[id_]) for id_ in self._changed]

    def _saved(self, row: LockedRun, run: Run) -> SavedRun:
        word = run.state if run.state != row.state or row.id in self._ended else None
        reason = self._ended.get(row.id)
        code, text = (None, None) if reason is None else (reason.code, reason.text)
        return SavedRun(row.id, run.state, run.letters, run.counters, row.round, word, code, text)


def _stored_runs(rows: Sequence[LockedRun], workflows: Mapping[int, Workflow]) -> dict[UUID, Run]:
    """Return the runs of locked rows. Identical rows share one object."""
    known: dict[tuple[object, ...], Run] = {}
    runs: dict[UUID, Run] = {}
    for row in rows:
        key = row.version_id, row.state, row.steps, row.fans, row.paused
        run = known.get(key)
        if run is None:
            run = known[key] = stored(row, workflows[row.version_id])
        runs[row.id] = run
    return runs


def stored(row: LockedRun, workflow: Workflow) -> Run:
    """Return the locked row as the `Run` that `decide` takes."""
    fans, undo, restart = read_counters(json.loads(row.fans)) if row.fans else ({}, NO_UNDO, None)
    return Run(workflow.plan, STATES[row.state], row.steps, fans, undo, row.paused, restart)
