"""/deployments: publish several workflows at once, all of them or none. /workflows/preview: what publishing changes."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import Field

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import advice
from windlass.core.workflows.workflow import Workflow
from windlass.engine import deploy as deployments
from windlass.engine.views import workflows as views
from windlass.engine.workflows import control as workflows
from windlass.errors import InvalidWorkflow
from windlass.schemas.workflows import Deployment, Preview
from windlass.web.api import bodies
from windlass.web.api.dependencies import Open
from windlass.web.api.responses import Data, problems
from windlass.web.api.workflows import BODY, DOCUMENT_LIMIT, EXAMPLE, document_of

router = APIRouter(tags=["workflows"])

MAX_WORKFLOWS = 100


class Definitions(bodies.RequestBody):
    """Definitions, as for one workflow. `dry_run` tells what would change, and changes nothing."""

    workflows: list[dict[str, Any]] = Field(min_length=1, max_length=MAX_WORKFLOWS)
    dry_run: bool = False


@router.post(
    "/deployments",
    summary="Publish several workflows",
    openapi_extra=bodies.described(Definitions, {"workflows": [EXAMPLE], "dry_run": True}),
    responses=problems(413, 422),
)
async def deploy(db: Open, request: Request) -> Data[Deployment]:
    """All or none: a mistake in one leaves all as they were, and the mistakes of all are reported."""
    body = await bodies.model(request, Definitions, limit=DOCUMENT_LIMIT)
    return Data(await deployments.deploy(db, _parsed(body.workflows), dry_run=body.dry_run))


@router.post(
    "/workflows/preview", summary="See what publishing would change", openapi_extra=BODY, responses=problems(413, 422)
)
async def preview(db: Open, request: Request) -> Data[Preview]:
    """The same checks as publishing, and the graph that it would have."""
    workflow = parse(await document_of(request))
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


def _parsed(documents: list[dict[str, Any]]) -> list[Workflow]:
    """Parse all of them; the mistakes of any have the number of its definition."""
    parsed, mistakes = [], []
    for n, document in enumerate(documents):
        try:
            parsed.append(parse(document))
        except InvalidWorkflow as error:
            mistakes += [(f"workflows.{n}.{path}".rstrip("."), message) for path, message in error.errors]
    if mistakes:
        raise InvalidWorkflow(mistakes)
    return parsed
