"""The trail as events of the Open Job Spec: of jobs, of workflows, and of ticks of crons that made no job."""

from collections.abc import Iterator
from typing import Any

from windlass.core.happening import Happening, names_of_job_line
from windlass.core.instant import instant
from windlass.core.payload import OWN_QUEUE
from windlass.engine import composition_events, crons, job_events, quarantine
from windlass.engine.composition_events import Known
from windlass.engine.crons import Skipped
from windlass.engine.job_events import Began
from windlass.engine.live import Batch, Cursor, Line, Told
from windlass.engine.quarantine import Kind
from windlass.engine.unit import Unit
from windlass.engine.workflow_happenings import fields, plain_fields


async def of_batch(unit: Unit, batch: Batch) -> list[tuple[Happening, Cursor]]:
    """The events of a batch, each with the place behind its line; of our own steps nobody is told."""
    told = [one for one in batch.told if not (one.line.of_job and one.line.queue == OWN_QUEUE)]
    began = await job_events.began(unit, [one.line for one in told])
    known = await composition_events.known(unit, told)
    found = [(event, one.cursor) for one in told for event in await _events_of(unit, one, began, known)]
    if batch.next.before is None:  # ticks have no place within a batch: they come at its end
        missed = [one for one in await crons.skipped(unit, batch.at.base) if batch.upto.sees(one.xid)]
        found += [(_tick(unit, one), batch.next) for one in missed if not batch.at.upto.sees(one.xid)]
    return found


async def _events_of(unit: Unit, told: Told, began: Began, known: Known) -> list[Happening]:
    """The events of a line. A line that cannot be made into one is set aside: readers go on behind it."""
    try:
        return list(_events(told, began, known))
    except Exception as error:
        await quarantine.set_aside(unit, Kind.EVENT, f"{told.line.xid}-{told.line.id}", error, retry=False)
        return []


def _events(told: Told, began: Began, known: Known) -> Iterator[Happening]:
    line = told.line
    if line.of_job:
        data = _data(line, began)
        for n, name in enumerate(names_of_job_line(line.word, line.data.get("reason"))):
            id_ = f"{line.xid}-{line.id}" + (f"-{n + 1}" if n else "")
            yield Happening(id_, name, str(line.job_id), line.at, line.org, data)
    elif found := fields(told, known) if told.workflow and told.workflow.primitive else plain_fields(told):
        name, id_, data, beside = found
        yield Happening(f"{line.xid}-w{line.id}", name, id_, line.at, line.org, data, beside)


def _data(line: Line, began: Began) -> dict[str, Any]:
    data: dict[str, Any] = {"job_id": str(line.job_id), "job_type": line.type, "queue": line.queue}
    data["attempt"] = line.attempt or 0
    if line.run_id is not None:
        data["workflow_id"] = str(line.run_id)
    if line.data.get("error"):
        data["error"] = {"message": line.data["error"]}
    start = began.get((line.job_id, line.attempt)) if line.job_id and line.word != "leased" else None
    if start is not None:
        data["duration_ms"] = max(0, round((line.at - start).total_seconds() * 1000))
    return data


def _tick(unit: Unit, one: Skipped) -> Happening:
    data = {"cron_name": one.name, "scheduled_for": instant(one.tick), "reason": one.reason}
    return Happening(f"{one.xid}-c{one.id}", "cron.skipped", one.name, one.at, unit.org, data)
