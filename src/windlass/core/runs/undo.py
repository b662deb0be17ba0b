"""The part of a decision that undoes a run: it runs the compensations of the steps that succeeded.

Invariants
  * Compensations run one after the other, in reverse order of completion, once no other step is active. A step that is
    active when its run is stopped may still succeed; then it is undone, too.
  * A compensation whose attempts are used up is reported with the run's end, and the remaining ones still run.
  * Each compensation runs at most once in a round. Neither cancelling the run nor its time limit stops it.
"""

from dataclasses import replace

from windlass.core.runs import command
from windlass.core.runs.edges import join_names
from windlass.core.runs.run import RUN_EDGES, Fan, Letter, Reason, RunMove, RunState, Undo
from windlass.core.runs.step_moves import StepMoves
from windlass.core.workflows.step import UndoAction

NOTHING = Reason("empty", "there was nothing to undo")


class UndoMoves(StepMoves):
    __slots__ = ()

    @property
    def _undoing(self) -> bool:
        return self._undo.move is not None

    @property
    def _advances(self) -> bool:
        """Return whether steps may start because of their edges."""
        return self._state is RunState.RUNNING and self._undo.move is None

    def _has_effects(self) -> bool:
        """Return whether a step that has a compensation succeeded, or is active and may still succeed."""
        return bool(self._undo.order) or any(self._letter(step) == Letter.ACTIVE for step in self._plan.undo)

    def _begin_undo(self, move: RunMove, reason: Reason) -> None:
        if self._state is RunState.PENDING:  # held by a concurrency limit since it was retried
            self._state = RUN_EDGES[self._state, RunMove.BEGIN]
        self._undo = replace(self._undo, move=move, reason=reason)
        self.commands.append(
            command.Undoing(Reason("compensating", f"{reason.text}; the steps that succeeded are being undone"))
        )

    def _compensate(self) -> None:
        """Start the next compensation if no step is active; conclude the run after the last one."""
        while Letter.ACTIVE not in self._letters():
            for step in self._undo.order:
                if self._letter(self._plan.undo[step]) == Letter.SKIPPED:
                    self._move(self._plan.undo[step], Letter.WAITING, None)
            due = [step for step in self._undo.order if self._letter(self._plan.undo[step]) == Letter.WAITING]
            if not due:
                self._conclude_undo()
                return
            self._undo_step(due[-1])

    def _undo_step(self, step: int) -> None:
        compensation = self._plan.undo[step]
        if not isinstance(self._plan.steps[compensation].action, UndoAction) or self._plan.steps[step].fan_out is None:
            self._fire(compensation, None)
        elif step in self._fans:
            count = self._fans[step].count
            self._set_fan(compensation, Fan(count, count))
            self._move(compensation, Letter.ACTIVE, None)
            self._create(compensation, 0, count)
        else:
            self._move(compensation, Letter.SUCCEEDED, NOTHING)

    def _conclude_undo(self) -> None:
        undo, count = self._undo, len(self._undo.order)
        assert undo.move is not None
        assert undo.reason is not None
        failed = [step for step in undo.order if self._letter(self._plan.undo[step]) != Letter.SUCCEEDED]
        names = join_names([self._plan.steps[step].name for step in failed])
        result = f"{len(failed)} of {count} compensations failed: {names}" if failed else "compensated"
        reason = replace(undo.reason, text=f"{undo.reason.text}, {result}") if count else undo.reason
        self._conclude(undo.move, reason)
        if undo.reply is not None:
            self.commands.append(command.Reply(undo.reply, Reason("compensation", result) if failed else None))
        self._undo = Undo(undo.order)

    def _resume_run(self, reason: Reason) -> None:
        if self._paused:
            self._paused = False
            self.commands.append(command.Resume(reason))

    def _undone_steps(self) -> set[int]:
        """Return the steps whose effects are undone: their compensation succeeded."""
        return {step for step, by in self._plan.undo.items() if self._letter(by) == Letter.SUCCEEDED}

    def _reset_compensations(self) -> None:
        """Reset the compensations for another round, in which those of kept steps may run again."""
        for compensation in self._plan.compensations:
            if self._letter(compensation) != Letter.SKIPPED:
                self._reopen(compensation, afresh=True)
                self._changed[compensation] = Letter.SKIPPED

    def _conclude(self, move: RunMove, reason: Reason | None) -> None:
        if self._paused:
            self._resume_run(Reason("ended", "the run ended"))
        self._restart = None
        self._state = RUN_EDGES[self._state, move]
        self.commands.append(command.Conclude(self._state, reason))
