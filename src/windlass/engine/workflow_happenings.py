"""The ten events of workflows (Appendix B of the Open Job Spec): a projection of the trail of runs."""

from collections.abc import Mapping
from typing import Any

from windlass.core.primitives import callbacks_of
from windlass.core.step import ChildAction, JobAction
from windlass.core.workflow import Primitive
from windlass.engine.composition_events import Known, Who
from windlass.engine.live import Told

RUN_WORDS: Mapping[str, str] = {
    "started": "workflow.started",
    "completed": "workflow.completed",
    "failed": "workflow.failed",
    "timeout": "workflow.failed",
    "cancelled": "workflow.cancelled",
}
ENDS: Mapping[str, str] = {"succeeded": "completed", "failed": "failed", "timed out": "failed", "cancelled": "failed"}


def fields(told: Told, known: Known) -> tuple[str, str, dict[str, Any], dict[str, Any]] | None:
    """The type of the event, the workflow, its data, and what stands beside that; None: it is no event of the spec."""
    who = known.runs.get(told.line.run_id) if told.line.run_id is not None and not told.line.of_job else None
    if who is None:
        return None
    found = _of_workflow(told, who) if told.line.step is None else _of_part(told, known)
    if found is None:
        return None
    id_ = who.alias or str(who.run_id)
    return found[0], id_, found[1], {"workflow_id": id_, "workflow_type": who.kind, "workflow_name": who.name}


def plain_fields(told: Told) -> tuple[str, str, dict[str, Any], dict[str, Any]] | None:
    """The same for runs of workflows that are none of the spec's three: what it has a name for."""
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
    return name, id_, data, {"workflow_id": id_, "workflow_type": "dag", "workflow_name": line.workflow}


def _of_workflow(told: Told, who: Who) -> tuple[str, dict[str, Any]] | None:
    line = told.line
    if line.word == ("running" if who.parent_id is None else "pending"):
        parent = {} if who.parent_id is None else {"parent_workflow_id": str(who.parent_id)}
        return "workflow.created", parent
    type_ = RUN_WORDS.get(line.word)
    return None if type_ is None else (type_, {"timed_out": True} if line.word == "timeout" else {})


def _of_part(told: Told, known: Known) -> tuple[str, dict[str, Any]] | None:
    line, workflow = told.line, told.workflow
    assert workflow is not None
    assert line.run_id is not None
    assert line.step is not None
    callbacks = {n: word for word, n in callbacks_of(workflow).items()}
    action = workflow.steps[line.step].action
    job = known.jobs.get((line.run_id, line.step))
    data: dict[str, Any] = {"job_id": job.shown} if job is not None else {}
    if line.step in callbacks:
        kind = action.type if isinstance(action, JobAction) else ""
        fired = {"callback": callbacks[line.step], "callback_type": kind, **data}
        return ("workflow.callback_fired", fired) if line.word == "active" else None
    ended = ENDS.get(line.word)
    if ended is None:
        return None
    noun = "step" if workflow.primitive in (Primitive.CHAIN, Primitive.DAG) else "job"
    kind = action.type if isinstance(action, JobAction) else "workflow" if isinstance(action, ChildAction) else ""
    data |= {f"{noun}_index": line.step, f"{noun}_type": kind}
    if job is not None and job.started_at is not None:
        data["duration_ms"] = max(0, round((line.at - job.started_at).total_seconds() * 1000))
    if noun == "step":
        data["remaining_steps"] = len(workflow.steps) - line.step - 1
    if ended == "failed" and line.reason:
        data["error"] = {"code": "cancelled" if line.word == "cancelled" else "handler_error", "message": line.reason}
    return f"workflow.{noun}_{ended}", data
