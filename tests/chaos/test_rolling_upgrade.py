"""A rolling upgrade: processes of the previous release and of this one use one database concurrently."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.chaos.harness import ROOT, eventually
from windlass import Windlass
from windlass.settings import Settings

PREVIOUS = "83fab93b43eeba5388d6f5f83a2afeada930b3b1"  # the last commit of the previous release
RUNS = 120
APP = """
from windlass import Context, Windlass

app = Windlass()


@app.job("roll.list.v1")
async def items(ctx: Context, n: int) -> list[int]:
    return list(range(n % 4))


@app.job("roll.each.v1")
async def each(ctx: Context, item: int) -> int:
    return item


@app.job("roll.sum.v1")
async def total(ctx: Context) -> int:
    return 1
"""
# Not by the command line: that of the previous release needs packages that this one does not install.
WORK = """
import asyncio, sys
import rolling
from windlass import WorkerOptions

asyncio.run(rolling.app.work(WorkerOptions(id=sys.argv[1], concurrency=8)))
"""
TASKS: dict[str, Any] = {
    "list": {"job": "roll.list.v1", "input": {"n": "{{trigger.body.n}}"}},
    "each": {"needs": ["list"], "foreach": "list", "job": "roll.each.v1"},
    "nap": {"needs": ["list"], "sleep": "200ms"},
    "sum": {"needs": ["each", "nap"], "if": "tasks.list.status == 'success'", "job": "roll.sum.v1"},
}


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The sources of the previous release."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", PREVIOUS, "src"], capture_output=True, check=False)
    if packed.returncode:
        pytest.skip("this tree has no git history: the previous release is not available")
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as tree:
        tree.extractall(tmp_path / "previous", filter="data")
    return tmp_path / "previous" / "src"


@pytest.fixture
def workers(previous: Path, tmp_path: Path, database: str) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """A worker of each release, with all loops, on one database."""
    (tmp_path / "rolling.py").write_text(APP)
    started: dict[str, subprocess.Popen[bytes]] = {}
    for name, source in (("previous", previous), ("this", ROOT / "src")):
        environment = {**os.environ, "WINDLASS_DATABASE_URL": database}
        environment["PYTHONPATH"] = os.pathsep.join([str(source), str(tmp_path)])
        started[name] = subprocess.Popen(
            [sys.executable, "-c", WORK, name],
            env=environment,
            cwd=tmp_path,
            stdout=sys.stderr,
            stderr=sys.stderr,
        )
    yield started
    for process in started.values():
        process.kill()
        process.wait()


async def test_workers_of_both_releases_share_one_database(
    workers: dict[str, "subprocess.Popen[bytes]"], database: str
) -> None:
    conn = await asyncpg.connect(database)
    async with Windlass(database, settings=Settings()) as app:
        await app.deploy({"name": "rolling", "tasks": TASKS})

        async def alive() -> bool:
            return bool(await conn.fetchval("select count(*) from windlass.worker") == len(workers))

        await eventually(alive, "both workers have registered", within=60)
        for n in range(RUNS):
            await app.start("rolling", {"n": n})

        async def ended() -> bool:
            return bool(await conn.fetchval("select count(*) from windlass.run where state = 'completed'") == RUNS)

        await eventually(ended, "all runs have completed", within=90)
    assert {name for name, process in workers.items() if process.poll() is not None} == set()
    claims = await conn.fetch("select distinct actor from workflow.workflow_event where event_type = 'leased'")
    assert {row[0] for row in claims} == {"previous", "this"}
    ends = await conn.fetch(
        """select run_id, step, item, count(*) from workflow.workflow_run j
             join workflow.workflow_event e on e.workflow_id = j.id and e.event_type = 'succeeded'
            group by run_id, step, item having count(*) <> 1"""
    )
    assert ends == []
    created = await conn.fetchval(
        """select count(*) from workflow.workflow_run j where 1 <> (
             select count(*) from workflow.workflow_event e
              where e.workflow_id = j.id and e.event_type = 'created')"""
    )
    assert created == 0
    assert await conn.fetchval("select count(*) from windlass.quarantine") == 0
    await conn.close()
