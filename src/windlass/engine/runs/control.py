"""Operations on a run for users: read, cancel, pause, resume, retry, rerun."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from windlass.core.events.cursor import TrailPlace
from windlass.core.explain.snapshot import Round, round_of, rounds
from windlass.core.jobs.spec import check_range
from windlass.core.json_value import decode, encode
from windlass.core.runs.event import (
    CancelRequested,
    Event,
    PauseRequested,
    RerunRequested,
    ResumeRequested,
    RetryRequested,
    Steer,
)
from windlass.core.runs.restart import Carried, carry_over, preview_text
from windlass.core.runs.restart import preview as preview_restart
from windlass.core.runs.run import LIVE, RUN_EDGES, WORDS, Letter, Reason, Restart, RunMove, RunState
from windlass.core.workflows.step import Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database, Tenant
from windlass.engine.definitions import find_live
from windlass.engine.orgs import audit
from windlass.engine.runs import outputs
from windlass.engine.runs.batch import stored
from windlass.engine.runs.inputs import Versions, require_checked, start_checked
from windlass.engine.runs.outputs import TooMany
from windlass.engine.runs.settle import settle
from windlass.errors import Conflict, Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT
from windlass.schemas.runs import RestartPreview
from windlass.store import inspect, steps, workflows
from windlass.store import runs as store
from windlass.store.inspect import BEGINNING, RunEvent
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun, RunNote, RunRow
from windlass.store.steps import Instance, StepJob

__all__ = ["Instance", "RunEvent", "RunRow", "TrailPlace"]
MAX_REASON = 8192
FAILED_AGAIN = "failed steps run again"


@dataclass(frozen=True, slots=True)
class RunView:
    """A run with its definition, its event trail, and a job for each step that has one (the first instance)."""

    row: RunRow
    workflow: Workflow
    events: list[RunEvent]
    jobs: Mapping[int, StepJob]

    @property
    def states(self) -> dict[str, str]:
        """Return the state of each step by the step's name."""
        return {
            step.name: WORDS[Letter(letter)] for step, letter in zip(self.workflow.steps, self.row.letters, strict=True)
        }


async def get(db: Tenant, id_: UUID) -> RunRow:
    async with db.once() as conn:
        return await known(conn, db, id_)


async def view(db: Tenant, id_: UUID) -> RunView:
    async with db.begin() as conn:
        row, workflow = await load(conn, db, id_)
        trail = await inspect.trail(conn, id_, workflow.plan.single_jobs, since=row.created_at)
        return RunView(row, workflow, trail, await steps.jobs(conn, id_))


async def events(
    db: Tenant, id_: UUID, *, attempt: int | None = None, after: TrailPlace = BEGINNING, limit: int = 100
) -> list[tuple[Step | None, RunEvent]]:
    """Return a page of (step, event) of a run's event trail, oldest first: of all rounds or of one.

    A step with one job includes the job's events. A fanned-out step has events only for its start and its end.
    """
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.begin() as conn:
        row, workflow = await load(conn, db, id_)
        before, since, until = None, row.created_at, None
        if attempt is not None:
            round_ = round_of(await rounds_of(conn, row), attempt)
            after = after._replace(run_line=max(after.run_line, round_.first - 1))
            before, since, until = round_.following, round_.began_at, round_.left_at
        trail = await inspect.trail(
            conn, id_, workflow.plan.single_jobs, after=after, before=before, since=since, until=until, limit=limit
        )
    return [(None if event.step is None else workflow.steps[event.step], event) for event in trail]


async def output(db: Tenant, id_: UUID) -> Any:
    """Return the output of a run: that of its last step, or of several last steps by name."""
    async with db.begin() as conn:
        row, workflow = await load(conn, db, id_)
        return _displayed(await outputs.of_run(conn, db, id_, workflow.plan, row.letters))


async def step_output(db: Tenant, id_: UUID, step: str) -> Any:
    """Return the output of a step; None if it has none."""
    async with db.begin() as conn:
        _, workflow = await load(conn, db, id_)
        number = step_number(workflow, step)
        return (await outputs.of_steps(conn, db, {id_: (workflow.plan, [number])}))[id_, number]


def _displayed(value: Any) -> Any:
    """Return an output for display: a list that is too long is replaced by a message."""
    if isinstance(value, TooMany):
        return value.text
    return {name: _displayed(part) for name, part in value.items()} if isinstance(value, dict) else value


async def instances(db: Tenant, id_: UUID, step: str, *, after: int = -1, limit: int = 100) -> list[Instance]:
    """Return a page of a step's instances, by index."""
    check_range(limit, "limit", most=PAGE_LIMIT)
    async with db.begin() as conn:
        _, workflow = await load(conn, db, id_)
        return await steps.instances(conn, id_, step_number(workflow, step), after=after, limit=limit)


async def states(db: Database, ids: Sequence[UUID]) -> dict[UUID, RunState]:
    async with db.once() as conn:
        return {id_: RunState(state) for id_, state in (await store.states(conn, ids)).items()}


async def cancel(db: Tenant, id_: UUID, *, reason: str | None = None, compensate: bool = False) -> None:
    """Cancel a run: end pending jobs and waits, and signal running jobs to stop. `compensate`: undo succeeded steps."""
    encode(reason, field="reason", limit=MAX_REASON)
    why = Reason("cancelled", reason or "the run was cancelled")
    await _steer(db, id_, RunMove.CANCEL, "cancelled", lambda _: CancelRequested(why, compensate), ())


async def pause(db: Tenant, id_: UUID, *, reason: str | None = None) -> None:
    """Pause a run and its child runs: no more jobs start until it is resumed. Running jobs and timers continue."""
    encode(reason, field="reason", limit=MAX_REASON)
    await _pause(db, id_, PauseRequested(Reason("paused", reason or "the run was paused")), "pause")


async def resume(db: Tenant, id_: UUID) -> None:
    """Resume a paused run. Its pending jobs keep the times at which they become due."""
    await _pause(db, id_, ResumeRequested(Reason("resumed", "the run was resumed")), "resume")


async def _pause(db: Tenant, id_: UUID, request: Steer, action: str) -> None:
    async with db.begin() as conn:
        locked = await _lock(conn, db, id_)
        if locked.state not in LIVE:
            raise Conflict(f"run {id_} is {locked.state} and cannot be {action}d: only pending and running runs can be")
        wakeups = await settle(conn, db, [locked], {id_: [request]}, actor=db.actor)
        workflow = await db.definitions.one(conn, locked.version_id)
        await audit.record(conn, db, f"run.{action}", str(id_), workflow=workflow.name)
    wakeups.poke(db)


async def retry(db: Tenant, id_: UUID, *, live: bool = False) -> None:
    """Repeat the steps that failed, were cancelled, skipped or undone; the other successful steps are kept.

    `live`: continue on the live version of the workflow, in which the steps that the run keeps must be the same.
    """
    await start_checked(db, partial(_steer, db, id_, RunMove.RETRY, "retried", lambda _: RetryRequested(), live=live))


async def rerun(
    db: Tenant, id_: UUID, step: str, *, input_: Any = None, with_input: bool = False, live: bool = False
) -> None:
    """Repeat a step and its descendants, with another input of the run if one is given, or on the live version."""
    text = encode(input_, field="input", objects=True) if with_input else None
    event = partial(_rerun_event, step=step)
    await start_checked(db, partial(_steer, db, id_, RunMove.RERUN, "rerun", event, input_=text, live=live))


async def preview(db: Tenant, id_: UUID, *, step: str | None = None, live: bool = False) -> RestartPreview:
    """Return what a retry, or a rerun from a step, would do; raise what it would raise."""
    move, word = (RunMove.RETRY, "retried") if step is None else (RunMove.RERUN, "rerun")
    async with db.begin() as conn:
        locked = await _lock(conn, db, id_)
        workflow = await _restartable(conn, db, locked, move, word)
        restart = Restart(None if step is None else _rerun_event(workflow, step=step).step)
        carried = await _on_live(conn, db, locked, workflow, restart) if live else None
        return carried.preview if carried else preview_restart(stored(locked, workflow), restart)


def is_live(version: str | None) -> bool:
    """Return whether a restart continues with the live version; raise `Invalid` for an unknown value."""
    if version not in (None, "live"):
        raise Invalid(f"version is {version!r}: leave it out, or write live", field="version")
    return version is not None


def _rerun_event(workflow: Workflow, *, step: str) -> RerunRequested:
    number = step_number(workflow, step)
    if (undone := workflow.steps[number].compensates) is not None:
        raise Invalid(f"{step} undoes {undone} and runs only if the run is undone: rerun {undone}", field="step")
    return RerunRequested(number)


async def _restartable(conn: Connection, db: Tenant, locked: LockedRun, move: RunMove, word: str) -> Workflow:
    """Return the version that a run follows; raise `Conflict` if the run cannot make this move."""
    if (RunState(locked.state), move) not in RUN_EDGES:
        allowed = [state for state, known in RUN_EDGES if known is move]
        raise Conflict(f"run {locked.id} is {locked.state} and cannot be {word}: only {_listed(allowed)} runs can be")
    workflow = await db.definitions.one(conn, locked.version_id)
    if workflow.primitive is not None and move is not RunMove.CANCEL:
        fix = "create another one with retry_of, which copies what succeeded"
        raise Conflict(f"run {locked.id} is a {workflow.primitive} of jobs, which cannot be {word}: {fix}")
    return workflow


async def _steer(
    db: Tenant,
    id_: UUID,
    move: RunMove,
    word: str,
    event: Callable[[Workflow], Event],
    checked: Versions,
    *,
    input_: str | None = None,
    live: bool = False,
) -> None:
    async with db.begin() as conn:
        places = Places() if move is RunMove.CANCEL else await Places.of(conn, db, [id_])
        locked = await _lock(conn, db, id_)
        workflow = await _restartable(conn, db, locked, move, word)
        request = event(workflow)
        if isinstance(request, RetryRequested | RerunRequested):
            reason = _retry_reason(request, workflow)
            restart = Restart(request.step if isinstance(request, RerunRequested) else None)
            carried = await _on_live(conn, db, locked, workflow, restart) if live else None
            await _require_fitting(conn, db, locked, carried, checked, input_)
            if carried is not None:
                locked, restart = await _continue_on(conn, locked, carried), carried.restart
                reason = f"{reason}, on the live version: {preview_text(carried.preview)}"
            held = not places.take(locked.workflow_id)
            request = RetryRequested(held) if restart.step is None else RerunRequested(restart.step, held)
            [locked] = await start_round(conn, db, [locked], word, reason, input_=input_)
        wakeups = await settle(conn, db, [locked], {id_: [request]}, actor=db.actor)
        await audit.record(conn, db, f"run.{move}", str(id_), workflow=workflow.name)
    wakeups.poke(db)


async def _on_live(
    conn: Connection, db: Tenant, locked: LockedRun, workflow: Workflow, restart: Restart
) -> Carried | None:
    """Return the run as it continues on the live version; None if it is already on that version."""
    live = await find_live(conn, workflow.name, org=db.org)
    if live.version_id == locked.version_id:
        return None
    if live.workflow_id != locked.workflow_id:
        raise Conflict(f"workflow {workflow.name!r} of run {locked.id} was deleted: start a run of the new one")
    target = await db.definitions.one(conn, live.version_id)
    return carry_over(stored(locked, workflow), live.version_id, target, restart)


async def _require_fitting(
    conn: Connection, db: Tenant, locked: LockedRun, carried: Carried | None, checked: Versions, input_: str | None
) -> None:
    """Raise `Unchecked` if a new input or a new version was not checked against the run's version or input."""
    if input_ is None and carried is None:
        return
    version_id = locked.version_id if carried is None else carried.version_id
    workflow = await db.definitions.one(conn, version_id)
    if workflow.input is not None:
        value = (await known(conn, db, locked.id)).input if input_ is None else decode(input_)
        require_checked(version_id, workflow, [value], checked)


async def _continue_on(conn: Connection, locked: LockedRun, carried: Carried) -> LockedRun:
    version_id = carried.version_id
    await workflows.move_run(conn, locked.id, version_id, numbers=carried.numbers, gone=carried.gone)
    return locked._replace(version_id=version_id, steps=carried.run.letters, fans=carried.run.counters)


@dataclass(slots=True)
class Places:
    """The slots that concurrency limits leave for restarted runs. The rows of their workflows are locked."""

    room: dict[UUID, int] = field(default_factory=dict)  # of workflows with a limit

    @classmethod
    async def of(cls, conn: Connection, db: Tenant, ids: Sequence[UUID]) -> "Places":
        """Lock the workflows of these runs, in ascending id and before the runs, and count their free slots."""
        places = cls()
        for workflow_id in sorted(set((await store.workflows_of(conn, ids)).values())):
            version = await store.lock_workflow(conn, workflow_id)
            limit = None if version is None else (await db.definitions.one(conn, version)).concurrency
            if limit is not None:
                waiting = await store.first_pending(conn, workflow_id, 1)  # pending runs begin first
                places.room[workflow_id] = 0 if waiting else limit - await store.running(conn, workflow_id)
        return places

    def take(self, workflow_id: UUID) -> bool:
        """Take a slot for a run of this workflow; return whether one was free."""
        room = self.room.get(workflow_id)
        if room is None:
            return True
        self.room[workflow_id] = room - 1
        return room > 0


async def start_round(
    conn: Connection, db: Tenant, locked: Sequence[LockedRun], word: str, reason: str, *, input_: str | None = None
) -> list[LockedRun]:
    """Move runs that ended to their next round; return them with the new round number."""
    renewed = [run._replace(round=run.round + 1) for run in locked]
    await store.replace_input(conn, [run.id for run in locked], input_)
    await steps.keep_going(conn, {run.id: run.round for run in renewed})
    await store.log(conn, [RunNote(run.id, None, word, word, reason) for run in locked], actor=db.actor)
    return renewed


def _retry_reason(event: Event, workflow: Workflow) -> str:
    if isinstance(event, RerunRequested):
        return f"from step {workflow.steps[event.step].name}"
    return FAILED_AGAIN


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


async def _lock(conn: Connection, db: Tenant, id_: UUID) -> LockedRun:
    rows = await store.lock(conn, [id_])
    if not rows or rows[0].org != db.org:
        raise NotFound("run", id_)
    return rows[0]


async def known(conn: Connection, db: Tenant, id_: UUID) -> RunRow:
    row = await store.get(conn, id_, org=db.org)
    if row is None:
        raise NotFound("run", id_)
    return row


async def load(conn: Connection, db: Tenant, id_: UUID) -> tuple[RunRow, Workflow]:
    """Return a run and the version of its workflow that it follows."""
    row = await known(conn, db, id_)
    return row, await db.definitions.one(conn, row.version_id)


async def rounds_of(conn: Connection, row: RunRow) -> tuple[Round, ...]:
    lines = await inspect.turns(conn, row.id) if row.round else []
    return rounds(lines, state=row.state, began_at=row.created_at, ended_at=row.finished_at)


async def definition(db: Tenant, id_: UUID) -> Workflow:
    """Return the version that a run follows, even if the workflow has been changed or deleted since."""
    async with db.once() as conn:
        return (await load(conn, db, id_))[1]


def step_number(workflow: Workflow, step: str) -> int:
    number = workflow.plan.number.get(step)
    if number is None:
        known = ", ".join(known.name for known in workflow.steps[:20])
        raise Invalid(f"workflow {workflow.name!r} has no step {step!r}: it has {known}", field="step")
    return number
