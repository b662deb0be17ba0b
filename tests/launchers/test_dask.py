"""Pools on Dask: lost workers, resources, and tasks of other clients."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster

from tests.launchers.pools import Pool, dead, ended, gone, seen
from windlass.core.launches import Cause, Phase
from windlass.effects.launchers import Resources
from windlass.effects.launchers.dask.remote import Environment
from windlass.errors import Unavailable


@pytest.fixture
def pool(dask_cluster: Any, tmp_path: Path) -> Pool:
    return Pool("dask", {"address": dask_cluster.scheduler_address}, {}, tmp_path)


async def test_a_job_is_lost_with_its_worker_and_not_run_again(pool: Pool) -> None:
    job, later = pool.job('echo $$ >> "$DIR/pids"; exec sleep 300'), pool.job("true")
    async with pool.open() as launcher, client_of(pool) as client:
        await launcher.start(job)
        pid = int(await pool.written("pids"))
        for worker in (await client.run(os.getpid)).values():
            os.kill(worker, signal.SIGKILL)
        (listed,) = await ended(launcher, job)
        assert listed.cause is Cause.NODE_LOST
        await dead(pid)
        await launcher.start(job)
        await launcher.start(later)  # on the worker that takes the place of the first
        await ended(launcher, later)
        await seen(launcher, lambda jobs: all(row.phase is Phase.ENDED for row in jobs.values()))
    assert len(pool.lines("pids")) == 1


async def test_a_job_that_no_worker_can_run_waits_with_the_reason_until_it_is_stopped(pool: Pool) -> None:
    job = pool.job('echo ran > "$DIR/out"', resources=Resources(gpu=5))
    async with pool.open() as launcher:
        await launcher.start(job)
        jobs = await seen(launcher, lambda jobs: jobs[job.name].cause is Cause.UNSCHEDULABLE)
        assert (jobs[job.name].phase, jobs[job.name].detail) == (Phase.WAITING, "no Dask worker has GPU=5")
        await launcher.stop(job.name)
        await gone(launcher, job)
        await launcher.remove(job.name)
        assert await launcher.list() == []
    assert pool.lines("out") == []


async def test_a_job_is_ended_at_its_deadline(pool: Pool) -> None:
    job = pool.job("exec sleep 300", deadline=0.5)
    async with pool.open() as launcher:
        await launcher.start(job)
        (listed,) = await ended(launcher, job)
    assert (listed.cause, listed.detail, listed.exit_code) == (Cause.DEADLINE, "deadline of 0.5 s", -signal.SIGTERM)


async def test_the_error_names_a_command_that_does_not_exist(pool: Pool) -> None:
    job = pool.job("true")
    async with pool.open(command=["/no/such/program"]) as launcher:
        await launcher.start(job)
        (listed,) = await ended(launcher, job)
    assert "/no/such/program" in listed.detail


async def test_tasks_of_other_clients_are_neither_listed_nor_stopped(pool: Pool) -> None:
    async with pool.open() as launcher, client_of(pool) as client:
        foreign = client.submit(int, "3", key=f"windlass:{pool.name}:theirs")
        assert await foreign == 3
        assert await launcher.list() == []
        await launcher.stop("theirs")
        assert await client.who_has([foreign]) != {foreign.key: ()}


async def test_a_resource_that_no_worker_has_fails_the_check(pool: Pool) -> None:
    async with pool.open(worker_resources={"TPU": 1}) as launcher:
        with pytest.raises(Unavailable, match="no Dask worker has the resource TPU: start them with --resources"):
            await launcher.check()


async def test_a_cluster_without_workers_fails_the_check_and_a_restarted_cluster_is_reconnected(tmp_path: Path) -> None:
    async with empty_cluster() as cluster:
        pool = Pool("dask", {"address": cluster.scheduler_address}, {}, tmp_path)
        port = int(cluster.scheduler_address.rpartition(":")[2])
        manager = pool.open()
        launcher = await manager.__aenter__()
        with pytest.raises(Unavailable, match="has no workers"):
            await launcher.check()
    with pytest.raises(Unavailable, match="cannot be reached"):
        await launcher.list()
    async with empty_cluster(scheduler_port=port):
        assert await launcher.list() == []
        await manager.__aexit__(None, None, None)


def test_the_environment_of_a_job_is_not_printed() -> None:
    assert "s3cret" not in f"{(Environment(TOKEN='s3cret'),)!r}"


def client_of(pool: Pool) -> Any:
    return Client(pool.options["address"], asynchronous=True, set_as_default=False)  # type: ignore[no-untyped-call]


def empty_cluster(**options: Any) -> Any:
    return LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=0, protocol="tcp", asynchronous=True, dashboard_address="127.0.0.1:0", **options
    )
