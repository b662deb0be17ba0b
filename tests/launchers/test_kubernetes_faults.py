"""Jobs on Kubernetes when the cluster refuses requests, fails, loses state or deletes a job."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.launchers.given_cluster import IMAGE
from tests.launchers.kubernetes_api import Cluster, Fault, kubeconfig
from tests.launchers.test_kubernetes import ended, request, running, seen
from tests.runtime.conftest import eventually
from windlass.core.launches import Cause, Phase, RemoteJob
from windlass.effects.launchers import Launcher, PoolOptions, Resources, open_launcher
from windlass.effects.launchers.kubernetes.api import Api
from windlass.effects.launchers.kubernetes.manifests import POOL
from windlass.effects.launchers.kubernetes.options import KubernetesOptions
from windlass.errors import Invalid, Unavailable

SLEEP = ["sleep", "600"]


def options(cluster: Cluster, command: list[str], **more: Any) -> PoolOptions:
    pool = {"kubeconfig": str(cluster.kubeconfig), "command": command, **more}
    return PoolOptions(name="gpu", launcher="kubernetes", image=IMAGE, options=pool)


@contextlib.asynccontextmanager
async def opened(cluster: Cluster, command: list[str] = SLEEP, **more: Any) -> AsyncIterator[Launcher]:
    launcher = open_launcher(options(cluster, command, **more))
    try:
        yield launcher
    finally:
        await launcher.close()


@pytest.fixture
async def launcher(cluster: Cluster) -> AsyncIterator[Launcher]:
    async with opened(cluster) as sleeping:
        yield sleeping


# Evicted, lost and deleted jobs


async def test_an_evicted_job_ends_with_the_cause_evicted(cluster: Cluster, launcher: Launcher) -> None:
    job = request()
    await launcher.start(job)
    await running(launcher)
    cluster.node.evict(job.name)
    expected = RemoteJob(job.name, Phase.ENDED, Cause.EVICTED, "The node was low on resource: memory.", 137)
    assert await ended(launcher) == expected


async def test_a_job_killed_for_its_memory_ends_with_the_cause_out_of_memory(
    cluster: Cluster, launcher: Launcher
) -> None:
    job = request(resources=Resources(memory="4Gi"))
    await launcher.start(job)
    await running(launcher)
    cluster.node.kill_out_of_memory(job.name)
    assert await ended(launcher) == RemoteJob(job.name, Phase.ENDED, Cause.OUT_OF_MEMORY, "limit 4Gi", 137)


async def test_a_preempted_job_ends_with_the_cause_evicted_after_its_pod_is_deleted(
    cluster: Cluster, launcher: Launcher
) -> None:
    job = request()
    await launcher.start(job)
    await running(launcher)
    cluster.node.preempt(job.name)
    await seen(launcher, lambda _: not cluster.named("pods"))
    lost = await ended(launcher)
    assert lost.cause is Cause.EVICTED
    assert "DisruptionTarget" in lost.detail


async def test_a_job_on_a_lost_node_has_ended_although_its_pod_cannot_be_deleted(
    cluster: Cluster, launcher: Launcher
) -> None:
    job = request()
    await launcher.start(job)
    await running(launcher)
    cluster.node.lose(job.name)
    await launcher.stop(job.name)
    assert (await ended(launcher)).cause is Cause.NODE_LOST


class Lingering:
    """A script that continues after SIGTERM until the test lets it end."""

    def __init__(self, folder: Path) -> None:
        self._ready, self._end = folder / "ready", folder / "end"
        os.mkfifo(self._ready)
        os.mkfifo(self._end)
        self.command = ["sh", "-c", f"trap 'cat {self._end}; exit 0' TERM; echo > {self._ready}; sleep 600 & wait"]

    async def ready(self) -> None:
        await asyncio.to_thread(self._ready.read_text)

    async def end(self) -> None:
        await asyncio.to_thread(self._end.write_text, "")


async def test_a_stopped_job_runs_until_its_process_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    job, script = request(secret_env={"TOKEN": "x"}), Lingering(tmp_path)
    async with opened(cluster, script.command) as launcher:
        await launcher.start(job)
        await script.ready()
        await launcher.stop(job.name)
        assert [listed.phase for listed in await launcher.list()] == [Phase.RUNNING]
        await script.end()
        await seen(launcher, lambda jobs: not jobs)
    assert not cluster.objects


async def test_a_job_deleted_by_hand_is_listed_while_its_process_ends(cluster: Cluster, tmp_path: Path) -> None:
    job, script = request(), Lingering(tmp_path)
    async with opened(cluster, script.command) as launcher:
        await launcher.start(job)
        await script.ready()
        cluster.node.delete("jobs", cluster.named("jobs")[job.name], "Background")
        await seen(launcher, lambda jobs: not cluster.named("jobs") and [j.phase for j in jobs] == [Phase.RUNNING])
        await script.end()
        await seen(launcher, lambda jobs: not jobs)


# Errors and missing responses of the cluster


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_temporary_errors_of_the_cluster_are_reported_as_unavailable(
    cluster: Cluster, launcher: Launcher, status: int
) -> None:
    cluster.faults += [Fault(status, method, "jobs", "", "try later") for method in ("POST", "DELETE")]
    job = request()
    with pytest.raises(Unavailable, match=f"pool gpu: the cluster answers {status}: try later"):
        await launcher.start(job)
    await launcher.start(job)
    with pytest.raises(Unavailable):
        await launcher.stop(job.name)
    await launcher.stop(job.name)
    await seen(launcher, lambda jobs: not jobs)


async def test_an_unreachable_cluster_is_reported_as_unavailable(cluster: Cluster) -> None:
    document = kubeconfig("http://127.0.0.1:9", "x")
    cluster.kubeconfig.write_text(yaml.safe_dump(document))
    async with opened(cluster) as launcher:
        for call in (launcher.list(), launcher.start(request()), launcher.stop("x"), launcher.check()):
            with pytest.raises(Unavailable, match=r"pool gpu: the cluster http://127.0.0.1:9 does not answer"):
                await call


async def test_a_response_that_is_not_from_the_kubernetes_api_is_reported_as_unavailable(cluster: Cluster) -> None:
    async def login(_: web.Request) -> web.Response:
        return web.Response(text="<h1>Log in</h1>", content_type="text/html")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", login)
    async with TestServer(app) as proxy:
        cluster.kubeconfig.write_text(yaml.safe_dump(kubeconfig(str(proxy.make_url("")).rstrip("/"), "x")))
        async with opened(cluster) as launcher:
            for call in (launcher.list(), launcher.start(request()), launcher.check()):
                with pytest.raises(Unavailable, match="answers text/html: it is not the API of a cluster"):
                    await call


async def test_a_request_that_the_cluster_rejects_is_invalid_and_leaves_no_objects(
    cluster: Cluster, launcher: Launcher
) -> None:
    with pytest.raises(Invalid, match=r"the cluster refuses the job: .*resources.limits\[memory\].*plenty"):
        await launcher.start(request(resources=Resources(memory="plenty")))
    with pytest.raises(Invalid, match=r"the cluster refuses the job: .*A B"):
        await launcher.start(request(secret_env={"A B": "s3cret"}))
    assert not cluster.objects


async def test_a_job_whose_secret_is_refused_is_removed(cluster: Cluster, launcher: Launcher) -> None:
    cluster.forbidden.add(("create", "secrets"))
    with pytest.raises(Invalid, match=r"not allowed to create secrets in namespace default: .*apply the role of"):
        await launcher.start(request(secret_env={"TOKEN": "s3cret"}))
    await seen(launcher, lambda jobs: not jobs)


async def test_an_exceeded_quota_is_reported_as_unavailable(cluster: Cluster, launcher: Launcher) -> None:
    message = 'jobs.batch "x" is forbidden: exceeded quota: jobs, used: count/jobs.batch=5, limited: count/jobs.batch=5'
    cluster.faults.append(Fault(403, "POST", "jobs", "Forbidden", message))
    with pytest.raises(Unavailable, match="exceeded quota"):
        await launcher.start(request())


async def test_a_conflict_that_is_not_about_the_name_is_an_error(cluster: Cluster, launcher: Launcher) -> None:
    cluster.faults.append(Fault(409, "POST", "jobs", "Conflict", "Operation cannot be fulfilled on resourcequotas"))
    with pytest.raises(Unavailable, match="resourcequotas"):
        await launcher.start(request())


async def test_the_error_names_a_namespace_that_does_not_exist(cluster: Cluster) -> None:
    async with opened(cluster, namespace="none") as launcher:
        for call in (launcher.start(request()), launcher.check()):
            with pytest.raises(Invalid, match="create namespace none, or change `namespace`") as refused:
                await call
            assert refused.value.field == "namespace"


async def test_the_check_lists_all_missing_permissions(cluster: Cluster, launcher: Launcher) -> None:
    cluster.forbidden |= {("delete", "jobs"), ("get", "pods/log"), ("create", "secrets")}
    with pytest.raises(
        Invalid, match="not allowed to create secrets, delete jobs, get pods/log in namespace default: "
    ):
        await launcher.check()


async def test_a_missing_permission_to_read_logs_is_not_an_error(cluster: Cluster, launcher: Launcher) -> None:
    cluster.forbidden.add(("get", "pods/log"))
    job = request()
    await launcher.start(job)
    await running(launcher)
    assert "not allowed to get pods/log in namespace default" in await launcher.logs(job.name)


async def test_a_start_interrupted_before_the_secret_is_completed_by_the_next_start(cluster: Cluster) -> None:
    job = request(secret_env={"TOKEN": "s3cret"})
    cluster.faults.append(Fault(500, "POST", "secrets"))
    async with opened(cluster, ["sh", "-c", 'echo "$TOKEN"']) as launcher:
        with pytest.raises(Unavailable):
            await launcher.start(job)
        (waiting,) = await seen(
            launcher, lambda jobs: [job.phase for job in jobs] == [Phase.WAITING] and jobs[0].detail != ""
        )
        assert waiting.detail == f'CreateContainerConfigError: secret "{job.name}" not found'
        await launcher.start(job)
        assert (await ended(launcher)).exit_code == 0
        assert await launcher.logs(job.name) == "s3cret\n"
        assert "s3cret" not in json.dumps(cluster.named("jobs"))
        assert list(cluster.named("secrets")) == [job.name]
        await launcher.remove(job.name)
        await seen(launcher, lambda _: not cluster.objects)


async def test_credentials_are_read_again_when_they_have_expired(cluster: Cluster, launcher: Launcher) -> None:
    assert await launcher.list() == []
    cluster.token = "next"
    with pytest.raises(Unavailable, match="answers 401"):
        await launcher.list()
    document = yaml.safe_load(cluster.kubeconfig.read_text())
    document["users"][0]["user"]["token"] = "next"
    cluster.kubeconfig.write_text(yaml.safe_dump(document))

    async def listed() -> bool:
        with contextlib.suppress(Unavailable):
            return await launcher.list() == []
        return False

    await eventually(listed, seconds=60)


# Lists and watches


async def test_lists_are_read_in_pages_and_restarted_if_the_pages_expire(cluster: Cluster, launcher: Launcher) -> None:
    jobs = [request() for _ in range(5)]
    await asyncio.gather(*map(launcher.start, jobs))
    api = Api("gpu", KubernetesOptions(kubeconfig=str(cluster.kubeconfig)))
    cluster.faults.append(Fault(410, "GET", "jobs", "Expired"))
    listing = await api.list("jobs", f"{POOL}=gpu", page=2)
    assert sorted(item["metadata"]["name"] for item in listing.items) == sorted(job.name for job in jobs)
    cluster.faults += [Fault(410, "GET", "jobs", "Expired")] * 3
    with pytest.raises(Unavailable, match="expired"):
        await api.list("jobs", f"{POOL}=gpu", page=2)
    await api.close()


async def test_a_job_that_is_not_listed_yet_is_not_started_twice(cluster: Cluster, launcher: Launcher) -> None:
    cluster.freeze_lists()
    job = request()
    await launcher.start(job)
    assert await launcher.list() == []
    await launcher.start(job)
    cluster.thaw_lists()
    assert [listed.name for listed in await launcher.list()] == [job.name]


async def test_an_unreadable_job_does_not_hide_the_others(cluster: Cluster, launcher: Launcher) -> None:
    jobs = [request(), request()]
    await asyncio.gather(*map(launcher.start, jobs))
    await seen(launcher, lambda listed: [job.phase for job in listed] == [Phase.RUNNING, Phase.RUNNING])
    cluster.node.pod(jobs[0].name)["status"]["containerStatuses"] = "unforeseen"
    listed = {job.name: job for job in await launcher.list()}
    assert listed[jobs[1].name] == RemoteJob(jobs[1].name, Phase.RUNNING)
    assert "its state cannot be read" in listed[jobs[0].name].detail


async def hinted(launcher: Launcher) -> None:
    async with asyncio.timeout(60):
        await launcher.hint.wait()
    launcher.hint.clear()


async def test_changes_are_noticed_even_after_the_history_was_compacted(cluster: Cluster, launcher: Launcher) -> None:
    await launcher.list()
    for _ in range(2):
        job = request()
        await launcher.start(job)
        await running(launcher)
        await launcher.stop(job.name)
        await seen(launcher, lambda jobs: not jobs)
        launcher.hint.clear()
        cluster.compact()
        await hinted(launcher)


async def test_lists_are_correct_without_the_permission_to_watch(cluster: Cluster) -> None:
    cluster.forbidden |= {("watch", "jobs"), ("watch", "pods")}
    async with opened(cluster, ["true"]) as launcher:
        await launcher.start(request())
        async with asyncio.timeout(60):
            while [job.phase for job in await launcher.list()] != [Phase.ENDED]:
                await asyncio.sleep(0.01)


async def test_two_installations_share_a_namespace_but_not_their_jobs(cluster: Cluster) -> None:
    async with opened(cluster, instance="one") as one, opened(cluster, instance="two") as two:
        await one.start(request())
        assert len(await one.list()) == 1
        assert await two.list() == []


# Configuration


async def test_jobs_receive_the_values_of_secrets_in_the_namespace(cluster: Cluster) -> None:
    credentials = {"metadata": {"name": "bucket"}, "stringData": {"AWS_SECRET_ACCESS_KEY": "s3cret"}}
    document = {"apiVersion": "v1", "kind": "Secret", **credentials}
    cluster.create("secrets", "default", document, dry_run=False)
    async with opened(cluster, ["sh", "-c", "echo $AWS_SECRET_ACCESS_KEY"], env_from=["bucket"]) as launcher:
        job = request()
        await launcher.start(job)
        await ended(launcher)
        assert await launcher.logs(job.name) == "s3cret\n"


async def test_the_error_names_an_unusable_kubeconfig_or_context(cluster: Cluster, tmp_path: Path) -> None:
    async with opened(cluster, kubeconfig=str(tmp_path / "none")) as launcher:
        with pytest.raises(Invalid, match=r"no credentials for a cluster in kubeconfig .*none") as refused:
            await launcher.check()
        assert refused.value.field == "kubeconfig"
    async with opened(cluster, context="other") as launcher:
        with pytest.raises(Invalid, match="context other") as refused:
            await launcher.check()
        assert refused.value.field == "context"


async def test_a_job_without_an_image_is_refused(cluster: Cluster) -> None:
    pool = PoolOptions(name="gpu", launcher="kubernetes", options={"kubeconfig": str(cluster.kubeconfig)})
    launcher = open_launcher(pool)
    with pytest.raises(Invalid, match="pool gpu has no image") as refused:
        await launcher.start(request())
    assert refused.value.field == "image"
