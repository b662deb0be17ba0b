"""Pools: those that processes offer, and whether the steps of a workflow have theirs."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from windlass.core.workflows.step import CommandAction, JobAction
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.errors import InvalidWorkflow, NotFound
from windlass.store import pools as store
from windlass.store.pools import PoolRow

__all__ = ["PoolRow"]
ALIVE_WITHIN = timedelta(seconds=30)


async def offer(db: Database, pools: Iterable[tuple[str, str, int, str | None]]) -> None:
    """Record pools of this process, by name, launcher, size and image: from now on steps may name them."""
    async with db.begin() as conn:
        await store.offer(conn, pools)


async def report(db: Database, name: str, *, holder: str, problem: str | None) -> None:
    """Record which process launches the jobs of a pool, and why it cannot."""
    async with db.once() as conn:
        await store.report(conn, name, holder=holder, problem=problem)


async def list_(db: Database) -> list[PoolRow]:
    async with db.once() as conn:
        return await store.list_(conn)


async def get(db: Database, name: str) -> PoolRow:
    async with db.once() as conn:
        rows = await store.list_(conn, name=name)
    if not rows:
        raise NotFound("pool", name)
    return rows[0]


async def forget(db: Database, name: str) -> None:
    async with db.once() as conn:
        if not await store.forget(conn, name):
            raise NotFound("pool", name)


async def check_placements(db: Database, workflows: Sequence[Workflow]) -> None:
    """Raise `InvalidWorkflow` with every `runs_on` that names a pool which no process has offered."""
    placed = [
        (workflow, step.name, step.action.placement.runs_on)
        for workflow in workflows
        for step in workflow.steps
        if isinstance(step.action, CommandAction | JobAction) and not step.action.placement.is_local
    ]
    if not placed:
        return
    known = [pool.name for pool in await list_(db)]
    advice = f"the pools are {', '.join(known)}" if known else "there is none yet"
    mistakes = [
        (
            f"tasks.{step}.runs_on" if len(workflows) == 1 else f"{workflow.name}: tasks.{step}.runs_on",
            f"there is no pool {pool!r}: {advice}; a pool exists once a worker that is configured with it has started",
        )
        for workflow, step, pool in placed
        if pool not in known
    ]
    if mistakes:
        raise InvalidWorkflow(mistakes)
