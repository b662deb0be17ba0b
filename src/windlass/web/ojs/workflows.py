"""Workflows (chain, group, batch): create, retry, list, get and cancel; and how they are rendered."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from windlass.core.compositions import callbacks_of
from windlass.core.orgs import Scope
from windlass.core.runs.run import Letter
from windlass.core.workflows.step import ChildAction, JobAction
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine.compositions import control as compositions
from windlass.engine.compositions import retries as composition_retries
from windlass.engine.compositions import views as composition_views
from windlass.engine.compositions.control import Node
from windlass.engine.compositions.views import Listed, PartJob, View
from windlass.engine.database import Tenant
from windlass.errors import Conflict, Duplicate, InvalidWorkflow, NotFound
from windlass.web.ojs import admission, dependencies, envelope
from windlass.web.ojs.parse_workflow import Reader, id_mistake
from windlass.web.ojs.responses import CONFLICT, DUPLICATE, NOT_FOUND, Refusal, answer, created, instant, pagination
from windlass.web.ojs.routing import Route

WORKFLOW_CONFLICT = replace(CONFLICT, hint="Read the workflow's state: it does not allow this.")
WORKFLOW_DUPLICATE = replace(DUPLICATE, hint="Use the workflow that exists, or other ids and unique keys.")
STATES: Mapping[str | None, str] = {
    None: "pending",  # nested, and not started
    "pending": "pending",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
    "timeout": "failed",
}
TERMINAL = frozenset({"completed", "failed", "cancelled"})
STEP_STATES: Mapping[str, str] = {
    Letter.WAITING: "waiting",
    Letter.SUCCEEDED: "completed",
    Letter.FAILED: "failed",
    Letter.TIMED_OUT: "failed",
    Letter.SKIPPED: "cancelled",
}


async def create(request: Request) -> Response:
    """Create a workflow, or retry an ended one; it starts immediately."""
    body = await dependencies.body(request, limit=compositions.INPUT_LIMIT)
    db = await dependencies.db(request)
    headers: Mapping[str, str] = {}
    try:
        if "retry_of" in body:
            root = await _retry(db, body)
        else:
            composition = Reader(lambda template: compositions.job_columns(db, template)).read(body)
            headers = await admission.make_room(request, [part.queue for part in composition.initial_jobs()])
            root = await compositions.create(db, composition)
    except Duplicate as error:
        raise _duplicate(error) from None
    except Conflict as error:
        raise Refusal(WORKFLOW_CONFLICT, str(error)) from None
    view = await composition_views.view(db, str(root))
    id_ = _id_of(view.node)
    headers = {**created("workflows", id_), **headers}
    return answer(request, {"workflow": _shown(view)}, status=201, headers=headers)


async def list_(request: Request) -> Response:
    """List the outermost workflows, newest first, optionally by name."""
    dependencies.check_parameters(request, "name", "limit", "offset")
    limit, offset = dependencies.page(request)
    name = request.query_params.get("name")
    db = await dependencies.db(request)
    rows, total = await composition_views.list_(db, name=name, limit=limit, offset=offset)
    shown = [_listed(row) for row in rows]
    return answer(request, {"workflows": shown, "pagination": pagination(len(shown), total, limit, offset)})


async def get(request: Request) -> Response:
    db, id_ = await dependencies.db(request), request.path_params["id"]
    try:
        view = await composition_views.view(db, id_)
    except NotFound:
        raise _unknown(id_) from None
    return answer(request, {"workflow": _shown(view)})


async def cancel(request: Request) -> Response:
    """Cancel a workflow: waiting jobs are cancelled, running jobs may finish."""
    db, id_ = await dependencies.db(request), request.path_params["id"]
    try:
        await compositions.cancel(db, id_)
    except NotFound:
        raise _unknown(id_) from None
    except Conflict as error:
        state = STATES[(await composition_views.view(db, id_)).node.state]
        ended = f"Workflow {id_} is already in terminal state '{state}'"
        raise Refusal(WORKFLOW_CONFLICT, ended if state in TERMINAL else str(error)) from None
    return answer(request, {"workflow": _cancelled(await composition_views.view(db, id_))})


async def _retry(db: Tenant, body: dict[str, Any]) -> UUID:
    """Retry an ended workflow. The request may have no other fields than `retry_of` and the new `id`."""
    wrong = [(f"$.{name}", "not allowed with retry_of") for name in body if name not in ("retry_of", "id")]
    for name in ("retry_of", "id"):
        value = body.get(name)
        if (name in body) and not (isinstance(value, str) and 0 < len(value) <= compositions.MAX_ID):
            wrong.append((f"$.{name}", f"{name} must be a string"))
    if body.get("id") is not None and (mistake := id_mistake(body["id"])):
        wrong.append(("$.id", mistake))
    if wrong:
        raise InvalidWorkflow(wrong)
    try:
        return await composition_retries.retry(db, body["retry_of"], as_=body.get("id"))
    except NotFound:
        raise _unknown(body["retry_of"]) from None


def _duplicate(error: Duplicate) -> Refusal:
    if isinstance(error.existing, UUID):  # of a job with the same id or unique key
        return Refusal(DUPLICATE, str(error), details={"existing_job_id": str(error.existing)})
    return Refusal(WORKFLOW_DUPLICATE, str(error))


def _unknown(id_: str) -> Refusal:
    return Refusal(NOT_FOUND, f"Workflow {id_[: compositions.MAX_ID]} not found")


# Rendering: the union of the fields that the dialects of clients expect


def _id_of(node: Node | Listed) -> str:
    """Return the client's id of the workflow, or its run id."""
    return node.alias or str(node.run_id)


def _shown(view: View) -> dict[str, Any]:
    node, kind = view.node, CompositionKind(view.node.kind)
    callbacks = callbacks_of(view.workflow)
    count = len(view.workflow.steps) - len(callbacks)
    parts = [_part(view, n) for n in range(count)]
    done = sum(part["state"] == "completed" for part in parts)
    state = STATES[node.state]
    times = _times(node, state)
    fields: dict[str, Any] = {"id": _id_of(node), "type": kind.value, "name": node.name, "state": state} | times
    if kind in (CompositionKind.CHAIN, CompositionKind.DAG):
        fields |= {"steps_total": count, "steps_completed": done}
    else:
        fields |= {"jobs_total": count, "jobs_completed": done, "jobs": parts}
    fields["steps"] = parts
    if callbacks:
        fields["callbacks"] = {name: _callback(view, n) for name, n in callbacks.items()}
    if view.around is not None:
        fields["parent_workflow_id"] = _id_of(view.around)
    if node.retry_of is not None:
        fields["retry_of"] = node.retry_of
    counts = view.counts
    numbers = {"job_count": counts.jobs, "completed_count": counts.completed, "failed_count": counts.failed}
    return fields | {"metadata": times | numbers | _errors(view, kind)}


def _listed(row: Listed) -> dict[str, Any]:
    """Return a workflow for a list: without its steps and jobs."""
    state = STATES[row.state]
    times = _times(row, state)
    fields: dict[str, Any] = {"id": _id_of(row), "type": row.kind, "name": row.name, "state": state} | times
    if row.retry_of is not None:
        fields["retry_of"] = row.retry_of
    return fields | {"metadata": times | {"job_count": row.jobs}}


def _cancelled(view: View) -> dict[str, Any]:
    """Return a cancelled workflow with the numbers of its cancelled and completed steps."""
    fields = _shown(view)
    states = [part["state"] for part in fields["steps"]]
    counts = {"steps_cancelled": states.count("cancelled"), "steps_already_completed": states.count("completed")}
    return fields | counts


def _step_state(view: View, n: int) -> str:
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


def _part(view: View, n: int) -> dict[str, Any]:
    step = view.workflow.steps[n]
    fields: dict[str, Any] = {"index": n, "id": _label(view, n), "type": "", "state": _step_state(view, n)}
    if isinstance(step.action, JobAction):
        fields |= {"type": step.action.type, "job_id": None, "depends_on": _needs(view, n)}
        return fields | _of_job(view.jobs.get(n), fields["state"])
    assert isinstance(step.action, ChildAction)
    return fields | {"job_id": None, "depends_on": _needs(view, n)} | _inside(view.inside[n], fields["state"])


def _inside(view: View, state: str) -> dict[str, Any]:
    """Return the fields of a nested workflow for its step: all its steps, and the first error if it failed."""
    node, callbacks = view.node, callbacks_of(view.workflow)
    steps = [_part(view, n) for n in range(len(view.workflow.steps) - len(callbacks))]
    fields: dict[str, Any] = {"type": node.kind, "workflow_id": _id_of(node), "name": node.name, "steps": steps}
    if callbacks:
        fields["callbacks"] = {name: _callback(view, n) for name, n in callbacks.items()}
    fields |= _span(node)
    if state == "failed" and (bad := view.bad):
        fields["error"] = _error(bad[0])
    return fields


def _callback(view: View, n: int) -> dict[str, Any]:
    action = view.workflow.steps[n].action
    assert isinstance(action, JobAction)
    state = _step_state(view, n)
    fields = {"type": action.type, "state": state, "fired": n in view.jobs, "job_id": None}
    return fields | _of_job(view.jobs.get(n), state)


def _of_job(job: PartJob | None, state: str) -> dict[str, Any]:
    if job is None:
        return {}
    fields: dict[str, Any] = {"job_id": job.client_id}
    if job.started_at is not None:
        fields["started_at"] = instant(job.started_at)
    if state in ("completed", "failed") and job.status in ("succeeded", "failed", "cancelled"):
        fields["completed_at"] = instant(job.updated_at)
    if job.is_cut:
        fields["result_omitted"] = True
    elif job.status == "succeeded":
        fields["result"] = job.value
    elif job.error is not None:
        fields["error"] = envelope.error(job.error)
    return fields


def _needs(view: View, n: int) -> list[str]:
    if view.node.kind not in ("chain", "dag"):
        return []
    return [_label(view, m) for m in sorted(view.workflow.plan.before(n))]


def _label(view: View, n: int) -> str:
    labels = view.node.labels or []
    return (labels[n] if n < len(labels) else None) or f"step-{n}"


def _times(node: Node | Listed, state: str) -> dict[str, str]:
    fields = {"created_at": instant(node.created_at), **_span(node)}
    if node.finished_at is not None and state == "cancelled":
        fields["cancelled_at"] = instant(node.finished_at)
    return fields


def _span(node: Node | Listed) -> dict[str, str]:
    times = (("started_at", node.started_at), ("completed_at", node.finished_at))
    return {name: instant(at) for name, at in times if at is not None}


def _errors(view: View, kind: CompositionKind) -> dict[str, Any]:
    """Return the errors, the failed step of a chain or DAG, and the failed callbacks of a batch."""
    fields: dict[str, Any] = {}
    if view.node.state == "timeout":
        fields["timed_out"] = True
    if view.bad:
        fields["failed_job_ids"] = [job.client_id for job in view.bad]
        fields["errors"] = [_error(job) for job in view.bad]
    failed = [n for n in range(len(view.letters)) if _step_state(view, n) == "failed"]
    if kind in (CompositionKind.CHAIN, CompositionKind.DAG) and failed:
        fields["failed_step_index"] = failed[0]
    callbacks = {n: word for word, n in callbacks_of(view.workflow).items()}
    if called := [callbacks[n] for n in failed if n in callbacks]:
        fields["failed_callback"] = called[0]
        fields["failed_callbacks"] = called
    return fields


def _error(job: PartJob) -> dict[str, Any]:
    if job.error is not None and job.status == "failed":
        error = envelope.error(job.error)
        return {"job_id": job.client_id, **error, "attempt": error.get("attempt") or job.attempts}
    code = "cancelled" if job.status == "cancelled" else "handler_error"
    message = "the job was cancelled" if job.status == "cancelled" else job.last_error or "the job failed"
    return {"job_id": job.client_id, "code": code, "type": code, "message": message, "attempt": job.attempts}


ROUTES = [
    Route("/workflows", create, methods=["POST"], needs=Scope.START),
    Route("/workflows", list_, methods=["GET"], needs=Scope.READ),
    Route("/workflows/{id}", get, methods=["GET"], needs=Scope.READ),
    Route("/workflows/{id}", cancel, methods=["DELETE"], needs=Scope.OPERATE),
]
