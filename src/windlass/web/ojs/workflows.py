"""Workflows: create, look, cancel."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from windlass.engine import composition_retries, composition_views, compositions
from windlass.engine.unit import Unit
from windlass.errors import Conflict, Duplicate, InvalidWorkflow, NotFound
from windlass.web.ojs import bodies, composed, given
from windlass.web.ojs.admission import make_room
from windlass.web.ojs.answers import answer, created
from windlass.web.ojs.composing import Reader
from windlass.web.ojs.composing_items import id_mistake
from windlass.web.ojs.errors import CONFLICT, DUPLICATE, NOT_FOUND, Refusal
from windlass.web.ojs.paging import pagination

WORKFLOW_CONFLICT = replace(CONFLICT, hint="Read the workflow's state: it does not allow this.")
WORKFLOW_DUPLICATE = replace(DUPLICATE, hint="Use the workflow that exists, or other ids and unique keys.")


async def create(request: Request) -> Response:
    """Create a workflow, which begins at once."""
    body = await bodies.object_(request, limit=compositions.INPUT_LIMIT)
    unit = await given.unit(request)
    headers: Mapping[str, str] = {}
    try:
        if "retry_of" in body:
            root = await _again(unit, body)
        else:
            composition = Reader(lambda template: compositions.given(unit, template)).read(body)
            headers = await make_room(request, [part.queue for part in composition.opening()])
            root = await compositions.create(unit, composition)
    except Duplicate as error:
        raise _duplicate(error) from None
    except Conflict as error:
        raise Refusal(WORKFLOW_CONFLICT, str(error)) from None
    view = await composition_views.view(unit, str(root))
    id_ = composed.id_of(view.node)
    headers = {**created("workflows", id_), **headers}
    return answer(request, {"workflow": composed.shown(view)}, status=201, headers=headers)


async def list_(request: Request) -> Response:
    """List the outermost workflows, the latest first; `name` keeps those of that name."""
    given.only(request, "name", "limit", "offset")
    limit, offset = given.page(request)
    name = request.query_params.get("name")
    found, total = await composition_views.list_(await given.unit(request), name=name, limit=limit, offset=offset)
    shown = [composed.listed(one) for one in found]
    return answer(request, {"workflows": shown, "pagination": pagination(len(shown), total, limit, offset)})


async def get(request: Request) -> Response:
    unit, id_ = await given.unit(request), request.path_params["id"]
    try:
        view = await composition_views.view(unit, id_)
    except NotFound:
        raise _unknown(id_) from None
    return answer(request, {"workflow": composed.shown(view)})


async def cancel(request: Request) -> Response:
    """What waits is cancelled at once; jobs that are worked on may finish."""
    unit, id_ = await given.unit(request), request.path_params["id"]
    try:
        await compositions.cancel(unit, id_)
    except NotFound:
        raise _unknown(id_) from None
    except Conflict as error:
        state = composed.STATES[(await composition_views.view(unit, id_)).node.state]
        over = f"Workflow {id_} is already in terminal state '{state}'"
        raise Refusal(WORKFLOW_CONFLICT, over if state in composed.TERMINAL else str(error)) from None
    return answer(request, {"workflow": composed.cancelled(await composition_views.view(unit, id_))})


async def _again(unit: Unit, body: dict[str, Any]) -> UUID:
    """Another try at a workflow that ended; nothing else is to be said about it."""
    wrong = [(f"$.{name}", "it does not go with retry_of") for name in body if name not in ("retry_of", "id")]
    for name in ("retry_of", "id"):
        value = body.get(name)
        if (name in body) and not (isinstance(value, str) and 0 < len(value) <= compositions.MAX_ID):
            wrong.append((f"$.{name}", f"{name} must be a string"))
    if body.get("id") is not None and (mistake := id_mistake(body["id"])):
        wrong.append(("$.id", mistake))
    if wrong:
        raise InvalidWorkflow(wrong)
    try:
        return await composition_retries.retry(unit, body["retry_of"], as_=body.get("id"))
    except NotFound:
        raise _unknown(body["retry_of"]) from None


def _duplicate(error: Duplicate) -> Refusal:
    if isinstance(error.existing, UUID):  # a job's id or unique key
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
