"""Steps of workflows as Jobs: Postgres, the worker of the pool, the API server, pods that run `windlass.exec`, and an
object store in a folder that both sides can access."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.keys import KEYS
from tests.launchers.kubernetes_api import Cluster, kubernetes_cluster
from tests.runtime.conftest import Working, eventually
from windlass import Retry, Run, Windlass
from windlass.effects.launchers import PoolOptions
from windlass.engine import pools
from windlass.settings import Settings


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with kubernetes_cluster() as served:
        yield served


@pytest.fixture
async def app(database: str, cluster: Cluster, tmp_path: Path) -> AsyncIterator[Windlass]:
    options = {"kubeconfig": str(cluster.kubeconfig), "namespace": "jobs"}
    gpu = PoolOptions(name="gpu", launcher="kubernetes", image="app:1", env={"REGION": "north"}, options=options)
    async with Windlass(database, settings=Settings(master_keys=KEYS, home=tmp_path, pools=(gpu,))) as opened:
        yield opened


async def started(app: Windlass, name: str) -> Run:
    """Start a run once the pool is known: until then the workflow cannot be published."""
    db = await app.open()
    await eventually(lambda: pools.list_(db))
    return await app.start(name)


async def test_steps_run_as_jobs_and_leave_nothing_in_the_cluster(
    app: Windlass, cluster: Cluster, working: Working
) -> None:
    flow = app.workflow("report")
    flow.command("sum", 'echo counting in $REGION; echo "{\\"total\\": 3}"').on("gpu")
    async with working(app):
        run = await started(app, "report")
        result = await run.wait(timeout=60)
        lines = [line.message for _, line in await run.lines()]
        assert result.value == {"total": 3}
        assert lines == ["counting in north", '{"total": 3}']

        async def nothing() -> bool:
            return not cluster.objects

        await eventually(nothing)


async def test_an_evicted_step_runs_again_and_the_reason_is_recorded(
    app: Windlass, cluster: Cluster, working: Working, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    flow = app.workflow("train")
    flow.command("fit", f"test -e {first} || {{ touch {first}; exec sleep 600; }}; echo 7").on("gpu").retry(
        max_attempts=2, retry=Retry(base=0)
    )
    async with working(app):
        run = await started(app, "train")

        async def begun() -> bool:
            return first.exists()

        await eventually(begun, seconds=60)
        (job,) = cluster.named("jobs")
        cluster.node.evict(job)
        result = await run.wait(timeout=60)
        assert result.value == 7
        job_of_step = (await run.account()).steps[0].job
        assert job_of_step is not None
        assert job_of_step.error == "the job was evicted (The node was low on resource: memory.)"
