"""Loads snapshots, timelines and log lines of runs for display; decides only which workers serve a pending job."""

from collections.abc import AsyncGenerator, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from windlass.core.events.cursor import Snapshot
from windlass.core.explain.explanation import Explanation, explain
from windlass.core.explain.snapshot import (
    AGAIN,
    ChildSnapshot,
    JobSnapshot,
    Origin,
    OriginKind,
    Round,
    RunSnapshot,
    Served,
    StepSnapshot,
    round_of,
)
from windlass.core.explain.timeline import Span, during, is_several, timeline
from windlass.core.jobs.job import JobState
from windlass.core.jobs.spec import check_range
from windlass.core.orgs import owner, shown
from windlass.core.runs.run import OPEN, WORDS, Letter, RunState, read_counters
from windlass.core.workflows.step import ApprovalAction, ChildAction, EventAction, HttpAction, pool_of
from windlass.core.workflows.workflow import Workflow
from windlass.effects.handlers import like
from windlass.engine.database import Database, Tenant
from windlass.engine.runs.control import load, rounds_of, step_number
from windlass.store import approvals, checkpoints, runs, workers
from windlass.store import inspect as store
from windlass.store.inspect import LineFilter, Place, RunEvent, RunLine, StepPlace
from windlass.store.messages import waiters
from windlass.store.postgres.pool import Connection
from windlass.store.runs import RunRow
from windlass.store.workers import ALIVE_WITHIN, RUNTIME, WorkerRow

__all__ = ["Place", "RunLine"]
LINES_LIMIT = 10_000
LINES_PAGE = 5_000  # lines per query when all are read
MOST_MOVES = 20_000  # events of the jobs of one run; later ones are left out of its timeline
BEGINNING = Place(datetime(1, 1, 1, tzinfo=UTC), UUID(int=0), 0, 0)


@dataclass(frozen=True, slots=True)
class LineSelection:
    """A selection of log lines, with the names of the workflow and its steps."""

    which: LineFilter
    workflow: str
    names: tuple[str, ...]

    def name(self, line: RunLine) -> str:
        return self.names[line.step]


async def snapshot(db: Tenant, id_: UUID, *, answers: bool = False) -> RunSnapshot:
    """Return the current state of a run and its steps. `answers`: with the responses of HTTP steps, one more query."""
    async with db.begin() as conn:
        row, workflow = await load(conn, db, id_)
        steps = await _steps(conn, db, row, workflow)
        if answers:
            steps = await _answered(conn, id_, steps)
        trail = await store.events(conn, id_)
        return _snapshot(
            row,
            workflow,
            steps=[_with_reasons(step, n, trail) for n, step in enumerate(steps)],
            trail=trail,
            now=await runs.now(conn),
            rounds=await rounds_of(conn, row),
            running=await store.running_of_workflow(conn, id_) if row.state is RunState.PENDING else 0,
        )


async def explanation(db: Tenant, id_: UUID) -> tuple[RunSnapshot, Explanation]:
    """Return a run's snapshot and the explanation of its state."""
    run = await snapshot(db, id_)
    return run, explain(run)


async def run_timeline(db: Tenant, id_: UUID, *, attempt: int | None = None) -> tuple[RunSnapshot, list[Span]]:
    """Return a run's snapshot and its timeline, of all rounds or of one."""
    run = await snapshot(db, id_)
    round_ = None if attempt is None else round_of(run.rounds, attempt)
    several = [n for n, step in enumerate(run.steps) if is_several(step.step)]
    plain = [n for n in range(len(run.steps)) if n not in several]
    async with db.begin() as conn:
        moves = await store.moves(conn, id_, plain, limit=MOST_MOVES) if plain else []
        if round_ is None or len(run.rounds) == 1:
            return run, timeline(run, moves)
        together = await store.spans(conn, id_, several, round_) if several else []
    return run, during(run, round_, moves, together)


async def lines(
    db: Tenant,
    id_: UUID,
    *,
    step: str | None = None,
    index: int | None = None,
    attempt: int | None = None,
    after: Place = BEGINNING,
    limit: int = LINES_LIMIT,
) -> list[tuple[str, RunLine]]:
    """Return the log lines of a run as (step, line), oldest first, after a position from the previous page."""
    check_range(limit, "limit", most=LINES_LIMIT)
    async with db.begin() as conn:
        selection = await _select(conn, db, id_, step, index, attempt)
        rows = await store.lines(conn, selection.which, after=after, limit=limit)
    return [(selection.name(line), line) for line in rows]


async def select_lines(
    db: Tenant, run: UUID, *, step: str | None = None, index: int | None = None, attempt: int | None = None
) -> LineSelection:
    async with db.once() as conn:
        return await _select(conn, db, run, step, index, attempt)


async def last_lines(
    db: Database, selection: LineSelection, count: int, *, seen_by: Snapshot | None = None
) -> list[RunLine]:
    """Return the last `count` lines in chronological order; with `seen_by`, only those of them that it sees."""
    check_range(count, "tail", most=LINES_LIMIT)
    async with db.once() as conn:
        rows = await store.last_lines(conn, selection.which, count)
    return [line for xid, line in rows if seen_by is None or seen_by.sees(xid)]


async def lines_by_step(db: Database, selection: LineSelection) -> AsyncGenerator[list[RunLine], None]:
    """Yield all lines in pages, by step and instance, each in chronological order."""
    place: StepPlace | None = StepPlace()
    while place is not None:
        async with db.once() as conn:
            lines, place = await store.lines_by_step(conn, selection.which, place, limit=LINES_PAGE)
        if lines:
            yield lines


async def new_lines(
    db: Database, selection: LineSelection, base: Snapshot, upto: Snapshot, *, jobs: Collection[UUID] | None = None
) -> list[RunLine]:
    """Return the lines that `upto` sees and `base` does not, in chronological order."""
    async with db.once() as conn:
        rows = await store.lines_since(conn, selection.which, base, jobs=jobs)
    return [line for xid, line in rows if upto.sees(xid)]


async def leased_jobs(db: Database, selection: LineSelection) -> set[UUID]:
    """Return the leased jobs of the selection: they may log more lines."""
    async with db.once() as conn:
        return await store.leased_jobs(conn, selection.which.run, selection.which.step)


async def _select(
    conn: Connection, db: Tenant, run: UUID, step: str | None, index: int | None, attempt: int | None
) -> LineSelection:
    _, workflow = await load(conn, db, run)
    number = None if step is None else step_number(workflow, step)
    return LineSelection(
        LineFilter(run, number, index, attempt), workflow.name, tuple(one.name for one in workflow.steps)
    )


def _snapshot(
    row: RunRow,
    workflow: Workflow,
    *,
    steps: Sequence[StepSnapshot],
    trail: Sequence[RunEvent],
    now: datetime,
    rounds: tuple[Round, ...],
    running: int,
) -> RunSnapshot:
    undoing = read_counters(row.fans).undo.move is not None
    why = _last(trail, None, "compensating" if undoing else row.state.value)
    again = [event for event in trail if event.step is None and event.word in AGAIN]
    return RunSnapshot(
        id=row.id,
        workflow=workflow,
        workflow_id=row.workflow_id,
        version=row.version,
        state=row.state,
        now=now,
        created_at=row.created_at,
        expires_at=row.expires_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        input=row.input,
        labels=row.labels,
        idempotency_key=row.idempotency_key,
        parent_id=row.parent_id,
        trigger=row.trigger or Origin(OriginKind.API),
        round=row.round,
        rounds=rounds,
        steps=tuple(steps),
        reason=why.reason if why else None,
        is_undone=undoing,
        paused_at=row.paused_at,
        actor=why.actor if why else None,
        last_restart=f"{again[-1].word}, {again[-1].reason}" if again else None,
        cursor=row.cursor,
        running=running,
    )


async def _steps(conn: Connection, db: Tenant, row: RunRow, workflow: Workflow) -> list[StepSnapshot]:
    letters = [Letter(letter) for letter in row.letters]
    fans = read_counters(row.fans).fans
    begun = [n for n, letter in enumerate(letters) if letter not in (Letter.WAITING, Letter.SKIPPED)]
    below = [n for n in begun if isinstance(workflow.steps[n].action, ChildAction)]
    ended = [n for n in begun if n in fans and n not in below and letters[n] is not Letter.ACTIVE]
    active = [n for n in begun if n in fans and n not in below and letters[n] is Letter.ACTIVE]
    jobs = await store.first_jobs(conn, row.id, begun) if begun else {}
    tallies = await store.tally(conn, row.id, ended) if ended else {}
    placed = {n: pool_of(workflow.steps[n].action) is not None for n in active}
    waiting = await store.waiting_jobs(conn, row.id, placed) if active else {}
    children = await store.children(conn, row.id, below) if below else {}
    wakes = await store.wake_times(conn, row.id) if Letter.ACTIVE in letters else {}
    awaits = any(isinstance(workflow.steps[n].action, EventAction) and letters[n] is Letter.ACTIVE for n in begun)
    awaited = await waiters.of_run(conn, row.id) if awaits else {}
    asks = any(isinstance(workflow.steps[n].action, ApprovalAction) and letters[n] is Letter.ACTIVE for n in begun)
    requested = await approvals.of_run(conn, row.id) if asks else {}
    known = [*(one.job for one in waiting.values()), *(first.job for first in jobs.values())]
    if row.paused_at is not None:
        known = [replace(job, served=Served.RUN_PAUSED) if job.state is JobState.PENDING else job for job in known]
    served = await _service(conn, db.org, known)
    return [
        _step(
            StepSnapshot(
                step=workflow.steps[n],
                letter=letter,
                fan=fans.get(n),
                wakes_at=requested[n].until if n in requested else wakes.get(n),  # not the time of a reminder
                awaited=requested.get(n) or awaited.get(n),
                busy=n in waiting and waiting[n].busy,
                is_launching=n in waiting and waiting[n].launching,
            ),
            job=served.get(waiting[n].job.id) if n in waiting else served.get(jobs[n].job.id) if n in jobs else None,
            first=jobs.get(n),
            tally=tallies.get(n),
            below=children.get(n),
        )
        for n, letter in enumerate(letters)
    ]


async def _answered(conn: Connection, id_: UUID, steps: Sequence[StepSnapshot]) -> list[StepSnapshot]:
    numbers = [
        n
        for n, step in enumerate(steps)
        if isinstance(step.step.action, HttpAction) and step.job is not None and step.fan is None
    ]
    responses = await store.responses(conn, id_, numbers) if numbers else {}
    return [replace(step, answer=responses[n]) if n in responses else step for n, step in enumerate(steps)]


def _step(
    bare: StepSnapshot,
    *,
    job: JobSnapshot | None,
    first: store.FirstJob | None,
    tally: store.Tally | None,
    below: store.Children | None,
) -> StepSnapshot:
    if below is not None:
        done = sum(letter not in OPEN for letter in below.letters)
        child = ChildSnapshot(
            count=below.many,
            live=below.live,
            id=below.id,
            state=RunState(below.state),
            done=done,
            total=len(below.letters),
        )
        return replace(bare, child=child, began_at=below.began_at, ended_at=below.ended_at)
    if first is None:
        return bare
    ended = tally.updated_at if tally is not None else first.updated_at
    return replace(bare, job=job, failed=tally.failed if tally else None, began_at=first.began_at, ended_at=ended)


async def _service(conn: Connection, org: str, jobs: Sequence[JobSnapshot]) -> dict[UUID, JobSnapshot]:
    """Return the jobs by id, with names as their org uses them; on pending jobs, set whether a worker serves them."""
    pending = {job.id: job for job in jobs}
    waiting = [job for job in jobs if job.state is JobState.PENDING and job.served is Served.YES]
    if waiting:
        alive = [worker for worker in await workers.list_(conn, alive_within=ALIVE_WITHIN) if worker.alive]
        registry = (await workers.registry(conn)).types
        paused = await store.paused(conn, {job.queue for job in waiting})
        waits = await checkpoints.waits(conn, [job.id for job in waiting])
        judged = [_judged(job, alive, registry, paused) for job in waiting]
        pending |= {job.id: replace(job, wait=waits.get(job.id)) for job in judged}
    return {
        id_: replace(job, queue=shown(org, job.queue), worker=job.worker and shown(org, job.worker))
        for id_, job in pending.items()
    }


def serves(worker: WorkerRow, queue: str, type_: str) -> bool:
    """Return whether a worker claims jobs of this queue (its stored name) and type. A worker that uses HTTP serves the
    queues of its org, any other those of all orgs."""
    name = queue if worker.uses_http else owner(queue)[1]
    return name in worker.queues and any(like(pattern).fullmatch(type_) for pattern in worker.types)


def _judged(
    job: JobSnapshot, alive: Sequence[WorkerRow], registry: Mapping[str, tuple[str, bool]], paused: Set[str]
) -> JobSnapshot:
    runtime, enabled = registry.get(job.type, (RUNTIME, True))
    if not enabled:
        return replace(job, served=Served.OFF)
    if runtime != RUNTIME:
        return replace(job, served=Served.ELSEWHERE, runtime=runtime)
    if not any(serves(worker, job.queue, job.type) for worker in alive):
        return replace(job, served=Served.NO_WORKER)
    return replace(job, served=Served.PAUSED) if job.queue in paused else job


def _with_reasons(step: StepSnapshot, n: int, trail: Sequence[RunEvent]) -> StepSnapshot:
    """Return the step with the reasons and times from the run's event trail."""
    why, held = _last(trail, n, step.word), _last(trail, n, WORDS[Letter.ACTIVE])
    began, ended = _when(trail, n, WORDS[Letter.ACTIVE]), None if step.letter in OPEN else _when(trail, n, step.word)
    timed = replace(
        step,
        held=held.reason if held else None,
        began_at=step.began_at or began,
        ended_at=step.ended_at or ended,
    )
    return timed if why is None else replace(timed, reason=why.reason, code=why.code)


def _when(trail: Sequence[RunEvent], step: int, word: str) -> datetime | None:
    """Return when a step last entered this state. Steps without a job record that only in the event trail."""
    return next((event.created_at for event in reversed(trail) if event.step == step and event.word == word), None)


def _last(trail: Sequence[RunEvent], step: int | None, word: str) -> RunEvent | None:
    matching = (event for event in reversed(trail) if event.step == step and event.word == word and event.reason)
    return next(matching, None)
