"""Workflows: create, retry, list, get and cancel."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine.compositions import control as compositions
from windlass.engine.compositions import retries as composition_retries
from windlass.engine.compositions import views as composition_views
from windlass.engine.database import Database
from windlass.errors import Conflict, Duplicate, InvalidWorkflow, NotFound
from windlass.web.ojs import admission, dependencies
from windlass.web.ojs.responses import CONFLICT, DUPLICATE, NOT_FOUND, Refusal, answer, created, pagination
from windlass.web.ojs.workflows import render_workflow
from windlass.web.ojs.workflows.parse_items import id_mistake
from windlass.web.ojs.workflows.parse_workflow import Reader

WORKFLOW_CONFLICT = replace(CONFLICT, hint="Read the workflow's state: it does not allow this.")
WORKFLOW_DUPLICATE = replace(DUPLICATE, hint="Use the workflow that exists, or other ids and unique keys.")


async def create(request: Request) -> Response:
    """Create a workflow, or retry an ended one; it starts immediately."""
    body = await dependencies.body(request, limit=compositions.INPUT_LIMIT)
    db = await dependencies.db(request)
    headers: Mapping[str, str] = {}
    try:
        if "retry_of" in body:
            root = await _retry(db, body)
        else:
            composition = Reader(lambda template: compositions.given(db, template)).read(body)
            headers = await admission.make_room(request, [part.queue for part in composition.opening()])
            root = await compositions.create(db, composition)
    except Duplicate as error:
        raise _duplicate(error) from None
    except Conflict as error:
        raise Refusal(WORKFLOW_CONFLICT, str(error)) from None
    view = await composition_views.view(db, str(root))
    id_ = render_workflow.id_of(view.node)
    headers = {**created("workflows", id_), **headers}
    return answer(request, {"workflow": render_workflow.shown(view)}, status=201, headers=headers)


async def list_(request: Request) -> Response:
    """List the outermost workflows, newest first, optionally by name."""
    dependencies.check_parameters(request, "name", "limit", "offset")
    limit, offset = dependencies.page(request)
    name = request.query_params.get("name")
    db = await dependencies.db(request)
    rows, total = await composition_views.list_(db, name=name, limit=limit, offset=offset)
    shown = [render_workflow.listed(row) for row in rows]
    return answer(request, {"workflows": shown, "pagination": pagination(len(shown), total, limit, offset)})


async def get(request: Request) -> Response:
    db, id_ = await dependencies.db(request), request.path_params["id"]
    try:
        view = await composition_views.view(db, id_)
    except NotFound:
        raise _unknown(id_) from None
    return answer(request, {"workflow": render_workflow.shown(view)})


async def cancel(request: Request) -> Response:
    """Cancel the waiting jobs; running ones may finish."""
    db, id_ = await dependencies.db(request), request.path_params["id"]
    try:
        await compositions.cancel(db, id_)
    except NotFound:
        raise _unknown(id_) from None
    except Conflict as error:
        state = render_workflow.STATES[(await composition_views.view(db, id_)).node.state]
        ended = f"Workflow {id_} is already in terminal state '{state}'"
        raise Refusal(WORKFLOW_CONFLICT, ended if state in render_workflow.TERMINAL else str(error)) from None
    return answer(request, {"workflow": render_workflow.cancelled(await composition_views.view(db, id_))})


async def _retry(db: Database, body: dict[str, Any]) -> UUID:
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


ROUTES = [
    Route("/workflows", create, methods=["POST"]),
    Route("/workflows", list_, methods=["GET"]),
    Route("/workflows/{id}", get, methods=["GET"]),
    Route("/workflows/{id}", cancel, methods=["DELETE"]),
]
