"""Makes Open Job Spec events from the event trail: of jobs, of workflows, and of schedule ticks without a job."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.core.events.cursor import Cursor, Snapshot
from windlass.core.events.ojs import OjsEvent, error_document, instant, job_event_types
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.events import ojs_workflows
from windlass.engine.events.ojs_workflows import Compositions, Fields, fields, plain_fields
from windlass.engine.events.stream import Batch, Line, Told
from windlass.engine.quarantine import Kind
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.schedules.ojs import Skipped
from windlass.store import events
from windlass.store.events import NamedJob

RECENT = 2000  # lines that a reader without a cursor is shown
FAILURES = frozenset({"failed", "retried"})
ENDS = frozenset({"succeeded", "failed", "retried", "cancelled"})
Began = dict[tuple[UUID, int | None], datetime]  # by job and attempt number


async def recent(db: Database) -> Cursor:
    """Return a cursor before the most recent events."""
    async with db.once() as conn:
        return Cursor(Snapshot(await events.recent(conn, RECENT)))


async def of_batch(db: Database, batch: Batch) -> list[tuple[OjsEvent, Cursor]]:
    """Return the events of a batch, each with the cursor after its line; the server's own steps have none."""
    told = [one for one in batch.told if not (one.line.of_job and one.line.queue == OWN_QUEUE)]
    lines = [one.line for one in told]
    projection = _Projection(
        await ojs_workflows.load_compositions(db, told),
        await _began(db, lines),
        await _named(db, lines),
    )
    found = [(event, one.cursor) for one in told for event in await _events_of(db, one, projection)]
    if batch.next.before is None:  # ticks have no position within a batch: they come at its end
        missed = [one for one in await ojs_schedules.skipped(db, batch.at.base) if batch.upto.sees(one.xid)]
        found += [(_tick(db, one), batch.next) for one in missed if not batch.at.upto.sees(one.xid)]
    return found


async def _named(db: Database, lines: Sequence[Line]) -> Mapping[UUID, NamedJob]:
    """Return the clients' ids and the errors of the lines' jobs, where they are steps of runs or failed."""
    ids = {
        line.job_id
        for line in lines
        if line.of_job and line.job_id is not None and (line.run_id is not None or line.word in FAILURES)
    }
    if not ids:
        return {}
    async with db.once() as conn:
        return await events.named(conn, list(ids))


async def _began(db: Database, lines: Sequence[Line]) -> Began:
    ids = {line.job_id for line in lines if line.of_job and line.word in ENDS and line.job_id is not None}
    if not ids:
        return {}
    async with db.once() as conn:
        return await events.began(conn, list(ids))


async def _events_of(db: Database, told: Told, projection: "_Projection") -> list[OjsEvent]:
    """Return the events of a line. A line that cannot be converted is set aside: readers go on after it."""
    try:
        return list(projection.events(told))
    except Exception as error:
        await quarantine.set_aside(db, Kind.EVENT, f"{told.line.xid}-{told.line.id}", error, retry=False)
        return []


@dataclass(frozen=True, slots=True)
class _Projection:
    """Converts lines to events, with data that was loaded for the whole batch."""

    known: Compositions
    began: Began
    named: Mapping[UUID, NamedJob]

    def events(self, told: Told) -> Iterator[OjsEvent]:
        line = told.line
        if line.of_job:
            data = self._data(line)
            for n, name in enumerate(job_event_types(line.word, line.data.get("reason"))):
                id_ = f"{line.xid}-{line.id}" + (f"-{n + 1}" if n else "")
                yield OjsEvent(id_, name, data["job_id"], line.at, line.org, data)
        elif found := self._of_run(told):
            name, id_, data, beside = found
            yield OjsEvent(f"{line.xid}-w{line.id}", name, id_, line.at, line.org, data, beside)

    def _of_run(self, told: Told) -> Fields | None:
        is_composed = told.workflow is not None and told.workflow.primitive is not None
        return fields(told, self.known) if is_composed else plain_fields(told)

    def _data(self, line: Line) -> dict[str, Any]:
        job = self.named.get(line.job_id) if line.job_id else None
        data: dict[str, Any] = {"job_id": (job and job.alias) or str(line.job_id)}
        data |= {"job_type": line.type, "queue": line.queue, "attempt": line.attempt or 0}
        if line.run_id is not None:
            who = self.known.runs.get(line.run_id)
            data["workflow_id"] = who.shown if who is not None else str(line.run_id)
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


def _tick(db: Database, one: Skipped) -> OjsEvent:
    data = {"cron_name": one.name, "scheduled_for": instant(one.tick), "reason": one.reason}
    return OjsEvent(f"{one.xid}-c{one.id}", "cron.skipped", one.name, one.at, db.org, data)
