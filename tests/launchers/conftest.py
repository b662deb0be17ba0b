"""Fixtures of launchers. `pool` runs a test on every kind of launcher; Ray only with `make soak`."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.launchers import given_cluster
from tests.launchers.kubernetes_api import Cluster, kubernetes_api, kubernetes_cluster
from tests.launchers.pools import Pool
from tests.launchers.ray_head import ray_address

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Any]:
    """Yield a scheduler with one worker process, which is restarted if it is killed."""
    from distributed import LocalCluster

    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=1, threads_per_worker=16, processes=True, dashboard_address="127.0.0.1:0", resources={"GPU": 1}
    ) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ray() -> Iterator[str]:
    with ray_address() as address:
        yield address


@pytest.fixture(params=["subprocess", "dask", "kubernetes", pytest.param("ray", marks=pytest.mark.soak)])
async def pool(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pool]:
    kind = request.param
    if kind == "subprocess":
        (tmp_path / "file").touch()
        yield Pool(kind, {"folder": str(tmp_path / "jobs")}, {"folder": str(tmp_path / "file" / "jobs")}, tmp_path)
    elif kind == "dask":
        address = request.getfixturevalue("dask_cluster").scheduler_address
        yield Pool(kind, {"address": address}, {"address": f"tcp://{NOWHERE}"}, tmp_path)
    elif kind == "ray":
        address = request.getfixturevalue("ray")
        options = {"address": address, "show_secrets": True}
        yield Pool(kind, options, {"address": f"http://{NOWHERE}"}, tmp_path, starts=10)
    else:
        async with kubernetes_pool(tmp_path) as opened:
            yield opened


@asynccontextmanager
async def kubernetes_pool(folder: Path) -> AsyncIterator[Pool]:
    if given_cluster.KUBECONFIG is None:
        async with kubernetes_api() as kubeconfig:
            yield _pool_on(kubeconfig, {"namespace": "default", "kubeconfig": str(kubeconfig)}, folder)
        return
    with given_cluster.shared_folder() as shared:
        kubeconfig = Path(given_cluster.KUBECONFIG)
        pool = _pool_on(kubeconfig, given_cluster.options(kubeconfig, shared), shared)
        pool = replace(pool, starts=10, image=given_cluster.IMAGE, is_local=False)
        yield pool
        for options in ({}, {"name": f"{pool.name}-2"}, {"instance": "other"}):
            async with pool.open(**options) as launcher:
                for job in await launcher.list():
                    await launcher.stop(job.name)


def _pool_on(kubeconfig: Path, options: dict[str, Any], folder: Path) -> Pool:
    away = folder / "away.yaml"
    away.write_text(given_cluster.elsewhere(kubeconfig.read_text(), NOWHERE))
    return Pool("kubernetes", options, {**options, "kubeconfig": str(away)}, folder, image="python:3.12-slim")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set longer timeouts: jobs of Ray take seconds to start even on an idle machine, and clusters pull images."""
    for item in items:
        if "[ray" in item.nodeid or (given_cluster.KUBECONFIG and "[kubernetes" in item.nodeid):
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Yield a Kubernetes cluster whose faults the test controls."""
    async with kubernetes_cluster() as served:
        yield served
