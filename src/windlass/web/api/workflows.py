"""/workflows: publish, list, compare, enable and disable, delete. /deployments: publish several, all or none."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import advice
from windlass.core.workflows import workflow as core
from windlass.engine import stats, workflows
from windlass.engine.database import Tenant
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.views import workflows as views
from windlass.engine.workflows import Published
from windlass.errors import Invalid, InvalidWorkflow, NotFound
from windlass.schemas.workflows import (
    Address,
    Deployment,
    Difference,
    Graph,
    ListedWorkflow,
    Preview,
    PublishedWorkflow,
    Version,
    VersionDetail,
    Workflow,
    WorkflowDetail,
)
from windlass.web.api import bodies
from windlass.web.api.shared import (
    MAX_INT,
    Data,
    Deploying,
    Limit,
    Listing,
    Name,
    Operating,
    Reading,
    cursor,
    problems,
)
from windlass.web.middleware.guard import YAML, media_type

router = APIRouter(prefix="/workflows", tags=["workflows"])
deployments_router = APIRouter(tags=["workflows"])

DOCUMENT_LIMIT = 2 * 1_048_576  # bytes, with whitespace; the definition itself may have a million
SHOWN_VERSIONS = 10
MAX_DEPLOYED = 100  # workflows in a deployment
EXAMPLE: dict[str, Any] = {
    "name": "order-processing",
    "trigger": "api",
    "tasks": {
        "charge": {
            "url": "https://myapp.com/api/charge",
            "method": "POST",
            "headers": {"Authorization": "Bearer {{trigger.body.token}}"},
            "body": {"order_id": "{{trigger.body.order_id}}"},
            "retries": 3,
            "timeout": 30000,
        },
        "send-receipt": {
            "needs": ["charge"],
            "if": "tasks.charge.status_code == 200",
            "url": "https://myapp.com/api/send-receipt",
            "method": "POST",
            "body": {"email": "{{trigger.body.email}}"},
        },
    },
}
DEFINITION = {"schema": {"$ref": "#/components/schemas/WorkflowDefinition"}, "example": EXAMPLE}
BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": DEFINITION, "application/yaml": DEFINITION}}
}
Number = Annotated[int | None, Query(ge=1, le=MAX_INT)]


@router.get("", summary="List workflows", responses=problems(422))
async def list_(
    db: Reading,
    after: Annotated[str, Query(max_length=100, description="Continue after this name.")] = "",
    limit: Limit = 50,
) -> Listing[ListedWorkflow]:
    """Return workflows, sorted by name, with statistics of their last runs."""
    page = await workflows.list_(db, after=after, limit=limit)
    numbers = await stats.of_workflows(db, [row.id for row in page.workflows])
    return Listing([views.line(row, numbers[row.id]) for row in page.workflows], page.next)


@router.post(
    "",
    summary="Create or update a workflow",
    status_code=201,
    openapi_extra=BODY,
    responses={
        200: {"model": Data[PublishedWorkflow], "description": "A workflow with this name existed."},
        **problems(402, 413, 422),
    },
)
async def publish(db: Deploying, request: Request, response: Response) -> Data[PublishedWorkflow]:
    """Publish a definition under its name: 201 for a new name, else 200. A definition that equals the live version does
    not create a new version."""
    made, shown = await _publish(db, await _document(request))
    response.status_code = 201 if made.created else 200
    return shown


@router.get("/{ref}", summary="Get a workflow", responses=problems(404))
async def get(db: Reading, name: Name) -> Data[WorkflowDetail]:
    """Return a workflow with its tasks, its latest versions, its schedule and statistics of its last runs."""
    row = await workflows.get(db, name)
    versions = await workflows.versions(db, name, limit=SHOWN_VERSIONS)
    schedule = None if isinstance(row.document["trigger"], str) else await _schedule(db, name)
    numbers = (await stats.of_workflows(db, [row.id]))[row.id]
    return Data(views.detail(row, versions.versions, schedule, numbers))


@router.put("/{ref}", summary="Replace a workflow", openapi_extra=BODY, responses=problems(402, 404, 413, 422))
async def replace(db: Deploying, name: Name, request: Request) -> Data[PublishedWorkflow]:
    """Publish a new version of an existing workflow. Live runs continue with their version."""
    document = await _document(request)
    if isinstance(document, dict) and document.setdefault("name", name) != name:
        raise Invalid(f"name is {document['name']!r}: it must be {name!r}, or be left out", field="name")
    await workflows.get(db, name)
    return (await _publish(db, document))[1]


@router.delete("/{ref}", summary="Delete a workflow", status_code=204, responses=problems(404))
async def delete(db: Deploying, name: Name) -> None:
    """Delete a workflow (soft delete): its name becomes free, and its live runs continue to their end."""
    await workflows.delete(db, name)


@router.post("/{ref}/enable", summary="Enable a workflow", responses=problems(404))
async def enable(db: Operating, name: Name) -> Data[Workflow]:
    await workflows.enable(db, name)
    return Data(views.summary(await workflows.get(db, name)))


@router.post("/{ref}/disable", summary="Disable a workflow", responses=problems(404))
async def disable(db: Operating, name: Name) -> Data[Workflow]:
    """Disable a workflow: its schedule starts no runs, and its live runs continue."""
    await workflows.enable(db, name, False)
    return Data(views.summary(await workflows.get(db, name)))


@router.get("/{ref}/versions", summary="List the versions of a workflow", responses=problems(404, 422))
async def versions(db: Reading, name: Name, before: Number = None, limit: Limit = 50) -> Listing[Version]:
    """Return the versions of a workflow, newest first."""
    page = await workflows.versions(db, name, before=before, limit=limit)
    return Listing([views.version(row) for row in page.versions], cursor(page.next))


@router.get("/{ref}/versions/{number}", summary="Get a version of a workflow", responses=problems(404, 422))
async def version(db: Reading, name: Name, number: int) -> Data[VersionDetail]:
    return Data(views.version_detail(await workflows.get(db, name, number=number)))


@router.get("/{ref}/diff", summary="Compare two versions of a workflow", responses=problems(404, 422))
async def diff(
    db: Reading, name: Name, from_: Annotated[Number, Query(alias="from")] = None, to: Number = None
) -> Data[Difference]:
    """Compare two versions, by default the live version with the one before it."""
    live = (await workflows.get(db, name)).live if from_ is None or to is None else 0
    new = to or live
    old = from_ or max(new - 1, 1)
    lines = await workflows.compare(db, name, old, new)
    return Data(Difference(from_=old, to=new, lines=lines))


@router.get("/{ref}/graph", summary="Get the graph of a workflow", responses=problems(404, 422))
async def graph(
    db: Reading, name: Name, version: Annotated[Number, Query(description="The live one if left out.")] = None
) -> Data[Graph]:
    """Return the tasks and edges of a version, without inputs, headers and secrets."""
    return Data(views.graph(parse((await workflows.get(db, name, number=version)).document)))


@router.post("/{ref}/rotate", summary="Rotate the address of a webhook", responses=problems(404, 409))
async def rotate(db: Deploying, name: Name) -> Data[Address]:
    """Give a webhook trigger a new address; the old one stops working immediately. 409 if the trigger is not a
    webhook."""
    return Data(Address(url=await workflow_schedules.address(db, await workflow_schedules.rotate(db, name))))


class Definitions(bodies.RequestBody):
    """Definitions of workflows. With `dry_run`, the changes are returned and nothing is stored."""

    workflows: list[dict[str, Any]] = Field(min_length=1, max_length=MAX_DEPLOYED)
    dry_run: bool = False


@deployments_router.post(
    "/deployments",
    summary="Publish several workflows",
    openapi_extra=bodies.described(Definitions, {"workflows": [EXAMPLE], "dry_run": True}),
    responses=problems(402, 413, 422),
)
async def deploy(db: Deploying, request: Request) -> Data[Deployment]:
    """Publish several workflows, all or none. If a definition is invalid, the errors of all are reported."""
    body = await bodies.model(request, Definitions, limit=DOCUMENT_LIMIT)
    return Data(await workflows.deploy(db, _parsed(body.workflows), dry_run=body.dry_run))


@deployments_router.post(
    "/workflows/preview",
    summary="Preview the changes of a definition",
    openapi_extra=BODY,
    responses=problems(402, 413, 422),
)
async def preview(db: Deploying, request: Request) -> Data[Preview]:
    """Check a definition as publishing would, and return the changes and the resulting graph."""
    workflow = parse(await _document(request))
    changes = await workflows.preview(db, workflow)
    missing = await workflows.missing_children(db, [workflow])
    warnings = [f"task {step} runs workflow {child}, which is not deployed" for _, step, child in missing]
    return Data(
        Preview(
            name=changes.name,
            change=changes.change,
            version=changes.number,
            lines=changes.diff,
            warnings=warnings + advice(workflow),
            graph=views.graph(workflow),
        )
    )


def _parsed(documents: list[dict[str, Any]]) -> list[core.Workflow]:
    """Parse all definitions; the path of an error begins with the index of its definition."""
    parsed, mistakes = [], []
    for n, document in enumerate(documents):
        try:
            parsed.append(parse(document))
        except InvalidWorkflow as error:
            mistakes += [(f"workflows.{n}.{path}".rstrip("."), message) for path, message in error.errors]
    if mistakes:
        raise InvalidWorkflow(mistakes)
    return parsed


async def _document(request: Request) -> Any:
    """Return the definition in a body, JSON or YAML."""
    if media_type(request.headers) in YAML:
        document = await bodies.yaml_document(request, limit=DOCUMENT_LIMIT)
    else:
        document = await bodies.value(request, limit=DOCUMENT_LIMIT)
    if not isinstance(document, dict):
        raise InvalidWorkflow([("body", "a workflow is an object with a name and tasks")])
    return document


async def _publish(db: Tenant, document: Any) -> tuple[Published, Data[PublishedWorkflow]]:
    [made] = await workflows.publish_many(db, [document])
    row = await workflows.get(db, made.name)
    address = await workflow_schedules.address(db, made.token) if made.token is not None else None
    return made, Data(views.published(row, changed=made.changed, webhook_url=address))


async def _schedule(db: Tenant, name: str) -> workflow_schedules.ScheduleRow | None:
    try:
        return await workflow_schedules.get(db, name)
    except NotFound:  # another client has just published it without a cron
        return None
