"""/workflows/preview: what publishing a definition would change. Nothing is published."""

from typing import Any

from fastapi import APIRouter, Request
from pydantic import ConfigDict, Field

from windlass.core.definition.parser import parse
from windlass.core.definition.publish import advice
from windlass.engine.workflows import control as workflows
from windlass.engine.workflows.control import Change
from windlass.web.api.graphs import Graph, graph_of
from windlass.web.api.request.dependencies import Open
from windlass.web.api.schemas.common import Data, Shown, told
from windlass.web.api.workflows import BODY, document_of

router = APIRouter(prefix="/workflows", tags=["workflows"])
EXAMPLE: dict[str, Any] = {"name": "order-processing", "change": "changed", "version": 2}
EXAMPLE |= {"lines": ["@@ tasks.charge @@", '-  "timeout": "30s"', '+  "timeout": "1m"'], "warnings": []}
EXAMPLE |= {"graph": {"workflow": "order-processing", "tasks": [], "edges": []}}


class Preview(Shown):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: str
    change: Change
    version: int = Field(description="That would be live.")
    lines: list[str] = Field(description="`@@ where @@`, then lines that begin with a blank, - or +.")
    warnings: list[str]
    graph: Graph


@router.post("/preview", summary="See what publishing would change", openapi_extra=BODY, responses=told(413, 422))
async def preview(db: Open, request: Request) -> Data[Preview]:
    """The same checks as publishing, and the graph that it would have."""
    workflow = parse(await document_of(request))
    found = await workflows.preview(db, workflow)
    missing = await workflows.missing_children(db, [workflow])
    shown = Preview(
        name=found.name,
        change=found.change,
        version=found.number,
        lines=found.diff,
        warnings=[f"task {step} runs workflow {child}, which is not deployed" for _, step, child in missing]
        + advice(workflow),
        graph=graph_of(workflow),
    )
    return Data[Preview](data=shown)
