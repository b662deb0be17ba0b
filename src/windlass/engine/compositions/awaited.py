"""Starts runs that a handler waits for: runs of a workflow, or of a single job, as a chain with one step.

Each call in a handler starts one run, even if later attempts repeat it: the run's key, or its id, is derived from the
job and the call. When the run ends, `runs.save` publishes an event with the run's id as its key, and the handler waits
for that event as for any message.
"""

from typing import Any
from uuid import UUID, uuid5

from windlass.core.compositions import Composition, Part
from windlass.core.jobs.job import Claimed
from windlass.core.jobs.spec import JobSpec, JobTemplate
from windlass.core.runs.run import LIVE, RunResult, RunState
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Database
from windlass.engine.runs import control as runs
from windlass.engine.runs import start as run_start
from windlass.engine.runs.children import MAX_DEPTH
from windlass.engine.runs.start import RunSpec
from windlass.errors import Duplicate, Invalid, NotFound
from windlass.store.messages import waiters


async def start(db: Database, job: Claimed, key: str, workflow: str, input_: Any) -> UUID:
    """Start a run, or return the one that was started with this key before."""
    tenant = db.tenant(job.org, actor=f"job:{job.id}")
    spec = RunSpec(input=input_, idempotency_key=f"job/{job.id}/{key}", depth=await _depth_below(db, job))
    [id_] = await run_start.start(tenant, workflow, [spec])
    return id_


async def submit(db: Database, job: Claimed, key: str, spec: JobSpec) -> UUID:
    """Start the run of a single job, or return the one that was started with this key before."""
    tenant = db.tenant(job.org, actor=f"job:{job.id}")
    await _depth_below(db, job)
    id_ = uuid5(job.id, key)
    part = Part(type=spec.type, queue=spec.queue, fields=compositions.job_columns(tenant, JobTemplate(spec)))
    chain = Composition(kind=CompositionKind.CHAIN, parts=(part,), name=spec.type, id=str(id_))
    try:
        return await compositions.create(tenant, chain)
    except Duplicate:
        return id_


async def watch(db: Database, job: Claimed, run: UUID) -> RunResult | None:
    """Register the handler of a job as waiting for a run; return the run's result if it has already ended."""
    async with db.once() as conn:
        state = await waiters.await_run(conn, run, job.id, org=job.org)
    if state is None:
        raise NotFound("run", run)
    return None if RunState(state) in LIVE else await result(db, job, run)


async def result(db: Database, job: Claimed, run: UUID) -> RunResult:
    """Return the result of a run that has ended."""
    tenant = db.tenant(job.org)
    view = await runs.view(tenant, run)
    return RunResult(run, view.row.state, await runs.output(tenant, run), view.states)


async def _depth_below(db: Database, job: Claimed) -> int:
    """Return the depth of a run that the handler of this job starts."""
    if job.run_id is None:
        return 1
    async with db.once() as conn:
        depth = await waiters.run_depth(conn, job.run_id, org=job.org)
    if depth >= MAX_DEPTH:
        raise Invalid(
            f"child runs can be nested at most {MAX_DEPTH} deep: start this one without waiting for it", field="run"
        )
    return depth + 1
