"""Loads the results that jobs of compositions receive from the jobs before them, by index, for many jobs at once.

A job of a chain receives the results of all steps before it, a callback those of all jobs of its batch. The first jobs
of a nested composition receive the results that the composition as a whole would receive. The result of a chain is that
of its last step; the result of a group, a batch or a graph has those of its parts, by index. Results beyond a size
limit are replaced by OMITTED, those of the earliest steps first: the spec requires the result of the preceding step.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from windlass.core.compositions import callbacks_of, sources
from windlass.core.json_value import decode
from windlass.core.runs.run import BAD, Letter
from windlass.core.workflows.step import ChildAction
from windlass.core.workflows.workflow import CompositionKind, Workflow
from windlass.engine.database import Database
from windlass.engine.quarantine import split_batch
from windlass.engine.workers.turn import ClaimedJob
from windlass.store import compositions as store
from windlass.store.compositions import Around, PartResult
from windlass.store.postgres.pool import Connection
from windlass.store.steps import StepRef

__all__ = ["StepRef"]
Results = dict[str, Any]
EACH = 16 * 1_048_576  # bytes of results that a job receives from one composition, the last steps first
MOST = 8 * EACH  # for all jobs of one fetch together
OMITTED = {
    "omitted": True,
    "reason": f"the results together are larger than {EACH // 1_048_576} MiB: read the job's own",
}


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a job in its composition, and the results it receives. Keys are indexes, as strings."""

    workflow_id: str  # the client's id
    kind: CompositionKind
    step: int
    callback: str | None
    results: Results

    @property
    def listed(self) -> list[Any]:
        """Return the results as a list, with null where there is none."""
        count = max((int(key) for key in self.results), default=-1) + 1
        return [self.results.get(str(n)) for n in range(count)]


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of jobs by run and step, and the errors of those whose composition or results cannot be read."""

    by_step: dict[StepRef, Position] = field(default_factory=dict)
    errors: dict[StepRef, Exception] = field(default_factory=dict)


async def of_jobs(db: Database, jobs: Sequence[ClaimedJob]) -> Positions:
    """Return the positions of the jobs that belong to compositions. Unreadable data of a job affects only that job."""
    errors: dict[StepRef, Exception] = {}

    async def isolate(job: ClaimedJob, error: Exception) -> None:
        if job.run_id is not None and job.step is not None:
            errors[job.run_id, job.step] = error

    parts = await split_batch(jobs, partial(_of_batch, db), isolate)
    return Positions({ref: position for part in parts for ref, position in part.items()}, errors)


async def _of_batch(db: Database, jobs: Sequence[ClaimedJob]) -> dict[StepRef, Position]:
    versions = {job.version_id for job in jobs if job.version_id is not None}
    if not versions:
        return {}
    async with db.begin() as conn:
        known = await db.definitions.of(conn, versions)
        places = [
            (job.run_id, job.step)
            for job in jobs
            if job.run_id is not None and job.step is not None and _is_composed(known, job.version_id)
        ]
        return await _positions(conn, db, dict.fromkeys(places)) if places else {}


async def _positions(conn: Connection, db: Database, places: Iterable[StepRef]) -> dict[StepRef, Position]:
    refs = list(places)
    around = await store.above(conn, sorted({run for run, _ in refs}))
    known = await db.definitions.of(conn, {one.version_id for one in around.values()})
    givers = {place: _giver(place, around, known) for place in refs}
    needed = {(run, n) for run, step in givers.values() for n in sources(known[around[run].version_id], step)}
    values = await _values(conn, db, sorted(needed), {run: known[one.version_id] for run, one in around.items()})
    positions: dict[StepRef, Position] = {}
    for place, (run, step) in givers.items():
        own = around[place[0]]
        workflow = known[own.version_id]
        word = {n: word for word, n in callbacks_of(workflow).items()}.get(place[1])
        indexes = sources(known[around[run].version_id], step)
        results = {str(n): values[run, n] for n in indexes if (run, n) in values}
        positions[place] = Position(own.alias or str(own.run_id), CompositionKind(own.kind), place[1], word, results)
    return positions


def _giver(place: StepRef, around: Mapping[UUID, Around], known: Mapping[int, Workflow]) -> StepRef:
    """Return the step whose predecessors' results a job receives: its own, or that of the composition it begins."""
    run, step = place
    while not sources(known[around[run].version_id], step):
        one = around[run]
        if one.parent_id is None or one.parent_step is None or one.parent_id not in around:
            break
        run, step = one.parent_id, one.parent_step
    return run, step


async def _values(
    conn: Connection, db: Database, places: Sequence[StepRef], workflows: Mapping[UUID, Workflow]
) -> dict[StepRef, Any]:
    """Return the results of these steps, level by level: nested compositions of a level are loaded together."""
    if not places:
        return {}
    rows: dict[StepRef, list[PartResult]] = defaultdict(list)
    for row in await store.results(conn, places, each=EACH, most=MOST):
        rows[row.run_id, row.step].append(row)
    values: dict[StepRef, Any] = {place: _value(some) for place, some in rows.items()}
    inner_places = [(run, n) for run, n in places if isinstance(workflows[run].steps[n].action, ChildAction)]
    if inner_places:
        values |= await _inner(conn, db, inner_places)
    return values


async def _inner(conn: Connection, db: Database, places: Sequence[StepRef]) -> dict[StepRef, Any]:
    """Return the results of the compositions at these steps."""
    below = await store.below(conn, places)
    known = await db.definitions.of(conn, {one.version_id for one in below})
    inner = {one.run_id: known[one.version_id] for one in below}
    parts = {one.run_id: _given(inner[one.run_id], one.letters) for one in below}
    inside = await _values(conn, db, [(run, n) for run, numbers in parts.items() for n in numbers], inner)
    values: dict[StepRef, Any] = {}
    for one in below:
        results = {str(n): inside[one.run_id, n] for n in parts[one.run_id] if (one.run_id, n) in inside}
        is_chain = inner[one.run_id].primitive is CompositionKind.CHAIN
        values[one.parent_id, one.step] = next(iter(results.values()), None) if is_chain else results
    return values


def _given(workflow: Workflow, letters: str) -> list[int]:
    """Return the steps whose results make up that of a composition; of a chain only the last step that ran."""
    if workflow.primitive is CompositionKind.CHAIN:
        return [n for n, letter in enumerate(letters) if letter == Letter.SUCCEEDED or letter in BAD][-1:]
    return list(range(len(workflow.steps) - len(callbacks_of(workflow))))


def _value(rows: Sequence[PartResult]) -> Any:
    """Return a result; for a failed job its error; for a step with many jobs the list by index."""
    if rows[0].items is None:
        return _one(rows[0])
    known = {row.item: _one(row) for row in rows}
    return [known.get(n) for n in range(rows[0].items)]


def _one(row: PartResult) -> Any:
    if row.omitted:
        return dict(OMITTED)
    if row.status == "succeeded":
        return decode(row.result)
    error = row.error or {}
    code = error.get("code") or ("cancelled" if row.status == "cancelled" else "handler_error")
    described = {
        "code": code,
        "type": error.get("type") or code,
        "message": error.get("message") or row.last_error or row.status,
        "attempt": error.get("attempt") or row.attempts,
    }
    return {"error": described, "state": "cancelled" if row.status == "cancelled" else "discarded"}


def _is_composed(known: Mapping[int, Workflow], version_id: int | None) -> bool:
    return version_id is not None and known[version_id].primitive is not None
