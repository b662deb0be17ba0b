"""The ten workflow events of the Open Job Spec (Appendix B), derived from the event trail of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.compositions import callbacks_of
from windlass.core.events.ojs import error_document
from windlass.core.workflows.step import ChildAction, JobAction
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine.database import Database
from windlass.engine.events.stream import Line, Told
from windlass.store.ojs import compositions as store
from windlass.store.ojs.compositions import ToldInside, ToldJob, Who
from windlass.store.steps import StepRef

RUN_WORDS: Mapping[str, str] = {
    "started": "workflow.started",
    "completed": "workflow.completed",
    "failed": "workflow.failed",
    "timeout": "workflow.failed",
    "cancelled": "workflow.cancelled",
}
ENDS: Mapping[str, str] = {"succeeded": "completed", "failed": "failed", "timed out": "failed", "cancelled": "failed"}


class Fields(NamedTuple):
    """An event of a workflow; `beside` is repeated beside the data."""

    type: str
    workflow_id: str  # the client's id
    data: dict[str, Any]
    beside: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Compositions:
    """What the events of a batch of lines need to know about compositions, their jobs and those inside them."""

    runs: Mapping[UUID, Who] = field(default_factory=dict)
    jobs: Mapping[StepRef, ToldJob] = field(default_factory=dict)
    inside: Mapping[StepRef, ToldInside] = field(default_factory=dict)


async def load_compositions(db: Database, told: Sequence[Told]) -> Compositions:
    """Return what the lines of compositions need, read for all of them at once."""
    composed = [one for one in told if one.workflow is not None and one.workflow.primitive is not None]
    runs = sorted({one.line.run_id for one in composed if one.line.run_id is not None})
    if not runs:
        return Compositions()
    steps = [one for one in composed if not one.line.of_job and one.line.step is not None]
    inside = [_place(one) for one in steps if _is_inside(one)]
    jobs = {_place(one) for one in steps}.difference(inside)
    async with db.begin() as conn:
        return Compositions(
            await store.told(conn, runs),
            await store.told_jobs(conn, sorted(jobs)) if jobs else {},
            await store.told_inside(conn, sorted(set(inside))) if inside else {},
        )


def _is_inside(told: Told) -> bool:
    """Return whether a line is about a nested composition; a step unknown to the workflow costs only its own line."""
    steps = told.workflow.steps if told.workflow is not None else ()
    step = told.line.step
    return step is not None and step < len(steps) and isinstance(steps[step].action, ChildAction)


def _place(told: Told) -> StepRef:
    assert told.line.run_id is not None
    assert told.line.step is not None
    return told.line.run_id, told.line.step


def fields(told: Told, known: Compositions) -> Fields | None:
    """Return the event for a line of a composition; None: the spec has none for it."""
    who = known.runs.get(told.line.run_id) if told.line.run_id is not None and not told.line.of_job else None
    if who is None:
        return None
    found = _of_workflow(told, who) if told.line.step is None else _of_part(told, known)
    if found is None:
        return None
    beside = {"workflow_id": who.shown, "workflow_type": who.kind, "workflow_name": who.name}
    return Fields(found[0], who.shown, found[1], beside)


def plain_fields(told: Told) -> Fields | None:
    """Return the event for a line of any other run, where the spec has one."""
    line, id_ = told.line, str(told.line.run_id)
    if line.step is None:
        name = "workflow.started" if line.word == "running" else RUN_WORDS.get(line.word)
        data: dict[str, Any] = {}
    else:
        ended = ENDS.get(line.word)
        name, data = (
            ended and f"workflow.step_{ended}",
            {"step_index": line.step, "step_id": told.step.name if told.step else None},
        )
    if name is None:
        return None
    if line.reason:
        data["reason"] = line.reason
    return Fields(name, id_, data, {"workflow_id": id_, "workflow_type": "dag", "workflow_name": line.workflow})


def _of_workflow(told: Told, who: Who) -> tuple[str, dict[str, Any]] | None:
    line = told.line
    if line.word == ("running" if who.around is None else "pending"):
        return "workflow.created", {} if who.around is None else {"parent_workflow_id": who.around}
    type_ = RUN_WORDS.get(line.word)
    return None if type_ is None else (type_, {"timed_out": True} if line.word == "timeout" else {})


def _of_part(told: Told, known: Compositions) -> tuple[str, dict[str, Any]] | None:
    line, workflow = told.line, told.workflow
    assert workflow is not None
    assert line.run_id is not None
    assert line.step is not None
    callbacks = {n: word for word, n in callbacks_of(workflow).items()}
    place = line.run_id, line.step
    if line.step in callbacks:
        return _of_callback(told, callbacks[line.step], known.jobs.get(place))
    ended = ENDS.get(line.word)
    if ended is None:
        return None
    noun = "step" if workflow.primitive in (CompositionKind.CHAIN, CompositionKind.DAG) else "job"
    inside = known.inside.get(place)
    data, started_at = _of_job(told, known.jobs.get(place)) if inside is None else _of_inside(inside)
    data |= {f"{noun}_index": line.step, f"{noun}_type": data.pop("type")}
    if started_at is not None:
        data["duration_ms"] = max(0, round((line.at - started_at).total_seconds() * 1000))
    if noun == "step":
        data["remaining_steps"] = len(workflow.steps) - line.step - 1
    error = data.pop("error")
    if ended == "failed":
        data["error"] = error if error and line.word != "cancelled" else _plain_error(line)
    return f"workflow.{noun}_{ended}", data


def _of_callback(told: Told, word: str, job: ToldJob | None) -> tuple[str, dict[str, Any]] | None:
    if told.line.word != "active":
        return None
    action = told.step.action if told.step is not None else None
    kind = action.type if isinstance(action, JobAction) else ""
    found = {"callback": word, "callback_type": kind}
    return "workflow.callback_fired", found | ({"job_id": job.shown} if job is not None else {})


def _of_job(told: Told, job: ToldJob | None) -> tuple[dict[str, Any], datetime | None]:
    action = told.step.action if told.step is not None else None
    data: dict[str, Any] = {"type": action.type if isinstance(action, JobAction) else "", "error": None}
    if job is None:
        return data, None
    error = error_document(job.error) if job.error else None
    return data | {"job_id": job.shown, "error": error}, job.started_at


def _of_inside(inside: ToldInside) -> tuple[dict[str, Any], datetime | None]:
    """Return the data of a step that is a workflow; its error is that of the failed job inside it."""
    error = {"job_id": inside.job, **error_document(inside.error)} if inside.error else None
    return {"type": inside.kind, "child_workflow_id": inside.shown, "error": error}, inside.started_at


def _plain_error(line: Line) -> dict[str, Any]:
    code = "cancelled" if line.word == "cancelled" else "handler_error"
    return {"code": code, "type": code, "message": line.reason or line.word}
