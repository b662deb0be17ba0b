"""The decision function of runs: `decide(run, events, now) -> (run, commands)`. Pure; the database engine, the
in-process scheduler and the tests all use it.

Invariants
  * A step starts only from `.` and ends only once. An event that does not fit the step's current letter is stale and is
    ignored, so applying an event twice changes nothing.
  * Every step ends: a step whose edges can no longer be met is skipped, which in turn decides its dependents.
  * The result does not depend on the order of events (except for `any` joins, cancel and expiry).
  * The caller answers the questions (`Judge`, `Expand`): it passes the answers to `decide` as events in the same
    transaction.
Failure policy
  * A step that cannot start (its template or its expansion failed) ends as failed with the reason. Its dependents treat
    it like any other failure.
  * Late outcomes do not revive a run that has ended: they are recorded and start no step.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import assert_never

from windlass.core.runs import command
from windlass.core.runs.edges import verdict
from windlass.core.runs.event import (
    Begun,
    CancelRequested,
    ChildStopped,
    Ended,
    Event,
    Expanded,
    Expired,
    Judged,
    PauseRequested,
    RerunRequested,
    ResumeRequested,
    RetryRequested,
    Steer,
    Stop,
    UndoRequested,
)
from windlass.core.runs.restart import steps_again
from windlass.core.runs.run import (
    EXPIRED,
    LIVE,
    MISFIT,
    NEVER_BEGAN,
    OPEN,
    RUN_EDGES,
    STEP_EDGES,
    Fan,
    Letter,
    Reason,
    Restart,
    Run,
    RunMove,
    RunState,
    StepMove,
)
from windlass.core.runs.undo import UndoMoves

NEVER_BEGUN = frozenset({Letter.FAILED, Letter.SKIPPED})  # letters with which a waiting step may end


def decide(run: Run, events: Iterable[Event], now: datetime) -> tuple[Run, list[command.Command]]:
    """Return the run after these events and the commands that the caller must execute."""
    decision = _Decision(run, now)
    for event in events:
        decision.apply(event)
    decision.settle()
    return decision.run(), decision.commands


class _Decision(UndoMoves):
    """One decision: applies the events, then settles what follows from them."""

    __slots__ = ()

    def run(self) -> Run:
        return Run(self._plan, self._state, self._letters(), self._fans, self._undo, self._paused, self._restart)

    def apply(self, event: Event) -> None:
        match event:
            case Ended():
                self._end(event)
            case ChildStopped():
                self._child_stopped(event)
            case Begun():
                self._begin()
            case Judged():
                self._judged(event)
            case Expanded():
                self._expanded(event)
            case CancelRequested() | Expired() | UndoRequested():
                self._stop_for(event)
            case PauseRequested() | ResumeRequested():
                self._steer(event)
            case RetryRequested(held):
                self._start_again(RunMove.RETRY, Restart(), held=held)
            case RerunRequested(step, held):
                self._start_again(RunMove.RERUN, Restart(step), held=held)
            case _:
                assert_never(event)

    def settle(self) -> None:
        """Consider the dependents of every ended step, then start the final step or end the run if either is due."""
        while self._state is RunState.RUNNING and self._undo.move is None:  # `_advances`, inlined for speed
            while self._ended:
                for child in self._plan.children[self._ended.pop()]:
                    self._consider(child)
            letters = self._letters()
            final = self._due_final(letters)
            if final is None:
                if Letter.WAITING not in letters and Letter.ACTIVE not in letters:
                    self._finish(*verdict(self._plan, letters))
                break
            self._begin_step(final)
            if not self._ended:
                break
        if self._undo.move is not None:
            self._compensate()

    # Events

    def _begin(self) -> None:
        if self._state is RunState.PENDING:
            self._state = RUN_EDGES[self._state, RunMove.BEGIN]
        if self._restart is not None:
            self._begin_again(self._restart)
            return
        self._open_hooks()
        self._begin_roots()

    def _begin_roots(self) -> None:
        for root in self._plan.roots:
            waits = self._letter(root) == Letter.WAITING and root not in self._unanswered
            if waits and self._state is RunState.RUNNING:
                self._begin_step(root)
        self._ended += [n for n, letter in enumerate(self._old.letters) if letter not in OPEN]  # ended before the start

    def _open_hooks(self) -> None:
        """Create the addresses of all callbacks: a callback may arrive before its step waits for it.

        Called when a run starts, and again when it is retried or rerun: a run that expired while pending has none yet.
        """
        if self._advances:
            self.commands += [command.OpenHook(step) for step in self._plan.hooks]

    def _end(self, event: Ended) -> None:
        letter = self._letter(event.step)
        if letter == Letter.WAITING and event.letter in NEVER_BEGUN and self._advances:
            self._move(event.step, event.letter, event.reason)
        elif letter == Letter.ACTIVE:
            fan = self._fans.get(event.step)
            if fan is None:
                # A worker that declines a compensation has undone nothing.
                declined = event.letter is Letter.SKIPPED and event.step in self._plan.compensations
                self._move(event.step, Letter.FAILED if declined else event.letter, event.reason)
            else:
                self._end_instances(event, fan)

    def _end_instances(self, event: Ended, fan: Fan) -> None:
        if event.reason is not None and event.reason.code in (NEVER_BEGAN, MISFIT) and not fan.failed:
            # Instances that never began have no job to record the reason: the run records the first one.
            self.commands.append(command.Note(event.step, Letter.ACTIVE, event.reason))
        fan = fan.after(event.letter, event.count)
        if self._advances:
            fan = self._refill(event.step, fan, event.count)
        self._set_fan(event.step, fan)
        if not fan.active:
            # If no child run could be started, keep that reason: it explains more than the instance counts.
            refused = event.count == fan.count and event.reason is not None and event.reason.code == "child"
            self._move(event.step, fan.letter, event.reason if refused else fan.reason)

    def _child_stopped(self, event: ChildStopped) -> None:
        """Restart the child run if this run is running: an earlier round, not this one, requested its cancellation."""
        if not self._advances:
            self._end(Ended(event.step, Letter.CANCELLED, event.reason))
        elif self._letter(event.step) == Letter.ACTIVE:
            self.commands.append(command.StartChild(event.step, event.item, 1))

    def _judged(self, event: Judged) -> None:
        if self._letter(event.step) != Letter.WAITING or not self._advances:
            return
        if event.holds:
            self._fire(event.step, event.reason)
        else:
            self._move(event.step, Letter.SKIPPED, event.reason)

    def _expanded(self, event: Expanded) -> None:
        if self._letter(event.step) == Letter.WAITING and self._advances:
            self._spread(event.step, event.count)

    def _steer(self, event: Steer) -> None:
        match event:
            case PauseRequested(reason):
                if self._state in LIVE and not self._paused:
                    self._paused = True
                    self.commands.append(command.Pause(reason))
            case ResumeRequested(reason):
                self._resume_run(reason)
            case _:
                assert_never(event)

    def _stop_for(self, event: Stop) -> None:
        match event:
            case CancelRequested(reason, compensate):
                self._stop(RunMove.CANCEL, reason, compensate=compensate)
            case Expired():
                self._stop(RunMove.EXPIRE, EXPIRED, compensate=True)
            case UndoRequested():
                self._undo_whole(event)
            case _:
                assert_never(event)

    def _stop(self, move: RunMove, reason: Reason, *, compensate: bool) -> None:
        if (self._state, move) not in RUN_EDGES or self._undoing:
            return
        self._resume_run(reason)
        undo = compensate and self._has_effects()
        for step, letter in enumerate(self._letters()):
            if letter == Letter.ACTIVE:
                self._withdraw(step, compensate=compensate)
            elif letter == Letter.WAITING:
                self._changed[step] = STEP_EDGES[Letter.WAITING, StepMove.CANCEL]
                self._joined = None
                if step in self._plan.noted_ends and not self._plan.composition:
                    self.commands.append(command.Note(step, Letter.CANCELLED))
        if undo:
            self._begin_undo(move, reason)
        else:
            self._conclude(move, reason)

    def _undo_whole(self, event: UndoRequested) -> None:
        """Undo this run because its parent is undone. A run that did not complete has undone itself, if it could."""
        if self._state in LIVE:  # it is being rerun
            self._stop(RunMove.CANCEL, event.reason, compensate=True)
        elif (self._state, RunMove.UNDO) in RUN_EDGES and self._undo.order:
            self._state = RUN_EDGES[self._state, RunMove.UNDO]
            self._begin_undo(RunMove.CANCEL, event.reason)
        if self._undoing:
            self._undo = replace(self._undo, reply=event.reply)
        else:
            self.commands.append(command.Reply(event.reply))

    def _start_again(self, move: RunMove, restart: Restart, *, held: bool) -> None:
        if (self._state, move) not in RUN_EDGES:
            return
        if held:
            self._state, self._restart = RUN_EDGES[self._state, RunMove.WAIT], restart
            return
        self._state = RUN_EDGES[self._state, move]
        self._begin_again(restart)

    def _begin_again(self, restart: Restart) -> None:
        self._restart = None
        self._open_hooks()
        if restart.step is None:
            self._retry()
        else:
            self._rerun(restart.step)

    def _retry(self) -> None:
        undone = self._undone_steps()
        again = steps_again(self._plan, self._letters(), Restart())
        for step in again:
            self._reopen(step, afresh=step in undone or not again.isdisjoint(self._plan.before(step)))
        self._reset_compensations()
        for step, fan in self._fans.items():
            if self._letter(step) == Letter.ACTIVE:
                self._resume(step, fan)
        self._consider_all()

    def _rerun(self, step: int) -> None:
        again = steps_again(self._plan, self._letters(), Restart(step))
        # Also consider steps that were undone, and those that another version of the workflow has added.
        more = bool(self._undone_steps()) or Letter.WAITING in self._letters()
        for n in sorted(again):
            if self._letter(n) not in OPEN:  # otherwise still active since the run timed out: its outcome counts
                self._reopen(n, afresh=True)
        self._reset_compensations()
        if self._letter(step) == Letter.WAITING and again.isdisjoint(self._plan.ancestors(step)):
            self._begin_step(step)
        if more:
            self._consider_all()

    def _consider_all(self) -> None:
        for step, node in enumerate(self._plan.steps):
            if node.edges:
                self._consider(step)
        self._begin_roots()

    # The run

    def _due_final(self, letters: str) -> int | None:
        """Return the final step if all others have ended and it has not started."""
        final = self._plan.final
        if final is None or final in self._unanswered or letters[final] != Letter.WAITING:
            return None
        return final if letters.count(Letter.WAITING) == 1 and Letter.ACTIVE not in letters else None

    def _finish(self, move: RunMove, reason: Reason | None) -> None:
        """End a run whose steps have all ended; if it failed, undo the succeeded steps first."""
        if reason is not None and self._undo.order:
            self._begin_undo(move, reason)
        else:
            self._conclude(move, reason)
