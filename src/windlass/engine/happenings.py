"""Makes events of the Open Job Spec of the trail: of jobs, of workflows, and of ticks of crons that made no job."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from windlass.core.happening import Happening, error_document, names_of_job_line
from windlass.core.instant import instant
from windlass.core.payload import OWN_QUEUE
from windlass.engine import composition_events, crons, job_events, quarantine
from windlass.engine.composition_events import Known
from windlass.engine.crons import Skipped
from windlass.engine.job_events import Began, NamedJob
from windlass.engine.live import Batch, Cursor, Line, Told
from windlass.engine.quarantine import Kind
from windlass.engine.unit import Unit
from windlass.engine.workflow_happenings import Fields, fields, plain_fields


async def of_batch(unit: Unit, batch: Batch) -> list[tuple[Happening, Cursor]]:
    """Return the events of a batch, each with the place behind its line; the server's own steps have none."""
    told = [one for one in batch.told if not (one.line.of_job and one.line.queue == OWN_QUEUE)]
    lines = [one.line for one in told]
    projection = _Projection(
        await composition_events.known(unit, told),
        await job_events.began(unit, lines),
        await job_events.named(unit, lines),
    )
    found = [(event, one.cursor) for one in told for event in await _events_of(unit, one, projection)]
    if batch.next.before is None:  # ticks have no place within a batch: they come at its end
        missed = [one for one in await crons.skipped(unit, batch.at.base) if batch.upto.sees(one.xid)]
        found += [(_tick(unit, one), batch.next) for one in missed if not batch.at.upto.sees(one.xid)]
    return found


async def _events_of(unit: Unit, told: Told, projection: "_Projection") -> list[Happening]:
    """Return the events of a line. A line that cannot be made into one is set aside: readers go on behind it."""
    try:
        return list(projection.events(told))
    except Exception as error:
        await quarantine.set_aside(unit, Kind.EVENT, f"{told.line.xid}-{told.line.id}", error, retry=False)
        return []


@dataclass(frozen=True, slots=True)
class _Projection:
    """Makes events of lines; what it needs beside them was read for the whole batch."""

    known: Known
    began: Began
    named: Mapping[UUID, NamedJob]

    def events(self, told: Told) -> Iterator[Happening]:
        line = told.line
        if line.of_job:
            data = self._data(line)
            for n, name in enumerate(names_of_job_line(line.word, line.data.get("reason"))):
                id_ = f"{line.xid}-{line.id}" + (f"-{n + 1}" if n else "")
                yield Happening(id_, name, data["job_id"], line.at, line.org, data)
        elif found := self._of_run(told):
            name, id_, data, beside = found
            yield Happening(f"{line.xid}-w{line.id}", name, id_, line.at, line.org, data, beside)

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
    """Return what went wrong with an attempt. A job remembers its latest errors: of older ones there is a message."""
    entries = [entry for entry in job.errors if entry.get("attempt") == line.attempt] if job is not None else []
    return error_document(entries[-1]) if entries else {"message": line.data["error"]}


def _tick(unit: Unit, one: Skipped) -> Happening:
    data = {"cron_name": one.name, "scheduled_for": instant(one.tick), "reason": one.reason}
    return Happening(f"{one.xid}-c{one.id}", "cron.skipped", one.name, one.at, unit.org, data)
