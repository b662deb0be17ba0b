"""Steps on the subprocess pool while the workers that launch them are killed."""

import asyncio
import json
import os
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, eventually
from windlass import RunState, Windlass
from windlass.engine import pools
from windlass.engine.faults import POINTS
from windlass.settings import Settings

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
async def test_a_step_runs_once_wherever_its_launching_process_dies(database: str, tmp_path: Path, fault: str) -> None:
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


def launched_processes(home: Path) -> list[str]:
    """Return the environments of processes that were launched for this test and still run."""
    marker = json.dumps(str(home))[1:-1]
    left = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            text = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "WINDLASS_LAUNCH=" in text and marker in text and path.parent.name != str(os.getpid()):
            left.append(text)
    return left
