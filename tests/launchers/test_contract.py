"""The contract of all launchers, tested on every kind of pool."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4 as job_id

import pytest

import windlass
from tests.launchers.pools import KILLED, Pool, ended, gone, running, seen
from windlass.core.launches import Cause, Phase, TaskSpec, launch_name
from windlass.effects.launchers import LaunchRequest, PoolOptions, open_launcher
from windlass.effects.objects import Objects
from windlass.errors import Invalid, Unavailable

SOURCES = str(Path(windlass.__file__).parents[1])
WAIT_FOR_GO = 'echo $$ > "$DIR/pid"; while ! [ -e "$DIR/go" ]; do sleep 0.1; done; echo done >> "$DIR/out"'
WAIT = 'echo $$ > "$DIR/pid"; exec sleep 300'


# Starting


async def test_a_job_runs_with_its_environment_and_ends(pool: Pool) -> None:
    job = pool.job('echo "$WORD $TOKEN" > "$DIR/out"', env={"WORD": "it's $HOME"}, secret_env={"TOKEN": "a \"b\" 'c'"})
    async with pool.open() as launcher:
        await launcher.start(job)
        (listed,) = await ended(launcher, job)
    assert (listed.name, listed.cause, listed.exit_code) == (job.name, Cause.EXITED, 0)
    assert pool.lines("out") == ["it's $HOME a \"b\" 'c'"]


async def test_a_job_started_twice_runs_once(pool: Pool) -> None:
    job = pool.job('echo once >> "$DIR/out"; ' + WAIT_FOR_GO)
    async with pool.open() as launcher, pool.open() as other:
        await asyncio.gather(launcher.start(job), other.start(job))
        await pool.written("pid")
        await other.start(job)
        assert [listed.name for listed in await launcher.list()] == [job.name]
        (pool.folder / "go").touch()
        await ended(launcher, job)
    assert pool.lines("out") == ["once", "done"]


async def test_an_ended_job_stays_listed_and_is_not_started_again(pool: Pool) -> None:
    job, later = pool.job('echo once >> "$DIR/out"'), pool.job('echo later >> "$DIR/out"')
    async with pool.open() as launcher:
        await launcher.start(job)
        await ended(launcher, job)
        await launcher.start(job)
        await launcher.start(later)
        await ended(launcher, job, later)
    assert pool.lines("out") == ["once", "later"]


async def test_a_removed_job_is_no_longer_listed(pool: Pool) -> None:
    job, other = pool.job("true"), pool.job("true")
    async with pool.open() as launcher:
        await asyncio.gather(launcher.start(job), launcher.start(other))
        await ended(launcher, job, other)
        await launcher.remove(job.name)
        await launcher.remove(job.name)
        await seen(launcher, lambda jobs: jobs.keys() == {other.name})


async def test_many_jobs_are_started_at_once_and_each_runs_once(pool: Pool) -> None:
    jobs = [pool.job(f'echo {number} >> "$DIR/out"') for number in range(pool.starts)]
    async with pool.open() as launcher:
        await asyncio.gather(*[launcher.start(job) for job in jobs])
        listed = await ended(launcher, *jobs)
    assert {job.exit_code for job in listed} == {0}
    assert sorted(map(int, pool.lines("out"))) == list(range(pool.starts))


async def test_without_a_command_a_job_performs_the_task_of_its_specification(pool: Pool) -> None:
    objects = Objects.open(f"file://{pool.folder}/objects")
    job = await task(pool, objects, "echo counting; echo '{\"total\": 3}'")
    async with pool.open(command=own_command(pool)) as launcher:
        await launcher.start(job)
        (listed,) = await ended(launcher, job)
        assert listed.exit_code == 0
    assert json.loads(await objects.get("live/status.json"))["state"] == "success"
    assert json.loads(await objects.get("live/output.json")) == {"total": 3}


def own_command(pool: Pool) -> list[str] | None:
    """Return the command of windlass.exec where the default one would not find it: Ray has a Python of its own."""
    return [sys.executable, "-m", "windlass.exec"] if pool.kind == "ray" else None


async def task(pool: Pool, objects: Objects, run: str) -> LaunchRequest:
    """Return a job that performs a command step, whose specification is in the store."""
    job = pool.job("", env={"WINDLASS_OBJECTS_URL": objects.url, "TASK_SPEC_PATH": "spec.json", "PYTHONPATH": SOURCES})
    spec = TaskSpec(
        name=job.name,
        task_id=str(job_id()),
        run_id=str(job_id()),
        task_name="count",
        workflow_name="nightly",
        attempt=1,
        fence=1,
        parallel_index=0,
        parallel_count=1,
        executor="command",
        call={"run": run},
        mailbox="live/",
    )
    await objects.put("spec.json", json.dumps(asdict(spec)).encode())
    return job


# The launching process dies


async def test_a_job_survives_its_launcher_and_is_listed_by_the_next_one(pool: Pool) -> None:
    job = pool.job(WAIT_FOR_GO)
    async with pool.open() as launcher:
        await launcher.start(job)
    async with pool.open() as successor:
        await pool.written("pid")
        assert (await running(successor, job)).phase is Phase.RUNNING
        await successor.start(job)
        (pool.folder / "go").touch()
        await ended(successor, job)
    assert pool.lines("out") == ["done"]


@pytest.mark.parametrize("moment", ["ready", "started"])
async def test_a_job_runs_once_if_its_launching_process_is_killed(pool: Pool, moment: str) -> None:
    objects = Objects.open(f"file://{pool.folder}/objects")
    job = await task(pool, objects, f"echo once >> '{pool.folder}/out'")
    command = own_command(pool)
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.launchers.launching_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    arguments = {
        "pool": asdict(pool.pool_options(command=command)),
        "request": {"name": job.name, "env": dict(job.env)},
    }
    process.stdin.write(json.dumps(arguments).encode() + b"\n")
    while (line := await process.stdout.readline()) != f"{moment}\n".encode():
        assert line, "the process failed"
    process.kill()
    await process.wait()
    async with pool.open(command=command) as successor:
        await successor.start(job)
        await ended(successor, job)
    assert pool.lines("out") == ["once"]


async def test_the_next_launcher_can_stop_a_job(pool: Pool) -> None:
    job = pool.job(WAIT)
    async with pool.open() as launcher:
        await launcher.start(job)
        pid = int(await pool.written("pid"))
    async with pool.open() as successor:
        await successor.stop(job.name)
        await gone(successor, job)
        await pool.dead(pid)


# Stopping


async def test_a_stopped_job_ends(pool: Pool) -> None:
    job, other = pool.job(WAIT), pool.job(WAIT.replace("pid", "other"))
    async with pool.open() as launcher:
        await asyncio.gather(launcher.start(job), launcher.start(other))
        pid, untouched = int(await pool.written("pid")), int(await pool.written("other"))
        await launcher.stop(job.name)
        await launcher.stop(job.name)
        await gone(launcher, job)
        await pool.dead(pid)
        assert pool.is_alive(untouched)
        await launcher.stop(other.name)
        await pool.dead(untouched)


async def test_stopping_an_unknown_or_an_ended_job_changes_nothing(pool: Pool) -> None:
    job = pool.job("exit 3")
    async with pool.open() as launcher:
        await launcher.stop(launch_name(job_id(), 1))
        await launcher.start(job)
        await ended(launcher, job)
        await launcher.stop(job.name)
        await gone(launcher, job)
        await launcher.remove(launch_name(job_id(), 1))


# How it ended


async def test_a_killed_job_has_ended_with_a_cause(pool: Pool) -> None:
    job = pool.job(KILLED)
    async with pool.open() as launcher:
        await launcher.start(job)
        await pool.kill()
        (listed,) = await ended(launcher, job)
    assert listed.cause is not None
    assert listed.exit_code != 0
    assert listed.detail


async def test_the_output_of_a_failed_job_can_be_read(pool: Pool) -> None:
    job = pool.job("echo working; echo broken >&2; exit 3")
    async with pool.open() as launcher:
        await launcher.start(job)
        (listed,) = await ended(launcher, job)
        log = await launcher.logs(job.name)
        assert await launcher.logs(launch_name(job_id(), 1)) == ""
    assert (listed.cause, listed.exit_code) == (Cause.EXITED, 3)
    assert "working\nbroken\n" in log


# Pools


async def test_a_pool_lists_only_its_own_jobs(pool: Pool) -> None:
    job = pool.job("true")
    folder = {"folder": str(pool.folder / "others")} if pool.kind == "subprocess" else {}
    async with pool.open() as launcher, pool.open(name=f"{pool.name}-2", **folder) as other:
        await other.start(job)
        await ended(other, job)
        assert await launcher.list() == []


async def test_installations_that_share_a_cluster_list_their_own_jobs(pool: Pool) -> None:
    if pool.kind == "subprocess":
        pytest.skip("a folder is that of one installation")
    job = pool.job("true")
    async with pool.open() as launcher, pool.open(instance="other") as other:
        await other.start(job)
        await ended(other, job)
        assert await launcher.list() == []


async def test_a_usable_pool_passes_its_check(pool: Pool) -> None:
    async with pool.open() as launcher:
        await launcher.check()
        assert await launcher.list() == []


async def test_the_check_of_an_unusable_pool_reports_the_reason(pool: Pool) -> None:
    async with pool.open(**pool.unreachable) as launcher:
        with pytest.raises(Unavailable) as refused:
            await launcher.check()
    reason = pool.unreachable.get("folder") or "127.0.0.1:1"
    assert reason in str(refused.value)


async def test_an_unknown_option_is_refused(pool: Pool) -> None:
    with pytest.raises(Invalid, match="colour"):
        open_launcher(PoolOptions(name="paint", launcher=pool.kind, options={**pool.options, "colour": "red"}))
