"""Fills in a step handler's context: its run, workflow and step, and the results of the steps it depends on.

Concurrent lookups are coalesced into one query. One that fails does not affect the others.
"""

import asyncio
from collections.abc import Sequence

from windlass.core.jobs.job import Claimed
from windlass.effects.context import Context, Upstream
from windlass.engine.compositions import parent_results
from windlass.engine.compositions.parent_results import Standing
from windlass.engine.database import Database
from windlass.engine.runs import outputs
from windlass.engine.runs.outputs import TooMany
from windlass.errors import Unavailable
from windlass.runtime.gathering import Gathering

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0  # seconds


class Upstreams:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._standings = Gathering[Claimed, Standing](self._load_standings, most=200)
        self._outputs = Gathering[Claimed, Upstream](self._load_outputs, most=200)

    async def prepare(self, job: Claimed, context: Context, *, upstream: bool) -> None:
        """Fill in the context of a step's job. Retry while the database is unavailable: that must not fail the step."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._fill(job, context, upstream=upstream)
            except Unavailable:
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)

    async def _fill(self, job: Claimed, context: Context, *, upstream: bool) -> None:
        assert job.version_id is not None
        assert job.step is not None
        workflow = self._db.definitions.get(job.version_id) or await outputs.definition(self._db, job.version_id)
        context.run_id, context.workflow = job.run_id, workflow.name
        context.step_name, context._action = workflow.steps[job.step].name, workflow.steps[job.step].action
        context.index = 0 if job.item is None else job.item
        context.count = 1 if job.items is None else job.items
        context.workflow_id = str(job.run_id)
        if upstream and workflow.primitive is not None:
            standing = await self._standings.ask(job)
            context.workflow_id, context.parent_results = standing.workflow_id, standing.results
        elif upstream and workflow.plan.before(job.step):
            context.upstream = await self._outputs.ask(job)

    async def _load_standings(self, jobs: Sequence[Claimed]) -> Sequence[Standing | Exception]:
        """Return the workflow id and the parents' results of each of these jobs of compositions."""
        standings = await parent_results.of_jobs(self._db, jobs)
        refs = [(job.run_id, job.step) for job in jobs if job.run_id is not None and job.step is not None]
        return [standings.errors.get(ref) or standings.found[ref] for ref in refs]

    async def _load_outputs(self, jobs: Sequence[Claimed]) -> Sequence[Upstream]:
        """Return the outputs of the steps that each job's step depends on."""
        outputs_of = await outputs.of_needs(self._db, jobs)
        return [_upstream(outputs_of[job.id]) for job in jobs]


def _upstream(found: dict[str, object]) -> Upstream:
    large = {name: value.text for name, value in found.items() if isinstance(value, TooMany)}
    return Upstream({name: value for name, value in found.items() if name not in large}, large)
