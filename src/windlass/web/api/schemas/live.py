"""What streams tell. Made without models: there may be thousands a second."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.core.runs.run import Fan, Letter
from windlass.engine.events.stream import Batch, Told
from windlass.web.api import vocabulary
from windlass.web.api.schemas.tasks import counts

REOPENED = "reopened"


def kind(told: Told) -> str:
    """Whom it is about: a run, a task of one, or a job that is no task."""
    if told.line.step is not None:
        return "task"
    return "job" if told.line.of_job else "run"


def hello(batch: Batch, run: UUID | None = None) -> dict[str, Any]:
    """Where the stream begins."""
    found: dict[str, Any] = {"cursor": str(batch.at)}
    return found if run is None else found | {"run_id": str(run), "run_status": batch.state}


def end(batch: Batch, run: UUID) -> dict[str, Any]:
    return {"run_id": str(run), "run_status": state(batch)}


def state(batch: Batch) -> str | None:
    """Of the run that was asked for, as it was when the last of this was read."""
    return batch.state or (batch.told[-1].line.state if batch.told else None)


def happening(told: Told, *, whole: bool = False) -> dict[str, Any]:
    """One line of a trail. `status` is that of the task at the time of reading: the last one told is true. `whole`:
    what is about a run has the statuses of all its tasks, some of which change with it and are told nowhere else."""
    line, step = told.line, told.step
    found: dict[str, Any] = {
        "event": _word(told),
        "at": line.at.isoformat().replace("+00:00", "Z"),
        "actor": line.actor,
        "reason": line.reason or line.data.get("error") or line.data.get("reason"),
    }
    if line.run_id is not None:
        found |= {"run_id": str(line.run_id), "workflow": line.workflow, "run_status": line.state}
    if line.code is not None:
        found["code"] = line.code
    if step is not None and line.letters:
        found["task"] = step.name
        found["status"] = vocabulary.task_status(Letter(line.letters), step.action, line.code)
    elif whole and told.workflow is not None and line.letters:
        pairs = zip(told.workflow.steps, line.letters, strict=True)
        found["tasks"] = {step.name: vocabulary.task_status(Letter(letter), step.action) for step, letter in pairs}
    if line.fan is not None:
        found["instances"] = counts(Fan(*line.fan).shown(line.letters or Letter.ACTIVE)).model_dump()
    return found | (_of_job(told) if line.of_job else {})


def _of_job(told: Told) -> dict[str, Any]:
    line = told.line
    found: dict[str, Any] = {
        "job_id": str(line.job_id),
        "type": line.type,
        "queue": line.queue,
        "attempt": line.attempt,
    }
    if line.items is not None:
        found["index"] = line.item
    delay = line.data.get("delay_seconds")
    if line.word == "retried" and isinstance(delay, int | float):
        found["next_attempt_at"] = (line.at + timedelta(seconds=delay)).isoformat().replace("+00:00", "Z")
    return found


def _word(told: Told) -> str:
    line = told.line
    if not line.of_job:
        return vocabulary.event_word(line.word, told.step.action if told.step is not None else None, line.code)
    if line.word == "retried" and line.data.get("reason") == REOPENED:
        return vocabulary.HAPPENINGS["created"]
    return vocabulary.HAPPENINGS[line.word]
