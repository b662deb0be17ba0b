"""/runs/{run_id}/tasks: what became of each task, its instances and its output."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.web.api.outputs import plain
from windlass.web.api.request.dependencies import Open, RunId, naming_a_task
from windlass.web.api.request.paging import MAX_INT, Limit
from windlass.web.api.schemas import tasks as schemas
from windlass.web.api.schemas.common import Data, Listing, told
from windlass.web.api.schemas.tasks import Instance, NamedTask

router = APIRouter(prefix="/{run_id}/tasks", tags=["tasks"])

TaskName = Annotated[str, Path(description="The name of a task.", examples=["charge"])]


@router.get("", summary="List the tasks of a run", responses=told(404))
async def list_(db: Open, run_id: RunId) -> Listing[NamedTask]:
    """All of them, in the order of the definition."""
    account = await inspect.account(db, run_id, answers=True)
    return Listing[NamedTask](data=[schemas.named_task(step, account) for step in account.steps])


@router.get("/{task}", summary="Get a task of a run", responses=told(404))
async def get(db: Open, run_id: RunId, task: TaskName) -> Data[NamedTask]:
    account = await inspect.account(db, run_id, answers=True)
    with naming_a_task():
        step = account.steps[runs.step_number(account.workflow, task)]
    return Data[NamedTask](data=schemas.named_task(step, account))


@router.get("/{task}/instances", summary="List the instances of a task", responses=told(404, 422))
async def instances(
    db: Open,
    run_id: RunId,
    task: TaskName,
    after: Annotated[int, Query(ge=-1, lt=MAX_INT, description="Go on after this instance.")] = -1,
    limit: Limit = 100,
) -> Listing[Instance]:
    """In order, with the result of each. Sleeps, waits and tasks that start other runs have none."""
    with naming_a_task():
        found = await runs.instances(db, run_id, task, after=after, limit=limit)
    next_ = str(found[-1].item) if len(found) == limit else None
    return Listing[Instance](data=[schemas.instance(row) for row in found], next=next_)


@router.get("/{task}/output", summary="Get what a task gave", responses=told(404, 409))
async def output(db: Open, run_id: RunId, task: TaskName) -> Data[Any]:
    """A job's result, the body of an answer or of a callback; of a fanned-out task the list by index."""
    with naming_a_task():
        return Data[Any](data=plain(await runs.step_output(db, run_id, task)))
