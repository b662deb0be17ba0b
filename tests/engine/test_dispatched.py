"""A task on a pool is `dispatched` until its launch reports that it runs."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.engine.harness import LEASE
from windlass.core.definition.parser import parse
from windlass.core.jobs.job import Claimed
from windlass.core.launches import LaunchState, pool_queue, progress_data
from windlass.core.orgs import stored
from windlass.engine import pools, upkeep, workflows
from windlass.engine.database import Tenant
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs.checkpoints import ProgressReport
from windlass.engine.orgs import control as orgs
from windlass.engine.runs import control, inspect, start
from windlass.engine.runs.start import RunSpec
from windlass.engine.views import runs as views
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.schemas.tasks import Task
from windlass.testing import Clock


class Flow:
    """A run with one step, on the pool gpu."""

    def __init__(self, db: Tenant, org: str) -> None:
        self.db = db
        self.caller = db.tenant(org)

    async def start(self, **step: object) -> None:
        await pools.offer(self.db, [("gpu", "kubernetes", 5, None)])
        flow = parse({"name": "train", "tasks": {"fit": {"run": "true", "runs_on": "gpu", **step}}})
        await workflows.publish(self.caller, flow)
        (self._run,) = await start.start(self.caller, "train", [RunSpec()])

    async def claim(self) -> Claimed:
        lanes = [
            (replace(lane, seq=0), 1) for lane in await turn.look(self.db, [stored(self.caller.org, pool_queue("gpu"))])
        ]
        (claimed,), _ = await turn.turn(self.db, Turn(worker="pool:gpu", lease=LEASE, lanes=lanes, count=1))
        return claimed

    async def report(self, job: Claimed, state: LaunchState, text: str) -> None:
        data = json.dumps(progress_data(state, job.claim_no))
        await checkpoints.report_progress(self.db, [ProgressReport(job.id, job.claim_no, 0.0, text, data)])

    async def task(self) -> Task:
        snapshot = await inspect.snapshot(self.caller, self._run)
        return views.task(snapshot.steps[0], snapshot)

    async def shown(self) -> tuple[str, str | None, str]:
        task = await self.task()
        return task.status, task.activity, task.remark

    async def instances(self) -> list[str]:
        return [views.instance(row).status for row in await control.instances(self.caller, self._run, "fit")]


@pytest.fixture(params=["default", "acme"])
async def flow(db: Tenant, request: pytest.FixtureRequest) -> Flow:
    if request.param != "default":
        await orgs.create(db, request.param)
    return Flow(db, request.param)


async def test_a_task_is_dispatched_until_its_launch_reports_that_it_runs(flow: Flow) -> None:
    await flow.start()
    assert await flow.shown() == ("dispatched", "no_worker", "no process offers pool gpu")
    job = await flow.claim()
    assert await flow.shown() == ("dispatched", "launching", "")
    assert await flow.instances() == ["dispatched"]
    await flow.report(job, LaunchState.LAUNCHING, "waiting on gpu: no node has 4 GPUs")
    assert await flow.shown() == ("dispatched", "launching", "waiting on gpu: no node has 4 GPUs")
    await flow.report(job, LaunchState.RUNNING, "running on gpu")
    assert await flow.shown() == ("running", "running", "running on gpu")
    assert await flow.instances() == ["running"]
    await flow.report(job, LaunchState.LOST, "lost: gpu does not list it any more")
    assert await flow.shown() == ("running", "lost", "lost: gpu does not list it any more")


async def test_the_next_attempt_is_dispatched_even_if_the_last_one_was_running(flow: Flow, clock: Clock) -> None:
    clock.move(timedelta())
    await flow.start()
    job = await flow.claim()
    await flow.report(job, LaunchState.RUNNING, "running on gpu")
    clock.move(LEASE + timedelta(seconds=1))
    await upkeep.release_expired(flow.db)
    assert (await flow.task()).status == "dispatched"
    again = await flow.claim()
    assert again.id == job.id
    task = await flow.task()
    assert (task.status, task.activity) == ("dispatched", "launching")
    await flow.report(job, LaunchState.RUNNING, "running on gpu")  # of the attempt that was lost: ignored
    assert (await flow.task()).status == "dispatched"


async def test_a_job_that_reports_its_own_progress_is_running(flow: Flow) -> None:
    await flow.start()
    job = await flow.claim()
    await checkpoints.record_progress(flow.caller, job.id, 0.5, "half", {"launch": "a rocket"})
    assert await flow.shown() == ("running", "running", "half")


async def test_a_fanned_out_task_is_running_as_soon_as_one_of_its_instances_is(flow: Flow) -> None:
    await flow.start(parallel=3)
    first, second = await flow.claim(), await flow.claim()
    task = await flow.task()
    assert (task.status, task.activity) == ("dispatched", "launching")
    assert await flow.instances() == ["dispatched", "dispatched", "pending"]
    await flow.report(second, LaunchState.RUNNING, "running on gpu")
    task = await flow.task()
    assert (task.status, task.activity) == ("running", "running")
    statuses = await flow.instances()
    assert sorted(statuses) == ["dispatched", "pending", "running"]
    assert first.id != second.id
