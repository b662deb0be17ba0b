"""A workflow as the Open Job Spec shows it: a superset, so that every dialect finds its fields."""

from collections.abc import Mapping
from typing import Any

from windlass.core.compositions import callbacks_of
from windlass.core.runs.run import Letter
from windlass.core.workflows.step import ChildAction, JobAction
from windlass.core.workflows.workflow import Primitive
from windlass.engine.compositions.control import Node
from windlass.engine.compositions.parent_results import Standing, StepRef
from windlass.engine.compositions.views import Listed, PartJob, View
from windlass.engine.workers.remote import Job
from windlass.web.ojs.jobs import envelope
from windlass.web.ojs.responses import instant

STATES: Mapping[str | None, str] = {
    None: "pending",  # inside another one, and not begun
    "pending": "pending",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "timeout": "failed",  # its time was over
}
TERMINAL = frozenset({"completed", "failed", "cancelled"})
STEP_STATES: Mapping[str, str] = {
    Letter.WAITING: "waiting",
    Letter.SUCCEEDED: "completed",
    Letter.FAILED: "failed",
    Letter.TIMED_OUT: "failed",
    Letter.SKIPPED: "cancelled",
}


def id_of(node: Node | Listed) -> str:
    """Return the id that its client knows it by."""
    return node.alias or str(node.run_id)


def shown(view: View) -> dict[str, Any]:
    node, kind = view.node, Primitive(view.node.kind)
    callbacks = callbacks_of(view.workflow)
    count = len(view.workflow.steps) - len(callbacks)
    parts = [_part(view, n) for n in range(count)]
    done = sum(part["state"] == "completed" for part in parts)
    state = STATES[node.state]
    times = _times(node, state)
    found: dict[str, Any] = {"id": id_of(node), "type": kind.value, "name": node.name, "state": state} | times
    if kind in (Primitive.CHAIN, Primitive.DAG):
        found |= {"steps_total": count, "steps_completed": done}
    else:
        found |= {"jobs_total": count, "jobs_completed": done, "jobs": parts}
    found["steps"] = parts
    if callbacks:
        found["callbacks"] = {word: _callback(view, n) for word, n in callbacks.items()}
    if view.around is not None:
        found["parent_workflow_id"] = id_of(view.around)
    if node.retry_of is not None:
        found["retry_of"] = node.retry_of
    counts = view.counts
    numbers = {"job_count": counts.jobs, "completed_count": counts.completed, "failed_count": counts.failed}
    return found | {"metadata": times | numbers | _errors(view, kind)}


def listed(one: Listed) -> dict[str, Any]:
    """Return a workflow as it stands in a list: without its steps and jobs."""
    state = STATES[one.state]
    times = _times(one, state)
    found: dict[str, Any] = {"id": id_of(one), "type": one.kind, "name": one.name, "state": state} | times
    if one.retry_of is not None:
        found["retry_of"] = one.retry_of
    return found | {"metadata": times | {"job_count": one.jobs}}


def cancelled(view: View) -> dict[str, Any]:
    """The answer to a cancellation says how much it came to."""
    found = shown(view)
    states = [part["state"] for part in found["steps"]]
    return found | {
        "steps_cancelled": states.count("cancelled"),
        "steps_already_completed": states.count("completed"),
    }


def step_state(view: View, n: int) -> str:
    letter = view.letters[n]
    if letter == Letter.ACTIVE:
        if (inner := view.inside.get(n)) is not None:
            return "active" if inner.node.started_at is not None else "pending"
        job = view.jobs.get(n)
        return "active" if job is not None and job.status == "leased" else "pending"
    if letter == Letter.CANCELLED:
        return "cancelled" if view.is_stopped else "failed"
    if letter == Letter.SKIPPED and view.workflow.steps[n].condition is not None and view.node.kind != "batch":
        return "skipped"
    return STEP_STATES[letter]


def handed_out(job: Job, standings: Mapping[StepRef, Standing]) -> dict[str, Any]:
    """A job as its worker gets it."""
    return within(job, envelope.shown(job, job.updated_at), standings)


def within(job: Job, shown: dict[str, Any], standings: Mapping[StepRef, Standing]) -> dict[str, Any]:
    """A job of a workflow is shown with what those before it gave, as a list and as context."""
    standing = standings.get((job.run_id, job.step)) if job.run_id is not None and job.step is not None else None
    return shown if standing is None else shown | context(standing, shown["attempt"])


def context(standing: Standing, attempt: int) -> dict[str, Any]:
    told = {
        "workflow_id": standing.workflow_id,
        "workflow_type": standing.kind.value,
        "step_index": standing.step,
        "attempt": attempt,
        "parent_results": standing.results,
    }
    if standing.callback is not None:
        told["callback"] = standing.callback
    return {"workflow_id": standing.workflow_id, "parent_results": standing.listed, "context": told}


def _part(view: View, n: int) -> dict[str, Any]:
    step = view.workflow.steps[n]
    found: dict[str, Any] = {"index": n, "id": _label(view, n), "type": "", "state": step_state(view, n)}
    if isinstance(step.action, JobAction):
        found |= {"type": step.action.type, "job_id": None, "depends_on": _needs(view, n)}
        return found | _of_job(view.jobs.get(n), found["state"])
    assert isinstance(step.action, ChildAction)
    return found | {"job_id": None, "depends_on": _needs(view, n)} | _inside(view.inside[n], found["state"])


def _inside(view: View, state: str) -> dict[str, Any]:
    """Return what the step of a workflow shows of the workflow inside it: all its steps, and why it failed."""
    node, callbacks = view.node, callbacks_of(view.workflow)
    steps = [_part(view, n) for n in range(len(view.workflow.steps) - len(callbacks))]
    found: dict[str, Any] = {"type": node.kind, "workflow_id": id_of(node), "name": node.name, "steps": steps}
    if callbacks:
        found["callbacks"] = {word: _callback(view, n) for word, n in callbacks.items()}
    if node.started_at is not None:
        found["started_at"] = instant(node.started_at)
    if node.finished_at is not None:
        found["completed_at"] = instant(node.finished_at)
    if state == "failed" and (bad := view.bad):
        found["error"] = _error(bad[0])
    return found


def _callback(view: View, n: int) -> dict[str, Any]:
    action = view.workflow.steps[n].action
    assert isinstance(action, JobAction)
    state = step_state(view, n)
    found = {"type": action.type, "state": state, "fired": n in view.jobs, "job_id": None}
    return found | _of_job(view.jobs.get(n), state)


def _of_job(job: PartJob | None, state: str) -> dict[str, Any]:
    if job is None:
        return {}
    found: dict[str, Any] = {"job_id": job.shown}
    if job.started_at is not None:
        found["started_at"] = instant(job.started_at)
    if state in ("completed", "failed") and job.status in ("succeeded", "failed", "cancelled"):
        found["completed_at"] = instant(job.updated_at)
    if job.is_cut:
        found["result_omitted"] = True
    elif job.status == "succeeded":
        found["result"] = job.value
    elif job.error is not None:
        found["error"] = envelope.error(job.error)
    return found


def _needs(view: View, n: int) -> list[str]:
    if view.node.kind not in ("chain", "dag"):
        return []
    return [_label(view, m) for m in sorted(view.workflow.plan.before(n))]


def _label(view: View, n: int) -> str:
    labels = view.node.labels or []
    return (labels[n] if n < len(labels) else None) or f"step-{n}"


def _times(node: Node | Listed, state: str) -> dict[str, str]:
    found = {"created_at": instant(node.created_at)}
    if node.started_at is not None:
        found["started_at"] = instant(node.started_at)
    if node.finished_at is not None:
        found["completed_at"] = instant(node.finished_at)
        if state == "cancelled":
            found["cancelled_at"] = instant(node.finished_at)
    return found


def _errors(view: View, kind: Primitive) -> dict[str, Any]:
    """What went wrong: in a chain at which step, in a batch which callback."""
    found: dict[str, Any] = {}
    if view.node.state == "timeout":
        found["timed_out"] = True
    if view.bad:
        found["failed_job_ids"] = [job.shown for job in view.bad]
        found["errors"] = [_error(job) for job in view.bad]
    failed = [n for n in range(len(view.letters)) if step_state(view, n) == "failed"]
    if kind in (Primitive.CHAIN, Primitive.DAG) and failed:
        found["failed_step_index"] = failed[0]
    callbacks = {n: word for word, n in callbacks_of(view.workflow).items()}
    if called := [callbacks[n] for n in failed if n in callbacks]:
        found["failed_callback"] = called[0]
        found["failed_callbacks"] = called
    return found


def _error(job: PartJob) -> dict[str, Any]:
    if job.error is not None and job.status == "failed":
        told = envelope.error(job.error)
        return {"job_id": job.shown, **told, "attempt": told.get("attempt") or job.attempts}
    code = "cancelled" if job.status == "cancelled" else "handler_error"
    message = "the job was cancelled" if job.status == "cancelled" else job.last_error or "the job failed"
    return {"job_id": job.shown, "code": code, "type": code, "message": message, "attempt": job.attempts}
