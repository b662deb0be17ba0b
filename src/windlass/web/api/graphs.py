"""What pictures are drawn from: the steps and edges of a version, when the tasks of a run did what, who may be called.

Shapes, not definitions: a graph says nothing about inputs, headers or secrets.
"""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import ConfigDict, Field

from windlass.core.definition.parser import parse
from windlass.core.diagrams.labels import conditions, doing, lines
from windlass.core.explain.timeline import SpanKind
from windlass.core.workflows.step import Condition, Join, Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine import hooks
from windlass.engine.runs import control as runs
from windlass.engine.runs import timelines
from windlass.engine.workflows import control as workflows
from windlass.web.api.request.dependencies import Name, Open, RunAttempt, RunId, naming_a_task
from windlass.web.api.request.paging import MAX_INT
from windlass.web.api.schemas.common import Data, Listing, Shown, told
from windlass.web.api.tasks import TaskName
from windlass.web.api.vocabulary import TYPES

router = APIRouter(prefix="/{run_id}", tags=["runs"])  # of a run
of_workflow = APIRouter(prefix="/workflows/{ref}", tags=["workflows"])

Number = Annotated[int | None, Query(ge=1, le=MAX_INT, description="The live one if left out.")]
NODE: dict[str, Any] = {"name": "charge", "type": "http", "does": "POST https://myapp.com/api/charge", "remarks": []}
NODE |= {"fan_out": False, "final": False, "join": "all", "if": None, "child": None}


class Node(Shown):
    name: str
    type: str
    does: str
    remarks: list[str] = Field(description="Its `if`, how many copies, and the like, in words.")
    fan_out: bool
    final: bool
    join: Join
    if_: str | None = Field(default=None, alias="if", description="The condition on which it runs, as written.")
    child: str | None = Field(description="The workflow that it runs.")


class Arrow(Shown):
    from_: str = Field(alias="from")
    to: str
    on: Condition
    if_: str | None = Field(default=None, alias="if", description="The `if` of the task that it leads to.")


class Graph(Shown):
    """The tasks in the order of the definition, and what leads to what."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"workflow": "order-processing", "tasks": [NODE], "edges": []}]}
    )

    workflow: str
    tasks: list[Node]
    edges: list[Arrow]


class Span(Shown):
    """No end: it goes on."""

    task: str
    kind: SpanKind
    attempt: int | None
    began_at: datetime
    ended_at: datetime | None
    failed: bool = Field(description="What was begun came to nothing.")


class Callback(Shown):
    """Whoever has this address can end the wait."""

    url: str


@of_workflow.get("/graph", summary="Get the graph of a workflow", responses=told(404, 422))
async def graph(db: Open, name: Name, version: Number = None) -> Data[Graph]:
    """Tasks and edges of a version."""
    return Data[Graph](data=graph_of(parse((await workflows.get(db, name, number=version)).document)))


@router.get("/graph", summary="Get the graph of a run", responses=told(404))
async def graph_of_run(db: Open, run_id: RunId) -> Data[Graph]:
    """Tasks and edges of the version that it runs, whatever became of the workflow since."""
    return Data[Graph](data=graph_of(await runs.definition(db, run_id)))


@router.get("/timeline", summary="See when the tasks of a run did what", responses=told(404, 422))
async def timeline(db: Open, run_id: RunId, attempt: RunAttempt = None) -> Listing[Span]:
    """In the order of the definition: queued, running, backoff, sleeping, waiting; a fanned-out task as one span."""
    account, found = await timelines.of_run(db, run_id, attempt=attempt)
    names = [step.step.name for step in account.steps]
    spans = [
        Span(
            task=names[span.step],
            kind=span.kind,
            attempt=span.attempt,
            began_at=span.began_at,
            ended_at=span.ended_at,
            failed=span.failed,
        )
        for span in found
    ]
    return Listing[Span](data=spans)


@router.get("/tasks/{task}/callback", summary="Get where a task waits to be called", responses=told(404))
async def callback(db: Open, run_id: RunId, task: TaskName) -> Data[Callback]:
    with naming_a_task():
        return Data[Callback](data=Callback(url=await hooks.address(db, run_id, task)))


def graph_of(workflow: Workflow) -> Graph:
    names = [step.name for step in workflow.steps]
    arrows = [
        Arrow.model_validate(
            {
                "from": names[line.parent],
                "to": names[line.child],
                "on": line.condition,
                "if": workflow.steps[line.child].condition,
            }
        )
        for line in lines(workflow)
    ]
    return Graph(workflow=workflow.name, tasks=[_node(step) for step in workflow.steps], edges=arrows)


def _node(step: Step) -> Node:
    return Node(
        name=step.name,
        type=TYPES[type(step.action)],
        does=doing(step.action),
        remarks=conditions(step),
        fan_out=step.fan_out is not None,
        final=step.final,
        join=step.join,
        **{"if": step.condition},
        child=getattr(step.action, "workflow", None),
    )
