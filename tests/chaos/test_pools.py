"""Steps on the subprocess pool while the workers that launch them are killed."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, Inbox, eventually
from windlass import RunState, Windlass
from windlass.client import AsyncClient
from windlass.effects.documents import read
from windlass.engine import pools
from windlass.engine.faults import POINTS
from windlass.errors import ServerUnreachable
from windlass.settings import Settings

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
STEPS, KILLS = 12, 3
WORKER = ["worker", "--allow-commands", "--lease", "2s"]  # the next one takes over the pool after 2 seconds


async def test_each_step_runs_once_while_its_launching_processes_are_killed(database: str, tmp_path: Path) -> None:
    home, done = tmp_path / "home", tmp_path / "done"
    script = f'echo "$WINDLASS_INDEX" >> {done}; sleep 0.3; echo "$WINDLASS_INDEX"'
    environ = {"WINDLASS_HOME": str(home)}
    async with Windlass(database, settings=Settings(home=home)) as app:
        flow = app.workflow("launched")
        flow.command("work", script).on("subprocess").parallel(STEPS, concurrency=4).retry(max_attempts=1)
        db = await app.open()
        with Crew(database, tmp_path, environ=environ) as crew:
            crew.run("launcher-0", WORKER)
            await eventually(lambda: pools.list_(db), "the pool is known")
            run = await app.start("launched")
            for n in range(1, KILLS + 1):
                await eventually(partial(ran, done, STEPS * n // (KILLS + 1)), f"part {n} has run")
                crew.members[-1].kill()
                crew.run(f"launcher-{n}", WORKER)
            async with asyncio.timeout(100):
                assert await run.ended() is RunState.COMPLETED
            await eventually(lambda: nothing_left(home), "what was launched is removed")
        assert sorted((await run.result()).output) == list(range(STEPS))
    assert Counter(done.read_text().split()) == Counter(map(str, range(STEPS)))
    assert launched_processes(home) == []


@pytest.mark.parametrize("fault", [name for name in POINTS if name.startswith("launch.")])
async def test_a_step_runs_once_if_its_launching_process_dies_at_any_fault_point(
    database: str, tmp_path: Path, fault: str
) -> None:
    home, done = tmp_path / "home", tmp_path / "done"
    async with Windlass(database, settings=Settings(home=home)) as app:
        flow = app.workflow("launched")
        flow.command("work", f"echo ran >> {done}; echo 1").on("subprocess").retry(max_attempts=1)
        db = await app.open()
        with Crew(database, tmp_path, environ={"WINDLASS_HOME": str(home)}) as crew:
            first = crew.run("first", WORKER, fault=fault)
            await eventually(lambda: pools.list_(db), "the pool is known")
            run = await app.start("launched")
            await first.ended(within=60)
            crew.run("second", WORKER)
            async with asyncio.timeout(60):
                assert await run.ended() is RunState.COMPLETED
            await eventually(lambda: nothing_left(home), "what was launched is removed", within=60)
        assert (await run.result()).output == 1
    assert done.read_text().split() == ["ran"]


async def test_the_pool_example_completes_once_while_task_worker_and_server_are_killed(
    database: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    port = free_port()
    server = ["server", "--port", str(port)]
    with Crew(database, tmp_path, environ={"WINDLASS_HOME": str(home)}) as crew:
        first_server = crew.run("server-1", server)
        launcher = crew.run("launcher-1", WORKER)
        async with AsyncClient(f"http://127.0.0.1:{port}", retries=20) as client, asyncio.timeout(150):
            await eventually(lambda: pool_is_offered(client), "the pool is offered", within=60)
            await client.workflows.deploy(*read(ROOT / "examples" / "on-a-pool.yaml"))
            run = (await client.start("on-a-pool")).run_id
            task = await eventually(lambda: process_task(home), "a task of `process` runs", every=0.01)
            os.kill(task, signal.SIGKILL)
            await eventually(lambda: process_task(home, besides=task), "another one runs", within=60, every=0.01)
            first_server.kill()
            launcher.kill()
            crew.run("launcher-2", WORKER)
            crew.run("server-2", server)
            await eventually(lambda: is_answering(client), "the second server answers", within=60)
            ended = await client.runs.wait(run)
            await eventually(lambda: nothing_left(home), "what was launched is removed", within=60)
            assert ended.status == "completed"
            output = await client.runs.output(run)
            lines = [line.message async for line in client.tasks.logs(run, "process")]
    assert output == {"rows": [{"rows": 0}, {"rows": 10}, {"rows": 20}], "workers": [0, 1]}
    assert {line.partition(",")[0] for line in lines if line.startswith("task")} == {f"task {n} of 3" for n in range(3)}
    async with Inbox.open(database) as inbox:
        ends = await inbox.fetch(
            "select count(*) from workflow.workflow_event where event_type = 'succeeded' group by workflow_id"
        )
    assert ends == [(1,)] * 7  # discover, three of process, two of workers, report
    assert launched_processes(home) == []


async def test_a_storm_of_cancellations_leaves_no_process(database: str, tmp_path: Path) -> None:
    home, began = tmp_path / "home", tmp_path / "began"
    async with Windlass(database, settings=Settings(home=home)) as app:
        flow = app.workflow("launched")
        flow.command("work", f"echo $$ >> {began}; exec sleep 1000").on("subprocess").parallel(8)
        db = await app.open()
        with Crew(database, tmp_path, environ={"WINDLASS_HOME": str(home)}) as crew:
            crew.run("launcher", WORKER)
            await eventually(lambda: pools.list_(db), "the pool is known")
            runs = [await app.start("launched") for _ in range(2)]
            await eventually(partial(ran, began, 8), "as many run as the pool has places", within=60)
            await asyncio.gather(*(run.cancel() for run in runs))
            await eventually(lambda: nothing_left(home), "what was launched is removed", within=90)
            assert launched_processes(home) == []
            crew.assert_calm()


async def ran(done: Path, count: int) -> bool:
    return done.exists() and len(done.read_text().split()) >= count


async def nothing_left(home: Path) -> bool:
    folders = (home / "objects" / "live", home / "pools" / "subprocess")
    return not any(files for folder in folders for _, _, files in os.walk(folder))


def free_port() -> int:
    with socket.socket() as unbound:
        unbound.bind(("127.0.0.1", 0))
        return int(unbound.getsockname()[1])


async def pool_is_offered(client: AsyncClient) -> bool:
    return await is_answering(client) and bool((await client.pools.list().page()).items)


async def is_answering(client: AsyncClient) -> bool:
    with contextlib.suppress(ServerUnreachable):
        await client.stats()
        return True
    return False


async def process_task(home: Path, *, besides: int = 0) -> int:
    """Return the pid of a process that executes a task of `process`; 0 if none does."""
    for pid, environ in launched_processes(home):
        spec = re.search("TASK_SPEC_PATH=([^\0]+)", environ)
        with contextlib.suppress(FileNotFoundError):  # the task has just ended
            if pid != besides and spec and "$WINDLASS_COUNT" in (home / "objects" / spec[1]).read_text():
                return pid
    return 0


def launched_processes(home: Path) -> list[tuple[int, str]]:
    """Return pid and environment of the processes that were launched for this test and still run."""
    marker = json.dumps(str(home))[1:-1]
    processes = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "WINDLASS_LAUNCH=" in text and marker in text and path.parent.name != str(os.getpid()):
            processes.append((int(path.parent.name), text))
    return processes
