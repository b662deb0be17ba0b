"""The launcher of Ray with responses that a healthy cluster does not give. The suite over all launchers, which runs on
a real cluster, is in test_contract.py."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from windlass.core.launches import Cause, Phase, launch_name
from windlass.effects.launchers import Launcher, LaunchRequest, PoolOptions, Resources, open_launcher
from windlass.errors import Invalid, Unavailable

JOB = LaunchRequest(name=launch_name(uuid4(), 1), env={"WORD": "hello"})


@asynccontextmanager
async def answering(
    status: int, text: str, requests: list[Mapping[str, Any]] | None = None, **options: Any
) -> AsyncIterator[Launcher]:
    """Open a launcher whose cluster sends the same response to every request."""

    async def answer(request: web.Request) -> web.Response:
        if requests is not None and request.can_read_body:
            requests.append(await request.json())
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    launcher = open_launcher(pool(address=f"http://127.0.0.1:{runner.addresses[0][1]}/", **options))
    try:
        yield launcher
    finally:
        await launcher.close()
        await runner.cleanup()


def pool(**options: Any) -> PoolOptions:
    return PoolOptions(name="big", launcher="ray", options=options)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "address"),
        ({"address": "ray://head:10001"}, "address"),
        ({"address": "http://head:8265", "runtime_env": "x"}, "runtime_env"),
        ({"address": "http://head:8265", "namespace": "x"}, "namespace"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid, match="pool big") as refused:
        open_launcher(pool(**options))
    assert refused.value.field == field


async def test_a_response_that_is_not_from_ray_is_detected() -> None:
    async with answering(200, "<html>Welcome</html>") as launcher:
        with pytest.raises(Unavailable, match="not JSON; the address must be that of the dashboard"):
            await launcher.check()
    async with answering(200, "{}") as launcher:
        with pytest.raises(Unavailable, match="is not the dashboard of Ray"):
            await launcher.check()


async def test_a_dashboard_that_requires_a_token_is_detected() -> None:
    async with answering(403, "Forbidden") as launcher:
        with pytest.raises(Unavailable, match="Forbidden: set the pool's option headers"):
            await launcher.check()


async def test_an_error_of_the_dashboard_is_reported_by_its_last_line() -> None:
    text = 'Traceback (most recent call last):\n  File "job_head.py", line 1\nRuntimeError: no agent is available.\n.\n'
    async with answering(500, text) as launcher:
        for operation in (launcher.start(JOB), launcher.list(), launcher.stop(JOB.name), launcher.logs(JOB.name)):
            with pytest.raises(Unavailable, match=r"cannot be used: RuntimeError: no agent is available$"):
                await operation


async def test_a_secret_is_not_sent_unless_the_pool_allows_it() -> None:
    job = LaunchRequest(name=JOB.name, env={}, secret_env={"TOKEN": "s3cret"})
    requests: list[Mapping[str, Any]] = []
    async with answering(200, "{}", requests) as launcher:
        with pytest.raises(Invalid, match="set the pool's option show_secrets") as refused:
            await launcher.start(job)
        assert "s3cret" not in str(refused.value)
    assert requests == []
    async with answering(200, "{}", requests, show_secrets=True) as launcher:
        await launcher.start(job)
    assert requests[0]["runtime_env"]["env_vars"] == {"TOKEN": "s3cret"}


async def test_a_job_is_submitted_with_its_resources_and_the_environment_of_the_pool() -> None:
    requests: list[Mapping[str, Any]] = []
    runtime_env = {"pip": ["windlass"], "env_vars": {"MODE": "fast"}}
    resources = Resources(cpu="500m", memory="512Mi", gpu=2)
    job = LaunchRequest(name=JOB.name, env={"PRICE": "$5"}, resources=resources, labels={"step": "train"})
    async with answering(200, "{}", requests, runtime_env=runtime_env, command=["run it"]) as launcher:
        await launcher.start(job)
    assert requests == [
        {
            "entrypoint": "env 'PRICE=$5' 'run it'",
            "submission_id": JOB.name,
            "metadata": {"step": "train", "windlass_pool": "windlass/big"},
            "runtime_env": runtime_env,
            "entrypoint_num_cpus": 0.5,
            "entrypoint_memory": 512 * 2**20,
            "entrypoint_num_gpus": 2,
        }
    ]


@pytest.mark.parametrize(
    ("error_type", "cause"),
    [
        ("JOB_SUPERVISOR_ACTOR_DIED", Cause.NODE_LOST),
        ("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", Cause.UNSCHEDULABLE),
        ("RUNTIME_ENV_SETUP_FAILURE", Cause.IMAGE),
        ("JOB_ENTRYPOINT_COMMAND_START_ERROR", Cause.EXITED),
        ("SOMETHING_NEW", Cause.EXITED),
    ],
)
async def test_the_error_type_of_ray_determines_the_cause_of_a_failure(error_type: str, cause: Cause) -> None:
    document = f"""[
        {{"submission_id": "{JOB.name}", "status": "FAILED", "error_type": "{error_type}",
          "message": "It failed, last available logs (truncated):\\nhello", "driver_exit_code": null,
          "metadata": {{"windlass_pool": "windlass/big"}}}},
        {{"submission_id": "theirs", "status": "RUNNING", "metadata": {{"windlass_pool": "windlass/big"}}}},
        {{"submission_id": "{launch_name(uuid4(), 1)}", "status": "RUNNING", "metadata": null}},
        {{"submission_id": null, "status": "RUNNING"}}
    ]"""
    async with answering(200, document) as launcher:
        (job,) = await launcher.list()
    assert (job.name, job.phase, job.cause, job.detail) == (JOB.name, Phase.ENDED, cause, "It failed")
