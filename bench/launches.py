"""Measures launched steps: a no-op on the subprocess pool and in the worker, and a tick of a pool with many launches.

Run `python -m bench.launches`. It uses a worker on an embedded Postgres, real processes and an object store in a
folder. The tick reads real objects and decides about each launch; only the list of the pool is simulated, because
thousands of processes would measure the machine.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from bench.server import own_server
from windlass import Windlass, WorkerOptions
from windlass.core.launches import HEARTBEAT, STATUS, Launch, Limits, Phase, RemoteJob, TaskSpec, launch_name, mailbox
from windlass.effects.launchers import LaunchRequest
from windlass.engine import pools
from windlass.runtime.pools.launches import Launches, Tracked
from windlass.settings import Settings

OVERHEAD, TICK = 0.25, 1.0  # seconds: the ceilings


def main() -> None:
    options = argparse.ArgumentParser(prog="bench.launches", description=__doc__)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--live", type=int, default=10_000)
    chosen = options.parse_args()
    before = os.getloadavg()[0]
    with own_server() as server, tempfile.TemporaryDirectory() as home:
        url = asyncio.run(server.fresh("launches"))
        asyncio.run(measure(url, Path(home), chosen.steps, chosen.live))
    print(f"load before: {before:.1f}, {os.cpu_count()} cores")


async def measure(url: str, home: Path, steps: int, live: int) -> None:
    stop = asyncio.Event()
    async with Windlass(url, settings=Settings(home=home)) as app:
        app.workflow("here").command("noop", "true")
        app.workflow("elsewhere").command("noop", "true").on("subprocess")
        working = asyncio.create_task(app.work(WorkerOptions(allow_commands=True), stop=stop))
        db = await app.open()
        while not await pools.list_(db):
            await asyncio.sleep(0.05)
        times = {name: [await timed(app, name) for _ in range(steps + 3)][3:] for name in ("here", "elsewhere")}
        stop.set()
        await working
        here, elsewhere = (statistics.median(times[name]) for name in ("here", "elsewhere"))
        verdict = "ok" if elsewhere - here < OVERHEAD else f"above {OVERHEAD * 1000:g} ms"
        print(f"no-op here {here * 1000:.0f} ms, on the pool {elsewhere * 1000:.0f} ms: {verdict}")
        await tick(app, live)


async def timed(app: Windlass, workflow: str) -> float:
    started = time.perf_counter()
    await (await app.start(workflow)).wait(timeout=60)
    return time.perf_counter() - started


class Listed:
    """A launcher that lists all of its jobs as running."""

    list_every = 0.0

    def __init__(self, jobs: Sequence[RemoteJob]) -> None:
        self.hint = asyncio.Event()
        self._jobs = jobs

    async def start(self, request: LaunchRequest) -> None: ...

    async def list(self) -> Sequence[RemoteJob]:
        return self._jobs

    async def stop(self, name: str) -> None: ...

    async def remove(self, name: str) -> None: ...

    async def logs(self, name: str) -> str:
        return ""

    async def check(self) -> None: ...

    async def close(self) -> None: ...


async def tick(app: Windlass, live: int) -> None:
    db = (await app.open()).database
    objects, names = db.objects(), [launch_name(uuid4(), 1) for _ in range(live)]
    for name in names:
        await objects.put(f"{mailbox('many')}{name}/{STATUS}", b'{"state": "running"}')
        await objects.put(f"{mailbox('many')}{name}/{HEARTBEAT}", b"1")
    launcher = Listed([RemoteJob(name, Phase.RUNNING) for name in names])
    launches = Launches(db, "many", worker="pool:many", launcher=launcher, objects=objects, limits=Limits())
    loop = asyncio.get_running_loop()
    for name in names:
        launch = Launch(name=name, since=0.0, tried_at=0.0, started_at=time.monotonic())
        launches._tracked[name] = Tracked(launch, None, None, _spec(name), loop.create_future())  # type: ignore[arg-type]
    seconds = []
    for n in range(6):
        for name in names[n * live // 10 : (n + 1) * live // 10]:  # a tenth of the launches has a new heartbeat
            await objects.put(f"{mailbox('many')}{name}/{HEARTBEAT}", str(n + 2).encode())
        started = time.perf_counter()
        await launches.tick()
        seconds.append(time.perf_counter() - started)
    first, rest = seconds[0], statistics.median(seconds[1:])
    verdict = "ok" if rest < TICK else f"above {TICK:g} s"
    print(f"{live} live launches: the first tick {first:.2f} s, each tick {rest:.2f} s: {verdict}")


def _spec(name: str) -> TaskSpec:
    base = TaskSpec(
        name=name,
        task_id="",
        run_id="",
        task_name="",
        workflow_name="",
        attempt=1,
        fence=1,
        parallel_index=0,
        parallel_count=1,
        executor="command",
        call={},
        mailbox="",
    )
    return replace(base, mailbox=f"{mailbox('many')}{name}/")


if __name__ == "__main__":
    main()
