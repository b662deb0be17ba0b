"""/runs/{run_id}/tasks: the tasks of a run, their instances, outputs and callback addresses."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from windlass.engine import hooks
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.engine.views import runs as views
from windlass.schemas.tasks import Instance, NamedTask
from windlass.schemas.workflows import Address
from windlass.web.api.shared import MAX_INT, Data, Limit, Listing, Open, RunId, plain, problems, task_named

router = APIRouter(prefix="/{run_id}/tasks", tags=["tasks"])

TaskName = Annotated[str, Path(description="The name of a task.", examples=["charge"])]


@router.get("", summary="List the tasks of a run", responses=problems(404))
async def list_(db: Open, run_id: RunId) -> Listing[NamedTask]:
    """All of them, in the order of the definition."""
    account = await inspect.account(db, run_id, answers=True)
    return Listing([views.named_task(step, account) for step in account.steps])


@router.get("/{task}", summary="Get a task of a run", responses=problems(404))
async def get(db: Open, run_id: RunId, task: TaskName) -> Data[NamedTask]:
    account = await inspect.account(db, run_id, answers=True)
    with task_named(task):
        step = account.steps[runs.step_number(account.workflow, task)]
    return Data(views.named_task(step, account))


@router.get("/{task}/instances", summary="List the instances of a task", responses=problems(404, 422))
async def instances(
    db: Open,
    run_id: RunId,
    task: TaskName,
    after: Annotated[int, Query(ge=-1, lt=MAX_INT, description="Go on after this instance.")] = -1,
    limit: Limit = 100,
) -> Listing[Instance]:
    """In order, with the result of each. Sleeps, waits and tasks that start other runs have none."""
    with task_named(task):
        found = await runs.instances(db, run_id, task, after=after, limit=limit)
    next_ = str(found[-1].item) if len(found) == limit else None
    return Listing([views.instance(row) for row in found], next_)


@router.get("/{task}/output", summary="Get what a task gave", responses=problems(404, 409))
async def output(db: Open, run_id: RunId, task: TaskName) -> Data[Any]:
    """A job's result, the body of an answer or of a callback; of a fanned-out task the list by index."""
    with task_named(task):
        return Data(plain(await runs.step_output(db, run_id, task)))


@router.get("/{task}/callback", summary="Get the address that a waiting task is called at", responses=problems(404))
async def callback(db: Open, run_id: RunId, task: TaskName) -> Data[Address]:
    """A request to this address ends the wait."""
    with task_named(task):
        return Data(Address(url=await hooks.address(db, run_id, task)))
