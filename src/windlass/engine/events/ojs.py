"""Converts the event trail to Open Job Spec events: of jobs, of workflows, and of schedule ticks without a job."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core import property_order
from windlass.core.compositions import callbacks_of
from windlass.core.events.cursor import Cursor, Snapshot
from windlass.core.events.ojs import REQUESTED, OjsEvent, error_document, instant, job_event_types
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.json_value import decode
from windlass.core.workflows.step import ApprovalAction, ChildAction, JobAction
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.events.stream import Batch, Line, TrailEntry
from windlass.engine.quarantine import Kind
from windlass.engine.runs.approvals import ESCALATED, REMINDED
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules.ojs import Skipped
from windlass.store import approvals, events
from windlass.store import compositions as store
from windlass.store.approvals import Described
from windlass.store.compositions import CompositionSummary, NestedComposition, StepJob
from windlass.store.events import NamedJob
from windlass.store.steps import StepRef

RECENT = 2000  # lines that a reader without a cursor gets
FAILURES = frozenset({"failed", "retried"})
ENDS = frozenset({"succeeded", "failed", "retried", "cancelled"})
RUN_EVENTS: Mapping[str, str] = {
    "started": "workflow.started",
    "completed": "workflow.completed",
    "failed": "workflow.failed",
    "timeout": "workflow.failed",
    "cancelled": "workflow.cancelled",
}
STEP_ENDS: Mapping[str, str] = {
    "succeeded": "completed",
    "failed": "failed",
    "timed out": "failed",
    "cancelled": "failed",
}
REQUESTS = frozenset({"active", REMINDED, ESCALATED})  # event types about an approval
Began = dict[tuple[UUID, int | None], datetime]  # by job and attempt number


class Fields(NamedTuple):
    """An event of a workflow; `beside` appears in the data and on the top level."""

    type: str
    workflow_id: str  # the client's id
    data: dict[str, Any]
    beside: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compositions:
    """The data about compositions, their jobs and nested compositions that the events of a batch need."""

    runs: Mapping[UUID, CompositionSummary] = field(default_factory=dict)
    jobs: Mapping[StepRef, StepJob] = field(default_factory=dict)
    nested: Mapping[StepRef, NestedComposition] = field(default_factory=dict)


async def recent(db: Database) -> Cursor:
    """Return a cursor before the most recent events."""
    async with db.once() as conn:
        return Cursor(Snapshot(await events.recent(conn, RECENT)))


async def of_batch(db: Database, batch: Batch) -> list[tuple[OjsEvent, Cursor]]:
    """Return the events of a batch, each with the cursor after its line. Jobs in the engine's own queue have none."""
    entries = [entry for entry in batch.entries if not (entry.line.of_job and entry.line.queue == OWN_QUEUE)]
    lines = [entry.line for entry in entries]
    projection = _Projection(
        await load_compositions(db, entries),
        await _began(db, lines),
        await _named(db, lines),
        await _approvals(db, entries),
    )
    ojs_events = [(event, entry.cursor) for entry in entries for event in await _events_of(db, entry, projection)]
    if batch.next.before is None:  # ticks have no position within a batch: they come at its end
        ticks = [tick for tick in await ojs_schedules.skipped(db, batch.at.base) if batch.upto.sees(tick.xid)]
        ojs_events += [(_tick(tick), batch.next) for tick in ticks if not batch.at.upto.sees(tick.xid)]
    return ojs_events


async def _named(db: Database, lines: Sequence[Line]) -> Mapping[UUID, NamedJob]:
    """Return the clients' ids and the errors of those of the lines' jobs that are steps of runs or failed."""
    ids = {
        line.job_id
        for line in lines
        if line.of_job and line.job_id is not None and (line.run_id is not None or line.word in FAILURES)
    }
    if not ids:
        return {}
    async with db.once() as conn:
        return await events.named(conn, list(ids))


async def _approvals(db: Database, entries: Sequence[TrailEntry]) -> Mapping[StepRef, Described]:
    places = {_place(entry) for entry in entries if _is_request(entry)}
    if not places:
        return {}
    async with db.once() as conn:
        return await approvals.of_steps(conn, sorted(places))


def _is_request(entry: TrailEntry) -> bool:
    """Return whether a line is about the request for a decision, a reminder or an escalation."""
    if entry.line.of_job or entry.line.word not in REQUESTS or entry.line.step is None or entry.line.run_id is None:
        return False
    steps = entry.workflow.steps if entry.workflow is not None else ()
    return entry.line.step < len(steps) and isinstance(steps[entry.line.step].action, ApprovalAction)


def _requested(entry: TrailEntry, approval: Described | None) -> Fields | None:
    """Return the event of a step that waits for a decision. Deliveries to subscribers also contain the links."""
    if approval is None:
        return None
    line, id_ = entry.line, str(entry.line.run_id)
    data = {
        "approval_id": str(approval.id),
        "task": entry.step.name if entry.step else None,
        "message": approval.message,
        "form": property_order.restore(decode(approval.form)),
        "roles": approval.roles,
        "until": None if approval.until is None else instant(approval.until),
        "again": line.word != "active",
    }
    return Fields(REQUESTED, id_, data, {"workflow_id": id_, "workflow_type": "dag", "workflow_name": line.workflow})


async def _began(db: Database, lines: Sequence[Line]) -> Began:
    ids = {line.job_id for line in lines if line.of_job and line.word in ENDS and line.job_id is not None}
    if not ids:
        return {}
    async with db.once() as conn:
        return await events.began(conn, list(ids))


async def _events_of(db: Database, entry: TrailEntry, projection: "_Projection") -> list[OjsEvent]:
    """Return the events of a line. A line that cannot be converted goes into quarantine: readers continue after it."""
    try:
        return list(projection.events(entry))
    except Exception as error:
        await quarantine.set_aside(db, Kind.EVENT, f"{entry.line.xid}-{entry.line.id}", error, retry=False)
        return []


@dataclass(frozen=True, slots=True)
class _Projection:
    """Converts lines to events, with data that was loaded for the whole batch."""

    known: Compositions
    began: Began
    named: Mapping[UUID, NamedJob]
    approvals: Mapping[StepRef, Described]

    def events(self, entry: TrailEntry) -> Iterator[OjsEvent]:
        line = entry.line
        if line.of_job:
            data = self._data(line)
            for n, name in enumerate(job_event_types(line.word, line.data.get("reason"))):
                id_ = f"{line.xid}-{line.id}" + (f"-{n + 1}" if n else "")
                yield OjsEvent(id_, name, data["job_id"], line.at, line.org, data)
        elif fields := self._of_run(entry):
            name, id_, data, beside = fields
            yield OjsEvent(f"{line.xid}-w{line.id}", name, id_, line.at, line.org, data, beside)

    def _of_run(self, entry: TrailEntry) -> Fields | None:
        if _is_request(entry):
            return _requested(entry, self.approvals.get(_place(entry)))
        is_composed = entry.workflow is not None and entry.workflow.primitive is not None
        return composition_fields(entry, self.known) if is_composed else plain_fields(entry)

    def _data(self, line: Line) -> dict[str, Any]:
        job = self.named.get(line.job_id) if line.job_id else None
        data: dict[str, Any] = {"job_id": (job and job.alias) or str(line.job_id)}
        data |= {"job_type": line.type, "queue": line.queue, "attempt": line.attempt or 0}
        if line.run_id is not None:
            composition = self.known.runs.get(line.run_id)
            data["workflow_id"] = composition.client_id if composition is not None else str(line.run_id)
        if line.data.get("error"):
            data["error"] = _error(line, job)
        start = self.began.get((line.job_id, line.attempt)) if line.job_id and line.word != "leased" else None
        if start is not None:
            data["duration_ms"] = max(0, round((line.at - start).total_seconds() * 1000))
        return data


def _error(line: Line, job: NamedJob | None) -> dict[str, Any]:
    """Return an attempt's error. A job keeps its latest errors; for older ones there is only a message."""
    entries = [entry for entry in job.errors if entry.get("attempt") == line.attempt] if job is not None else []
    return error_document(entries[-1]) if entries else {"message": line.data["error"]}


def _tick(tick: Skipped) -> OjsEvent:
    data = {"cron_name": tick.name, "scheduled_for": instant(tick.tick), "reason": tick.reason}
    return OjsEvent(f"{tick.xid}-c{tick.id}", "cron.skipped", tick.name, tick.at, tick.org, data)


# The ten workflow events (Appendix B), derived from the event trail of runs


async def load_compositions(db: Database, entries: Sequence[TrailEntry]) -> Compositions:
    """Return the data that the lines of compositions need, loaded for all of them at once."""
    composed = [entry for entry in entries if entry.workflow is not None and entry.workflow.primitive is not None]
    runs = sorted({entry.line.run_id for entry in composed if entry.line.run_id is not None})
    if not runs:
        return Compositions()
    steps = [entry for entry in composed if not entry.line.of_job and entry.line.step is not None]
    nested = [_place(entry) for entry in steps if _is_nested(entry)]
    jobs = {_place(entry) for entry in steps}.difference(nested)
    async with db.begin() as conn:
        return Compositions(
            await store.summaries(conn, runs),
            await store.step_jobs(conn, sorted(jobs)) if jobs else {},
            await store.nested(conn, sorted(set(nested))) if nested else {},
        )


def _is_nested(entry: TrailEntry) -> bool:
    """Return whether a line is about a nested composition; an unknown step must fail only its own line."""
    steps = entry.workflow.steps if entry.workflow is not None else ()
    step = entry.line.step
    return step is not None and step < len(steps) and isinstance(steps[step].action, ChildAction)


def _place(entry: TrailEntry) -> StepRef:
    assert entry.line.run_id is not None
    assert entry.line.step is not None
    return entry.line.run_id, entry.line.step


def composition_fields(entry: TrailEntry, known: Compositions) -> Fields | None:
    """Return the event for a line of a composition; None if the spec has none."""
    composition = known.runs.get(entry.line.run_id) if entry.line.run_id is not None and not entry.line.of_job else None
    if composition is None:
        return None
    event = _of_workflow(entry, composition) if entry.line.step is None else _of_part(entry, known)
    if event is None:
        return None
    beside = {
        "workflow_id": composition.client_id,
        "workflow_type": composition.kind,
        "workflow_name": composition.name,
    }
    return Fields(event[0], composition.client_id, event[1], beside)


def plain_fields(entry: TrailEntry) -> Fields | None:
    """Return the event for a line of any other run; None if the spec has none."""
    line, id_ = entry.line, str(entry.line.run_id)
    if line.step is None:
        name = "workflow.started" if line.word == "running" else RUN_EVENTS.get(line.word)
        data: dict[str, Any] = {}
    else:
        ended = STEP_ENDS.get(line.word)
        name, data = (
            ended and f"workflow.step_{ended}",
            {"step_index": line.step, "step_id": entry.step.name if entry.step else None},
        )
    if name is None:
        return None
    if line.reason:
        data["reason"] = line.reason
    return Fields(name, id_, data, {"workflow_id": id_, "workflow_type": "dag", "workflow_name": line.workflow})


def _of_workflow(entry: TrailEntry, composition: CompositionSummary) -> tuple[str, dict[str, Any]] | None:
    line = entry.line
    if line.word == ("running" if composition.parent_id is None else "pending"):
        parent = composition.parent_id
        return "workflow.created", {} if parent is None else {"parent_workflow_id": parent}
    type_ = RUN_EVENTS.get(line.word)
    return None if type_ is None else (type_, {"timed_out": True} if line.word == "timeout" else {})


def _of_part(entry: TrailEntry, known: Compositions) -> tuple[str, dict[str, Any]] | None:
    line, workflow = entry.line, entry.workflow
    assert workflow is not None
    assert line.run_id is not None
    assert line.step is not None
    callbacks = {n: word for word, n in callbacks_of(workflow).items()}
    place = line.run_id, line.step
    if line.step in callbacks:
        return _of_callback(entry, callbacks[line.step], known.jobs.get(place))
    ended = STEP_ENDS.get(line.word)
    if ended is None:
        return None
    noun = "step" if workflow.primitive in (CompositionKind.CHAIN, CompositionKind.DAG) else "job"
    nested = known.nested.get(place)
    data, started_at = _of_job(entry, known.jobs.get(place)) if nested is None else _of_nested(nested)
    data |= {f"{noun}_index": line.step, f"{noun}_type": data.pop("type")}
    if started_at is not None:
        data["duration_ms"] = max(0, round((line.at - started_at).total_seconds() * 1000))
    if noun == "step":
        data["remaining_steps"] = len(workflow.steps) - line.step - 1
    error = data.pop("error")
    if ended == "failed":
        data["error"] = error if error and line.word != "cancelled" else _plain_error(line)
    return f"workflow.{noun}_{ended}", data


def _of_callback(entry: TrailEntry, word: str, job: StepJob | None) -> tuple[str, dict[str, Any]] | None:
    if entry.line.word != "active":
        return None
    action = entry.step.action if entry.step is not None else None
    kind = action.type if isinstance(action, JobAction) else ""
    data = {"callback": word, "callback_type": kind}
    return "workflow.callback_fired", data | ({"job_id": job.client_id} if job is not None else {})


def _of_job(entry: TrailEntry, job: StepJob | None) -> tuple[dict[str, Any], datetime | None]:
    action = entry.step.action if entry.step is not None else None
    data: dict[str, Any] = {"type": action.type if isinstance(action, JobAction) else "", "error": None}
    if job is None:
        return data, None
    error = error_document(job.error) if job.error else None
    return data | {"job_id": job.client_id, "error": error}, job.started_at


def _of_nested(nested: NestedComposition) -> tuple[dict[str, Any], datetime | None]:
    """Return the data of a step that is a nested composition; its error is that of the failed job inside it."""
    error = {"job_id": nested.job, **error_document(nested.error)} if nested.error else None
    return {"type": nested.kind, "child_workflow_id": nested.client_id, "error": error}, nested.started_at


def _plain_error(line: Line) -> dict[str, Any]:
    code = "cancelled" if line.word == "cancelled" else "handler_error"
    return {"code": code, "type": code, "message": line.reason or line.word}
