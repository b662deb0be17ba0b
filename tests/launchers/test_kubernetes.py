"""Jobs of a pool on Kubernetes: the contract of all launchers, and the explanation of each end.

Runs against the API server of kubernetes_api.py, or against the cluster of given_cluster.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.launchers.given_cluster import IMAGE, KUBECONFIG, NAMESPACE
from tests.launchers.kubernetes_api import kubernetes_api
from tests.launchers.pools import WITHIN
from windlass.core.launches import Cause, Phase, RemoteJob, launch_name
from windlass.effects.launchers import Launcher, LaunchRequest, PoolOptions, Resources, open_launcher


@pytest.fixture
async def kubeconfig() -> AsyncIterator[Path]:
    async with nullcontext(Path(KUBECONFIG)) if KUBECONFIG else kubernetes_api() as path:
        yield path


class Pool:
    """A pool whose jobs run a shell script."""

    def __init__(self, kubeconfig: Path) -> None:
        self.name = f"test-{uuid4().hex[:8]}"
        self._kubeconfig = kubeconfig

    @asynccontextmanager
    async def running(self, script: str, **options: Any) -> AsyncIterator[Launcher]:
        options = {"kubeconfig": str(self._kubeconfig), "namespace": NAMESPACE, **options}
        options["command"] = ["sh", "-c", script]
        launcher = open_launcher(PoolOptions(name=self.name, launcher="kubernetes", image=IMAGE, options=options))
        try:
            yield launcher
        finally:
            if KUBECONFIG:
                for job in await launcher.list():
                    await launcher.stop(job.name)
            await launcher.close()


@pytest.fixture
def pool(kubeconfig: Path) -> Pool:
    return Pool(kubeconfig)


def request(**more: Any) -> LaunchRequest:
    return LaunchRequest(name=launch_name(uuid4(), 1), env=more.pop("env", {}), **more)


async def seen(launcher: Launcher, is_expected: Callable[[list[RemoteJob]], bool]) -> list[RemoteJob]:
    """Return the list of a pool once it is as expected."""
    async with asyncio.timeout(WITHIN):
        while True:
            launcher.hint.clear()
            jobs = list(await launcher.list())
            if is_expected(jobs):
                return jobs
            await launcher.hint.wait()


async def ended(launcher: Launcher) -> RemoteJob:
    (job,) = await seen(launcher, lambda jobs: [job.phase for job in jobs] == [Phase.ENDED])
    return job


async def running(launcher: Launcher) -> RemoteJob:
    (job,) = await seen(launcher, lambda jobs: [job.phase for job in jobs] == [Phase.RUNNING])
    return job


async def test_a_job_runs_with_its_environment_and_its_log_can_be_read(pool: Pool) -> None:
    job = request(env={"GREETING": "$(HOME) costs $$5"}, labels={"pool": "gpu", "step": "Train & test"})
    async with pool.running('echo "$GREETING"; echo error >&2') as launcher:
        await launcher.start(job)
        assert await ended(launcher) == RemoteJob(job.name, Phase.ENDED, Cause.EXITED, "exit code 0", 0)
        assert await launcher.logs(job.name) == "$(HOME) costs $$5\nerror\n"


async def test_starting_a_job_again_creates_no_second_job_even_after_its_end(pool: Pool) -> None:
    job = request()
    async with pool.running("echo once") as launcher:
        await asyncio.gather(launcher.start(job), launcher.start(job))
        await launcher.start(job)
        await ended(launcher)
        await launcher.start(job)
        assert [listed.name for listed in await launcher.list()] == [job.name]
        assert await launcher.logs(job.name) == "once\n"


async def test_secret_variables_reach_the_job(pool: Pool) -> None:
    job = request(secret_env={"TOKEN": "s3cret $HOME"})
    async with pool.running('test "$TOKEN" = "s3cret \\$HOME"') as launcher:
        await launcher.start(job)
        assert (await ended(launcher)).exit_code == 0


async def test_a_failed_job_has_its_exit_code(pool: Pool) -> None:
    async with pool.running("exit 3") as launcher:
        await launcher.start(request())
        job = await ended(launcher)
        assert (job.cause, job.exit_code, job.detail) == (Cause.EXITED, 3, "exit code 3")


async def test_a_job_that_exceeds_its_memory_limit_is_reported_with_the_limit(pool: Pool) -> None:
    script = "exec python -c 'import time; x = b\"x\" * 300_000_000; time.sleep(60)'"
    async with pool.running(script) as launcher:
        await launcher.start(request(resources=Resources(memory="64Mi")))
        job = await ended(launcher)
        assert (job.cause, job.detail, job.exit_code) == (Cause.OUT_OF_MEMORY, "limit 64Mi", 137)


async def test_a_job_whose_image_does_not_exist_waits_with_the_reason(pool: Pool) -> None:
    async with pool.running("true") as launcher:
        await launcher.start(request(image="windlass.invalid/none:1"))
        (job,) = await seen(launcher, lambda jobs: [job.cause for job in jobs] == [Cause.IMAGE])
        assert job.phase is Phase.WAITING
        assert "windlass.invalid/none:1" in job.detail


async def test_a_job_without_a_node_waits_with_the_reason(pool: Pool) -> None:
    async with pool.running("true", node_selector={"windlass.dev/none": "x"}) as launcher:
        await launcher.start(request())
        (job,) = await seen(launcher, lambda jobs: [job.cause for job in jobs] == [Cause.UNSCHEDULABLE])
        assert job.phase is Phase.WAITING
        assert "nodes are available" in job.detail


async def test_the_reason_for_a_missing_pod_is_logged_even_after_the_job_was_stopped(pool: Pool) -> None:
    job = request()
    async with pool.running("true", service_account="windlass-none") as launcher:
        await launcher.start(job)
        (listed,) = await launcher.list()
        assert (listed.phase, listed.cause) == (Phase.WAITING, None)
        async with asyncio.timeout(WITHIN):
            while 'serviceaccount "windlass-none" not found' not in await launcher.logs(job.name):
                await asyncio.sleep(0.1)
        await launcher.stop(job.name)
        await seen(launcher, lambda jobs: not jobs)
        assert 'serviceaccount "windlass-none" not found' in await launcher.logs(job.name)


async def test_a_job_ends_at_its_deadline(pool: Pool) -> None:
    async with pool.running("exec sleep 600") as launcher:
        await launcher.start(request(deadline=0.5))
        assert (await ended(launcher)).cause is Cause.DEADLINE


async def test_a_stopped_job_ends_and_is_removed(pool: Pool) -> None:
    job = request(secret_env={"TOKEN": "x"})
    async with pool.running("exec sleep 600") as launcher:
        await launcher.start(job)
        await running(launcher)
        await launcher.stop(job.name)
        await launcher.stop(job.name)
        await seen(launcher, lambda jobs: not jobs)
        await launcher.stop(job.name)


async def test_an_ended_job_can_be_removed(pool: Pool) -> None:
    job = request()
    async with pool.running("true") as launcher:
        await launcher.start(job)
        await ended(launcher)
        await launcher.remove(job.name)
        await seen(launcher, lambda jobs: not jobs)
        await launcher.remove(job.name)
        assert await launcher.logs(job.name) == ""


async def test_the_log_names_a_command_that_the_image_lacks(pool: Pool) -> None:
    async with pool.running("exec no-such-program") as launcher:
        await launcher.start(request())
        job = await ended(launcher)
        assert job.exit_code == 127
        assert "no-such-program" in await launcher.logs(job.name)


async def test_each_pool_lists_its_own_jobs(kubeconfig: Path) -> None:
    async with Pool(kubeconfig).running("true") as launcher, Pool(kubeconfig).running("true") as other:
        await launcher.start(request())
        await ended(launcher)
        assert await other.list() == []


async def test_a_usable_pool_passes_its_check_which_leaves_nothing_behind(pool: Pool) -> None:
    async with pool.running("true") as launcher:
        await launcher.check()
        assert await launcher.list() == []
