"""Loads the outputs of steps and runs.

A step's output is its job's result, the body of an HTTP response or of a callback; for a fanned-out step the list by
index; for a step that ran another workflow that run's output. A run's output is that of its last step, or of its last
steps by name.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from windlass.core.expressions.scope import JsonText
from windlass.core.jobs.job import Claimed
from windlass.core.json_value import decode
from windlass.core.runs.run import Letter
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import ChildAction, HookAction, HttpAction, Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.store import hooks, steps
from windlass.store.postgres.pool import Connection
from windlass.store.steps import Result, StepRef

MOST_INSTANCES = 10_000  # of a fanned-out step, in one list; more are read page by page


class TooMany:
    """The output of a step with more instances than fit into one list."""

    def __init__(self, name: str, count: int) -> None:
        self.text = f"{name} has {count} instances, a list holds {MOST_INSTANCES} at most: read them page by page"


async def of_steps(
    conn: Connection, db: Database, wanted: Mapping[UUID, tuple[Plan, Iterable[int]]]
) -> dict[StepRef, Any]:
    """Return the outputs of these steps; null for those without one."""
    places = [(run, step) for run, (_, numbers) in wanted.items() for step in numbers]
    kinds: dict[type, list[StepRef]] = defaultdict(list)
    for place in places:
        kinds[type(_step(wanted, place).action)].append(place)
    below, called = kinds.pop(ChildAction, []), kinds.pop(HookAction, [])
    found = await _results(conn, wanted, [place for some in kinds.values() for place in some])
    if below:
        found |= await _children(conn, db, wanted, below)
    for call in await hooks.bodies(conn, called) if called else ():
        found[call.run_id, call.step] = JsonText(call.body).value
    if silent := [place for place in places if place not in found and _step(wanted, place).fan_out is not None]:
        found |= {place: [] for place in await steps.succeeded(conn, silent)}
    return {place: found.get(place) for place in places}


async def definition(db: Database, version_id: int) -> Workflow:
    async with db.once() as conn:
        return (await db.definitions.of(conn, [version_id]))[version_id]


async def of_needs(db: Database, jobs: Sequence[Claimed]) -> dict[UUID, dict[str, Any]]:
    """Return, by job id, the outputs of the steps that each job's step depends on, by step name."""
    plans: dict[UUID, Plan] = {}
    needed: dict[UUID, set[int]] = defaultdict(set)
    async with db.begin() as conn:
        known = await db.definitions.of(conn, {job.version_id for job in jobs if job.version_id is not None})
        for job in jobs:
            assert job.run_id is not None
            assert job.version_id is not None
            assert job.step is not None
            plans[job.run_id] = known[job.version_id].plan
            needed[job.run_id] |= plans[job.run_id].before(job.step)
        found = await of_steps(conn, db, {run: (plan, needed[run]) for run, plan in plans.items()})
    return {
        job.id: {plans[job.run_id].steps[n].name: found[job.run_id, n] for n in plans[job.run_id].before(job.step)}
        for job in jobs
        if job.run_id is not None and job.step is not None
    }


async def of_run(conn: Connection, db: Database, run: UUID, plan: Plan, letters: str) -> Any:
    sinks = last_steps(plan)
    done = [n for n in sinks if letters[n] == Letter.SUCCEEDED]
    found = await of_steps(conn, db, {run: (plan, done)})
    if len(sinks) == 1:
        return found.get((run, sinks[0]))
    return {plan.steps[n].name: found[run, n] for n in done}


def last_steps(plan: Plan) -> list[int]:
    """Return the steps that nothing follows; the final step does not count unless it is the only one."""
    sinks = [n for n, children in enumerate(plan.children) if not children and n != plan.final]
    return sinks or [n for n in (plan.final,) if n is not None]


async def _results(
    conn: Connection, wanted: Mapping[UUID, tuple[Plan, Iterable[int]]], places: Sequence[StepRef]
) -> dict[StepRef, Any]:
    if not places:
        return {}
    rows: dict[StepRef, list[Result]] = defaultdict(list)
    for row in await steps.results(conn, places, most=MOST_INSTANCES):
        rows[row.run_id, row.step].append(row)
    return {place: _output(_step(wanted, place), found) for place, found in rows.items()}


def _output(step: Step, rows: Sequence[Result]) -> Any:
    count = rows[0].items
    if count is not None and count > MOST_INSTANCES:
        return TooMany(step.name, count)
    values = [decode(row.result) for row in rows]
    if isinstance(step.action, HttpAction):
        values = [JsonText(value["body"]).value if value else None for value in values]
    return values[0] if count is None else by_index(count, rows, values)


def by_index(count: int, rows: Sequence[Result], values: Sequence[Any]) -> list[Any]:
    """Return the list of a fanned-out step; null for an instance without a job, whose templates had no value."""
    if len(rows) == count:
        return list(values)
    known = {row.item: value for row, value in zip(rows, values, strict=True)}
    return [known.get(n) for n in range(count)]


async def _children(
    conn: Connection, db: Database, wanted: Mapping[UUID, tuple[Plan, Iterable[int]]], places: Sequence[StepRef]
) -> dict[StepRef, Any]:
    rows: dict[StepRef, list[Any]] = defaultdict(list)
    below = await steps.children(conn, [(*place, _step(wanted, place).fan_out is not None) for place in places])
    known = await db.definitions.of(conn, {child.version_id for child in below})
    for child in below:
        plan = known[child.version_id].plan
        rows[child.parent_id, child.step].append(await of_run(conn, db, child.id, plan, child.letters))
    return {
        place: outputs if _step(wanted, place).fan_out is not None else outputs[0] for place, outputs in rows.items()
    }


def _step(wanted: Mapping[UUID, tuple[Plan, Iterable[int]]], place: StepRef) -> Step:
    run, number = place
    return wanted[run][0].steps[number]
