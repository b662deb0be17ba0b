"""Installations that share a cluster do not touch each other's jobs, without any configuration."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.launchers.kubernetes_api import Cluster
from windlass import Windlass
from windlass.core.launches import launch_name
from windlass.effects.launchers import LaunchRequest, PoolOptions
from windlass.runtime.pools.pool import open_pools
from windlass.settings import Settings
from windlass.testing import Databases


async def test_workers_list_the_jobs_of_their_own_database(
    cluster: Cluster, databases: Databases, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"kubeconfig": str(cluster.kubeconfig), "command": ["sleep", "600"]}
    gpu = PoolOptions(name="gpu", launcher="kubernetes", image="app:1", options=options)
    listed: list[int] = []
    async with databases.recycled() as one, databases.recycled() as other:
        for url in (one, other, one):
            async with Windlass(url, settings=Settings(home=tmp_path)) as app:
                database = (await app.open()).database
                (pool,) = await open_pools(database, [gpu], home=tmp_path, allow_commands=False, app=None)
                if not listed:
                    await pool.launcher.start(LaunchRequest(name=launch_name(uuid4(), 1), env={}))
                listed.append(len(await pool.launcher.list()))
                await pool.launcher.close()
    assert listed == [1, 0, 1]
    assert "pool gpu: its jobs may run on other machines, and the object store is a folder" in caplog.text
