"""One fixture, `pool`, over all kinds of launchers. Those of Ray are part of `make soak`."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launchers.kubernetes_api import Cluster, kubernetes_api, kubernetes_cluster
from tests.launchers.pools import Pool
from tests.launchers.ray_head import ray_address

NOWHERE = "127.0.0.1:1"


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Any]:
    """A scheduler and a worker, which is a process of its own that is started again if it is killed."""
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
        async with kubernetes_api() as kubeconfig:
            away = tmp_path / "away.yaml"
            away.write_text(_elsewhere(kubeconfig.read_text()))
            options = {"namespace": "default", "kubeconfig": str(kubeconfig)}
            yield Pool(kind, options, {**options, "kubeconfig": str(away)}, tmp_path, image="python:3.12-slim")


def _elsewhere(kubeconfig: str) -> str:
    """Return a configuration whose server does not exist."""
    return re.sub(r"127\.0\.0\.1:\d+", NOWHERE, kubeconfig)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Jobs of Ray take seconds to start, on a machine that runs nothing else."""
    for item in items:
        if "[ray" in item.nodeid:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster of Kubernetes that can be made to misbehave."""
    async with kubernetes_cluster() as served:
        yield served
