"""The part of a decision that moves steps: it starts, ends, reopens and refills them, and collects the commands.

`core.runs.decide` selects the steps; nothing here depends on the event that was applied.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from windlass.core.runs import command
from windlass.core.runs.edges import readiness
from windlass.core.runs.run import OPEN, STEP_EDGES, Fan, Letter, Reason, Run, RunState
from windlass.core.workflows.step import (
    ApprovalAction,
    ChildAction,
    CommandAction,
    EventAction,
    HookAction,
    HttpAction,
    JobAction,
    Parallel,
    SleepAction,
    UndoAction,
)

# The allowed transitions of a step by its old and new letter; any other raises a KeyError.
TRANSITIONS: Mapping[tuple[str, Letter], Letter] = {(str(old), new): new for (old, _), new in STEP_EDGES.items()}
STOPPED = frozenset({RunState.CANCELLED, RunState.TIMEOUT})


class StepMoves:
    """The mutable state of one decision.

    Changed letters are kept beside the old string, so that the cost of a step depends only on its own edges.
    """

    __slots__ = (
        "_changed",
        "_ended",
        "_fans",
        "_joined",
        "_now",
        "_old",
        "_paused",
        "_plan",
        "_restart",
        "_state",
        "_unanswered",
        "_undo",
        "commands",
    )

    def __init__(self, run: Run, now: datetime) -> None:
        self._old = run
        self._joined: str | None = run.letters  # cached string of all letters; None: stale, a letter changed
        self._plan = run.plan
        self._now = now
        self._state = run.state
        self._changed: dict[int, str] = {}
        self._fans = run.fans
        self._undo = run.undo
        self._paused = run.paused
        self._restart = run.restart
        self._ended: list[int] = []  # steps whose children must be considered
        self._unanswered: set[int] = set()  # steps with an unanswered question in this decision
        self.commands: list[command.Command] = []

    def _consider(self, step: int) -> None:
        """Start or skip a waiting step if the ends of its parents already decide which."""
        if self._letter(step) != Letter.WAITING or step in self._unanswered:
            return
        ready = readiness(self._plan, step, self._letter)
        if ready is True:
            self._begin_step(step)
        elif ready is not False:
            self._move(step, Letter.SKIPPED, ready)

    def _begin_step(self, step: int) -> None:
        """Evaluate the `if` of a step whose edges are met, or start it if it has none."""
        if self._plan.steps[step].condition is None:
            self._fire(step, None)
        elif step not in self._unanswered:
            self._unanswered.add(step)
            self.commands.append(command.Judge(step))

    def _fire(self, step: int, reason: Reason | None) -> None:
        fan_out = self._plan.steps[step].fan_out
        if fan_out is None:
            self._move(step, Letter.ACTIVE, reason)
            self._create(step, 0, 1)
        elif step in self._fans:
            self._move(step, Letter.ACTIVE, reason)
            self._resume(step, self._fans[step])
        else:
            if reason is not None:  # not active yet: the number of instances may still be unknown
                self.commands.append(command.Note(step, Letter.ACTIVE, reason))
            if isinstance(fan_out, Parallel) and isinstance(fan_out.count, int):
                self._spread(step, fan_out.count)
            else:
                self._unanswered.add(step)
                self.commands.append(command.Expand(step))

    def _spread(self, step: int, count: int) -> None:
        if count == 0:
            self._move(step, Letter.SUCCEEDED, Reason("empty", "there was nothing to fan out over"))
            return
        window = min(count, self._plan.steps[step].concurrency or count)
        self._set_fan(step, Fan(count=count, created=window))
        self._move(step, Letter.ACTIVE, None, noted=self._plan.steps[step].condition is not None)  # noted by `_fire`
        self._create(step, 0, window)

    def _create(self, step: int, first: int, count: int) -> None:
        action = self._plan.steps[step].action
        match action:
            case JobAction() | HttpAction() | CommandAction():
                self.commands.append(command.Enqueue(step, first, count))
            case ChildAction():
                self.commands.append(command.StartChild(step, first, count))
            case SleepAction(duration):
                self.commands.append(command.WakeAt(step, self._now + duration))
            case HookAction(timeout):
                self.commands.append(command.ListenUntil(step, None if timeout is None else self._now + timeout))
            case EventAction(_, _, timeout):
                self.commands.append(command.AwaitMessages(step, None if timeout is None else self._now + timeout))
            case ApprovalAction():
                until = None if action.timeout is None else self._now + action.timeout
                self.commands.append(command.RequestApproval(step, until))
            case UndoAction():
                self.commands.append(command.UndoChildren(step, self._undone_by(step), count))
            case _:
                assert_never(action)

    def _undone_by(self, compensation: int) -> int:
        """Return the step that a compensation undoes."""
        (step,) = self._plan.before(compensation)
        return step

    def _reopen(self, step: int, *, afresh: bool) -> None:
        """Set the step back to waiting. With `afresh`, drop its instances, so that all of them run again."""
        if self._letter(step) == Letter.SUCCEEDED and isinstance(self._plan.steps[step].action, HookAction):
            self.commands.append(command.ForgetHook(step))  # its callback was used; one that came early is kept
        self._move(step, Letter.WAITING, None)
        if step in self._undo.order:
            self._undo = replace(self._undo, order=tuple(n for n in self._undo.order if n != step))
        if afresh:
            self._drop_fan(step)

    def _resume(self, step: int, fan: Fan) -> None:
        """Keep the succeeded instances and run the others again, at most `concurrency` concurrently."""
        fan = replace(fan, failed=0, cancelled=0, parked=fan.parked + fan.failed + fan.cancelled)
        free = (self._plan.steps[step].concurrency or fan.count) - fan.active
        self._set_fan(step, self._refill(step, fan, free))

    def _move(self, step: int, letter: Letter, reason: Reason | None, *, noted: bool = False) -> None:
        self._changed[step] = TRANSITIONS[self._letter(step), letter]
        self._joined = None
        if letter not in OPEN:
            self._ended.append(step)
            if letter is Letter.SUCCEEDED and step in self._plan.undo:
                self._undo = replace(self._undo, order=(*self._undo.order, step))
        recorded = self._plan.noted_starts if letter is Letter.ACTIVE else self._plan.noted_ends
        if (reason is not None or step in recorded) and not noted:
            self._note(step, letter, reason)

    def _note(self, step: int, letter: Letter, reason: Reason | None) -> None:
        if letter is Letter.WAITING:
            return  # the run's event trail has the retry, rerun or undo itself
        if letter is Letter.CANCELLED and self._plan.composition and self._state in STOPPED:
            return  # the end of the composition covers all its parts
        self.commands.append(command.Note(step, letter, reason))

    def _refill(self, step: int, fan: Fan, free: int) -> Fan:
        """Fill free slots: first with parked instances, which are reopened, then with instances not created yet."""
        again = min(free, fan.parked)
        if again:
            child = isinstance(self._plan.steps[step].action, ChildAction)
            self.commands.append(command.RestartChildren(step, again) if child else command.Reopen(step, again))
            fan = replace(fan, parked=fan.parked - again)
        more = min(free - again, fan.count - fan.created)
        if more:
            self._create(step, fan.created, more)
            fan = replace(fan, created=fan.created + more)
        return fan

    def _withdraw(self, step: int, *, compensate: bool) -> None:
        action = self._plan.steps[step].action
        match action:
            case JobAction() | HttpAction() | CommandAction():
                self.commands.append(command.CancelJobs(step))
            case SleepAction() | HookAction() | EventAction() | ApprovalAction():
                self.commands.append(command.CancelTimer(step))
            case ChildAction():
                self.commands.append(command.CancelChildren(step, compensate))
            case UndoAction():
                pass  # nothing stops a compensation
            case _:
                assert_never(action)

    def _set_fan(self, step: int, fan: Fan) -> None:
        self._fans = {**self._fans, step: fan}

    def _drop_fan(self, step: int) -> None:
        self._fans = {n: fan for n, fan in self._fans.items() if n != step}

    def _letter(self, step: int) -> str:
        return self._changed.get(step) or self._old.letters[step]

    def _letters(self) -> str:
        if self._joined is None:
            letters = bytearray(self._old.letters, "ascii")
            for step, letter in self._changed.items():
                letters[step] = ord(letter)
            self._joined = letters.decode()
        return self._joined
