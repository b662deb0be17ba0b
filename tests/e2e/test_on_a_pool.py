"""The example of steps on a pool: fan-out, concurrency, retry and logs, in separate processes."""

import asyncio
from pathlib import Path

from windlass import Windlass, WorkerOptions
from windlass.effects.documents import read
from windlass.engine import pools
from windlass.settings import Settings

ROOT = Path(__file__).parents[2]


async def test_the_pool_example_runs_on_the_subprocess_pool(database: str, tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with Windlass(database, settings=Settings(home=tmp_path)) as app:
        work = asyncio.create_task(app.work(WorkerOptions(allow_commands=True), stop=stop))
        db = await app.open()
        async with asyncio.timeout(30):
            while not await pools.list_(db):
                await asyncio.sleep(0.05)
        await app.deploy(*read(ROOT / "examples" / "on-a-pool.yaml"))
        run = await app.start("on-a-pool")
        result = await run.wait(timeout=90)
        stop.set()
        await work  # it has recorded all log lines
        lines = [line.message for _, line in await run.lines(step="process")]
    assert result.value == {"rows": [{"rows": 0}, {"rows": 10}, {"rows": 20}], "workers": [0, 1]}
    assert "task 1 of 3, attempt 1: b.csv" in lines
    assert "task 1 of 3, attempt 2: b.csv" in lines
