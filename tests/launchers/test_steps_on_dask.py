"""Steps of workflows on a Dask cluster, with a real worker and an object store in a folder."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.keys import KEYS
from tests.launchers.pools import dead
from tests.runtime.conftest import Working, eventually, working
from tests.runtime.test_pools import logged, parent, started, written
from windlass import RunState, Windlass
from windlass.effects.launchers import PoolOptions
from windlass.settings import Settings

__all__ = ["working"]  # a fixture


@pytest.fixture
async def app(database: str, tmp_path: Path, dask_cluster: Any) -> AsyncIterator[Windlass]:
    pool = PoolOptions(name="cluster", launcher="dask", options={"address": dask_cluster.scheduler_address})
    async with Windlass(database, settings=Settings(master_keys=KEYS, home=tmp_path, pools=(pool,))) as opened:
        yield opened


async def test_a_step_on_dask_has_output_and_log_and_leaves_nothing_behind(
    app: Windlass, working: Working, tmp_path: Path, dask_cluster: Any
) -> None:
    app.workflow("report").command("sum", "echo counting; echo '{\"total\": 3}'").on("cluster")
    async with working(app):
        run = await started(app, "report")
        assert (await run.wait(timeout=100)).value == {"total": 3}
        assert sorted(await logged(run, 2)) == ["counting", '{"total": 3}']

        async def nothing_left() -> bool:
            records = [key for key in dask_cluster.scheduler.windlass_launches if key.startswith("windlass:cluster:")]
            return not records and not list((tmp_path / "objects").rglob("*.json"))

        await eventually(nothing_left, seconds=60)


async def test_a_process_killed_on_dask_leaves_no_child_process_and_records_the_reason(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("wait", f"echo $$ > {tmp_path}/pid; exec sleep 1000").on("cluster").retry(max_attempts=1)
    async with working(app):
        run = await started(app, "report")
        command = await eventually(lambda: written(tmp_path / "pid"), seconds=60)
        os.kill(parent(command), signal.SIGKILL)  # windlass.exec
        assert (await run.wait(timeout=100)).state is RunState.FAILED
        explained = str(await run.explain())
        await dead(command)
    assert "the job ended without a status (killed by signal 9)" in explained
