"""/deployments: publish several workflows at once, all of them or none. /workflows/{ref}/rotate: another address."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import advice
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.workflows import control as workflows
from windlass.engine.workflows.control import Change, Published
from windlass.errors import InvalidWorkflow
from windlass.web.api.request import bodies
from windlass.web.api.request.dependencies import Name, Open
from windlass.web.api.schemas.common import WORKFLOW_ID, Data, Shown, told
from windlass.web.api.workflows import DOCUMENT_LIMIT, EXAMPLE

router = APIRouter(tags=["workflows"])

MOST = 100
SHOWN: dict[str, Any] = {"name": "order-processing", "workflow_id": WORKFLOW_ID, "version": 1, "change": "new"}
SHOWN |= {"webhook_url": None, "lines": []}


class Wanted(bodies.Asked):
    """Definitions, as for one workflow. `dry_run` tells what would change, and changes nothing."""

    workflows: list[dict[str, Any]] = Field(min_length=1, max_length=MOST)
    dry_run: bool = False


class Deployed(Shown):
    """What became of one. The address of a webhook is told once, when it is made."""

    name: str
    workflow_id: str | None = Field(description="Null for one that a dry run would make.")
    version: int
    change: Change
    webhook_url: str | None
    lines: list[str] = Field(description="Of a dry run: what would change.")


class Deployment(Shown):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"dry_run": False, "workflows": [SHOWN], "warnings": []}]}
    )

    dry_run: bool
    workflows: list[Deployed]
    warnings: list[str] = Field(description="What is sound, and will not work yet.")


class Address(Shown):
    """Where requests start runs. It is told once."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"url": "https://windlass.example.com/in/8f14e45f"}]})

    url: str


@router.post(
    "/deployments",
    summary="Publish several workflows",
    openapi_extra=bodies.described(Wanted, {"workflows": [EXAMPLE], "dry_run": True}),
    responses=told(413, 422),
)
async def deploy(db: Open, request: Request) -> Data[Deployment]:
    """All or none: a mistake in one leaves all as they were, and the mistakes of all are told."""
    asked = await bodies.model(request, Wanted, limit=DOCUMENT_LIMIT)
    found = _parsed(asked.workflows)
    if asked.dry_run:
        done = [
            Deployed(
                name=one.name,
                workflow_id=None,
                version=one.number,
                change=one.change,
                webhook_url=None,
                lines=one.diff,
            )
            for one in await workflows.preview_many(db, found)
        ]
    else:
        done = [await _deployed(db, one) for one in await workflows.publish_many(db, found)]
    missing = await workflows.missing_children(db, found)
    warnings = [f"step {step} of {name} runs workflow {child}, which is not deployed" for name, step, child in missing]
    warnings += [warning for workflow in found for warning in advice(workflow)]
    return Data[Deployment](data=Deployment(dry_run=asked.dry_run, workflows=done, warnings=warnings))


@router.post("/workflows/{ref}/rotate", summary="Give a webhook another address", responses=told(404, 409))
async def rotate(db: Open, name: Name) -> Data[Address]:
    """The old address stops working at once. 409 if its trigger is no webhook."""
    return Data[Address](
        data=Address(url=await workflow_schedules.address(db, await workflow_schedules.rotate(db, name)))
    )


def _parsed(documents: list[dict[str, Any]]) -> list[Workflow]:
    """All of them, or every mistake in any, with the number of its definition."""
    found, mistakes = [], []
    for n, document in enumerate(documents):
        try:
            found.append(parse(document))
        except InvalidWorkflow as error:
            mistakes += [(f"workflows.{n}.{path}".rstrip("."), message) for path, message in error.errors]
    if mistakes:
        raise InvalidWorkflow(mistakes)
    return found


async def _deployed(db: Database, one: Published) -> Deployed:
    return Deployed(
        name=one.name,
        workflow_id=str(one.workflow_id),
        version=one.number,
        change=Change.NEW if one.created else Change.CHANGED if one.changed else Change.UNCHANGED,
        webhook_url=await workflow_schedules.address(db, one.token) if one.token is not None else None,
        lines=[],
    )
