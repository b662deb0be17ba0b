"""Steps on a pool: real processes and a real object store in a folder."""

import json
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.keys import KEYS
from tests.runtime.conftest import Working, eventually
from windlass import Retry, Run, RunState, Windlass
from windlass.core.launches import Phase, RemoteJob
from windlass.effects.launchers import PoolOptions
from windlass.effects.launchers.subprocess import SubprocessLauncher
from windlass.effects.objects import ObjectMeta, Objects
from windlass.engine import artifacts, pools, secrets
from windlass.engine.database import Tenant
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs import control as jobs
from windlass.errors import InvalidWorkflow
from windlass.runtime.pools.mailboxes import Mailboxes
from windlass.settings import Settings

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the subprocess launcher requires Unix")


@pytest.fixture
async def app(database: str, tmp_path: Path) -> AsyncIterator[Windlass]:
    async with Windlass(database, settings=Settings(master_keys=KEYS, home=tmp_path / "home")) as opened:
        yield opened


async def test_a_command_on_the_subprocess_pool_has_output_and_log(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("sum", "echo counting; echo careful >&2; echo '{\"total\": 3}'").on("subprocess")
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        assert (await run.wait(timeout=60)).value == {"total": 3}
        assert sorted(await logged(run, 3)) == ["careful", "counting", '{"total": 3}']
        await eventually(lambda: nothing_left(tmp_path / "home"))


async def test_log_lines_missing_from_a_mailbox_listing_are_read_before_the_attempt_ends(
    app: Windlass, working: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory listing may include a file and miss another one that was written before it."""
    list_all = Objects.list

    async def list_without_lines(self: Objects, prefix: str) -> list[ObjectMeta]:
        found = await list_all(self, prefix)
        return [meta for meta in found if "/log-" not in meta.key] if prefix == "live/subprocess/" else found

    monkeypatch.setattr(Objects, "list", list_without_lines)
    app.workflow("report").command("sum", "echo counting; echo 3").on("subprocess")
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        assert (await run.wait(timeout=60)).value == 3
        assert await logged(run, 2) == ["counting", "3"]


async def test_a_step_on_an_unknown_pool_is_refused_when_it_is_published(app: Windlass) -> None:
    app.workflow("report").command("sum", "true").on("gpu")
    with pytest.raises(InvalidWorkflow, match=r"there is no pool 'gpu': there is none yet; .* WINDLASS_POOLS has it"):
        await app.publish()


async def test_without_a_worker_that_allows_commands_the_error_advises_to_start_one(app: Windlass) -> None:
    app.workflow("report").command("sum", "true").on("subprocess")
    with pytest.raises(InvalidWorkflow, match=r"'subprocess': .* start `windlass worker --allow-commands`"):
        await app.publish()


async def test_a_fanned_out_step_runs_on_a_pool_within_its_window(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    """Like the seed's example: parallel, foreach, concurrency, retry, logs."""
    flow = app.workflow("etl")
    discover = flow.command("discover", 'echo \'{"files": ["a", "b", "c"]}\'').on("subprocess")
    process = flow.command(
        "process",
        f'mkdir {tmp_path}/busy || exit 9; echo "$WINDLASS_INPUT" >> {tmp_path}/done; rmdir {tmp_path}/busy;'
        ' echo "{\\"index\\": $WINDLASS_INDEX, \\"count\\": $WINDLASS_COUNT}"',
    )
    process.on("subprocess").foreach(discover["files"], concurrency=1).after(discover).retry(max_attempts=1)
    async with working(app, allow_commands=True):
        run = await started(app, "etl")
        result = await run.wait(timeout=90)
    assert result.value == [{"index": n, "count": 3} for n in range(3)]
    inputs = [json.loads(line) for line in (tmp_path / "done").read_text().splitlines()]
    assert [each["item"] for each in inputs] == ["a", "b", "c"]
    assert inputs[0]["discover"] == {"files": ["a", "b", "c"]}  # results of the steps it needs, by name


async def test_a_step_of_an_app_runs_its_handler_in_the_launched_process(app: Windlass, working: Working) -> None:
    app.target = "tests.runtime.pool_app:app"
    app.workflow("sums").step("add", "pool.add.v1", input={"numbers": [1, 2, 3]}).on("subprocess")
    async with working(app, allow_commands=True):
        run = await started(app, "sums")
        value = (await run.wait(timeout=60)).value
        assert value["sum"] == 6
        assert value["pid"] != os.getpid()
        assert await logged(run, 1) == ["adding 3 numbers in sums/add"]


async def test_launched_handlers_write_and_read_artifacts(app: Windlass, working: Working, tmp_path: Path) -> None:
    app.target = "tests.runtime.pool_app:app"
    flow = app.workflow("files")
    written = flow.step("write", "pool.write.v1").on("subprocess").retry(max_attempts=2, retry=Retry(base=0.0))
    flow.step("read", "pool.read.v1", input={"rows": "{{tasks.write.artifacts.rows.csv}}"}).on("subprocess").after(
        written
    )
    async with working(app, allow_commands=True):
        run = await started(app, "files")
        value = (await run.wait(timeout=120)).value
        rows = await artifacts.of_run(await app.open(), run.id)
        await eventually(lambda: nothing_left(tmp_path / "home"))
    assert value == {"names": ["page.txt", "rows.csv"], "page": "<p>2</p>", "rows": 1000}
    assert [(row.name, row.attempt, row.is_result, row.media_type) for row in rows] == [
        ("page.txt", 1, False, "text/html"),
        ("page.txt", 2, True, "text/html"),
        ("rows.csv", 2, True, "text/csv"),
    ]


async def test_a_failed_command_is_retried_and_its_reason_is_kept(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("try", f"[ -e {tmp_path}/again ] && exit 0; touch {tmp_path}/again; echo broken >&2; exit 3").on(
        "subprocess"
    ).retry(max_attempts=2, retry=Retry(base=0.0))
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        assert (await run.wait(timeout=60)).state is RunState.COMPLETED
        explained = str(await run.explain())
    assert "exited with 3: broken" in explained


async def test_a_stop_request_written_after_its_launch_was_removed_is_cleaned_up(
    app: Windlass, working: Working, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second attempt stops the first, which a stale list of jobs still contains."""
    list_jobs, ask_to_stop = SubprocessLauncher.list, Mailboxes.ask_to_stop
    asked: list[str] = []

    async def list_with_the_first(self: SubprocessLauncher) -> Sequence[RemoteJob]:
        listed = await list_jobs(self)
        if asked:
            return listed
        return [replace(job, phase=Phase.RUNNING) if job.name.endswith("-1") else job for job in listed]

    async def ask_when_removed(self: Mailboxes, launch: str) -> None:
        async def is_removed() -> bool:
            return not await self.of_launch(launch)

        await eventually(is_removed)
        await ask_to_stop(self, launch)
        asked.append(launch)

    monkeypatch.setattr(SubprocessLauncher, "list", list_with_the_first)
    monkeypatch.setattr(Mailboxes, "ask_to_stop", ask_when_removed)
    flow = app.workflow("report")
    flow.command("try", f"[ -e {tmp_path}/again ] && exit 0; touch {tmp_path}/again; exit 3").on("subprocess").retry(
        max_attempts=2, retry=Retry(base=0.0)
    )
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        assert (await run.wait(timeout=60)).state is RunState.COMPLETED
        await eventually(lambda: nothing_left(tmp_path / "home"))
    assert [name[-2:] for name in asked] == ["-1"]


async def test_a_killed_launched_process_leaves_no_child_process_and_records_the_reason(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("wait", f"echo $$ > {tmp_path}/pid; exec sleep 1000").on("subprocess").retry(max_attempts=1)
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        command = await eventually(lambda: written(tmp_path / "pid"), seconds=30)
        os.kill(parent(command), signal.SIGKILL)  # windlass.exec
        assert (await run.wait(timeout=60)).state is RunState.FAILED
        explained = str(await run.explain())
        await eventually(lambda: gone(command), seconds=30)
    assert "the job ended without a status (killed by SIGKILL)" in explained


async def test_a_cancelled_run_stops_the_launched_process_before_its_step_ends(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("wait", f"echo $$ > {tmp_path}/pid; exec sleep 1000").on("subprocess")
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        command = await eventually(lambda: written(tmp_path / "pid"), seconds=30)
        await run.cancel()
        db = await app.open()
        await eventually(lambda: ended(db, run), seconds=60)
        assert await gone(command)


async def test_a_time_limit_counts_from_the_start_of_the_launched_process(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("wait", "exec sleep 1000").on("subprocess").timeout("1s").retry(max_attempts=1)
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        assert (await run.wait(timeout=60)).steps == {"wait": "timed out"}


async def test_secrets_are_masked_and_not_in_the_object_store(app: Windlass, working: Working, tmp_path: Path) -> None:
    await secrets.set_(await app.open(), "TOKEN", "c4nary-0123456789")
    wait = f"touch {tmp_path}/began; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done"
    flow = app.workflow("report")
    flow.command("print", f"{wait}; echo {{{{secrets.TOKEN}}}}; echo '\"done\"'").on(
        "subprocess", env={"TASK_SPEC_PATH": "that/of/another"}
    )
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        await eventually(lambda: exists(tmp_path / "began"), seconds=30)
        objects = [path.read_bytes() for path in (tmp_path / "home" / "objects").rglob("*") if path.is_file()]
        (tmp_path / "go").touch()
        assert (await run.wait(timeout=60)).value == "done"
        assert (await logged(run, 2))[0] == "[secret TOKEN]"
    assert any(b'"executor": "command"' in content for content in objects)
    assert not any(b"c4nary" in content for content in objects)


async def test_an_output_that_is_too_large_for_a_row_becomes_an_artifact(app: Windlass, working: Working) -> None:
    flow = app.workflow("report")
    flow.command("large", """head -c 20000000 /dev/zero | tr '\\0' x | sed 's/.*/"&"/' > "$WINDLASS_OUTPUT" """).on(
        "subprocess"
    )
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        value = (await run.wait(timeout=60)).value
    assert value == {"artifact": f"artifact://{run.id}/large/0/output.json", "size": 20_000_002}


@pytest.mark.parametrize(
    ("options", "run", "reason"),
    [
        ({"heartbeat_within": 2.0}, "exec sleep 1000", "heartbeat timeout"),
        ({"start_within": 2.0, "options": {"command": ["sleep", "1000"]}}, "true", "job never started"),
        ({"options": {"command": ["/nowhere"]}, "start_within": 2.0}, "true", "job never started: the process cannot"),
        ({"options": {"command": ["sh", "-c", "echo no python here >&2; exit 127"]}}, "true", "(exit code 127)"),
    ],
)
async def test_a_launched_job_that_does_not_start_or_misses_its_heartbeats_fails_with_a_reason(
    database: str, working: Working, tmp_path: Path, options: dict[str, Any], run: str, reason: str
) -> None:
    pool = PoolOptions(name="subprocess", launcher="subprocess", **options)
    settings = Settings(master_keys=KEYS, home=tmp_path / "home", pools=(pool,))
    async with Windlass(database, settings=settings) as app:
        app.workflow("report").command("it", run).on("subprocess").retry(max_attempts=1)
        async with working(app, allow_commands=True):
            started_run = await started(app, "report")
            assert (await started_run.wait(timeout=60)).state is RunState.FAILED
            assert reason in str(await started_run.explain())
            await eventually(lambda: nothing_left(tmp_path / "home"), seconds=30)


async def test_the_state_of_a_launched_job_is_recorded_as_its_progress(
    app: Windlass, working: Working, tmp_path: Path
) -> None:
    flow = app.workflow("report")
    flow.command("wait", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done").on("subprocess")
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        db = await app.open()

        async def is_running() -> bool:
            instances = await run.instances("wait")
            progress = await checkpoints.progress(db, instances[0].job_id) if instances else None
            return progress is not None and progress.message == "running on subprocess"

        await eventually(is_running, seconds=60)
        (tmp_path / "go").touch()
        assert (await run.wait(timeout=60)).state is RunState.COMPLETED


async def test_a_job_launched_by_another_worker_is_taken_over(app: Windlass, working: Working, tmp_path: Path) -> None:
    flow = app.workflow("report")
    script = f"echo $$ >> {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo '\"done\"'"
    flow.command("wait", script).on("subprocess").retry(max_attempts=1)
    async with working(app, allow_commands=True):
        run = await started(app, "report")
        command = await eventually(lambda: written(tmp_path / "pid"), seconds=30)
    assert not await gone(command)  # the worker has stopped, the job goes on
    (tmp_path / "go").touch()
    async with working(app, allow_commands=True):
        assert (await run.wait(timeout=60)).value == "done"
    assert len((tmp_path / "pid").read_text().split()) == 1


async def started(app: Windlass, name: str) -> Run:
    """Start a run once the pool is known: until then the workflow cannot be published."""
    db = await app.open()
    await eventually(lambda: pools.list_(db))
    return await app.start(name)


async def logged(run: Run, count: int) -> list[str]:
    """Return the log lines of a run: they may be recorded shortly after its end."""

    async def lines() -> list[str] | None:
        messages = [line.message for _, line in await run.lines()]
        return messages if len(messages) >= count else None

    return await eventually(lines)


async def nothing_left(home: Path) -> bool:
    folders = (home / "objects" / "live", home / "pools" / "subprocess")
    return not any(files for folder in folders for _, _, files in os.walk(folder))


async def exists(path: Path) -> bool:
    return path.exists()


async def written(path: Path) -> int | None:
    text = path.read_text().strip() if path.exists() else ""
    return int(text) if text else None


async def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def ended(db: Tenant, run: Run) -> bool:
    return (
        all(job.status != "leased" for job in (await jobs.list_(db)).jobs) and await run.ended() is RunState.CANCELLED
    )


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
