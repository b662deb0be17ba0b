"""Launched steps when jobs, the list of the pool or clocks misbehave, and the number of concurrent launches.

Jobs are shell scripts that imitate `windlass.exec`, correctly or not: they are quick and can stop at any point.

Elsewhere: a second start, kills of the launching process and of the job, on every kind of launcher (test_contract.py);
kills between every two operations of a launch, a storm of cancellations (tests/chaos/test_pools.py); a heartbeat that
stops while the job lives (tests/runtime/test_pools.py); all orders of these events (tests/unit/test_launches.py).
"""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.keys import KEYS
from tests.launchers.pools import dead, is_alive
from tests.runtime.conftest import eventually
from windlass import Retry, Run, RunState, Windlass
from windlass.core.launches import Limits, Phase, RemoteJob
from windlass.effects.launchers import Launcher, PoolOptions, open_launcher
from windlass.effects.objects import ObjectMeta
from windlass.engine import pools
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.errors import Unavailable
from windlass.runtime.pools.pool import Pool
from windlass.settings import Settings

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the subprocess launcher requires Unix")
# `box` is the folder with the objects of the launch. An object appears at once, as in every store.
PRELUDE = """
launch=$(basename "$(dirname "$TASK_SPEC_PATH")")
box="${WINDLASS_OBJECTS_URL#file://}/$(dirname "$TASK_SPEC_PATH")"
write() { printf %s "$2" > "$DIR/$launch.tmp"; mv "$DIR/$launch.tmp" "$1"; }
succeed() { write "$box/output.json" "$1"; write "$box/status.json" '{"state": "success"}'; }
"""
FAST = Limits(again=0.2, unlisted=60.0)


class Faulty:
    """A launcher that fails to stop jobs, or does not list them, until the test resets it."""

    def __init__(self, launcher: Launcher) -> None:
        self.hint, self.list_every = launcher.hint, 0.1
        self.stops: list[str] = []  # those that were asked for
        self.refuses_stops = False
        self.lists_nothing = False
        self.lists = 0
        self.is_waiting = False
        self.race: tuple[asyncio.Event, asyncio.Event, Path] | None = None  # see the test that sets it
        self._launcher = launcher
        self.start, self.remove, self.logs = launcher.start, launcher.remove, launcher.logs
        self.check, self.close = launcher.check, launcher.close

    async def stop(self, name: str) -> None:
        self.stops.append(name)
        if self.refuses_stops:
            raise Unavailable("not now")
        await self._launcher.stop(name)

    async def list(self) -> Sequence[RemoteJob]:
        if self.race is not None:
            (is_read, is_listed, go), self.race, self.is_waiting = self.race, None, True
            await is_read.wait()
            self.is_waiting = False
            go.touch()
            while any(job.phase is not Phase.ENDED for job in await self._launcher.list()):
                await asyncio.sleep(0.02)
            asyncio.get_running_loop().call_later(0.05, is_listed.set)
        jobs = await self._launcher.list()
        self.lists += 1
        return [] if self.lists_nothing else jobs


class Bench:
    """An app, and a pool `scripts` that runs in this process."""

    def __init__(self, app: Windlass, db: Tenant, folder: Path) -> None:
        self.app, self.db, self.folder = app, db, folder

    @contextlib.asynccontextmanager
    async def pool(self, script: str, *, max_parallel: int = 4, limits: Limits = FAST) -> AsyncIterator[Faulty]:
        options = PoolOptions(
            name="scripts",
            launcher="subprocess",
            max_parallel=max_parallel,
            env={"DIR": str(self.folder)},
            options={"folder": str(self.folder / "jobs"), "command": ["sh", "-c", PRELUDE + script]},
        )
        launcher = Faulty(open_launcher(options))
        pool = Pool(self.db.database, options, launcher=launcher, objects=self.db.objects(), limits=limits)
        await pools.offer(self.db, [(options.name, options.launcher, max_parallel, None)])
        stop = asyncio.Event()
        task = asyncio.create_task(pool.run(stop, holder="test"))
        try:
            yield launcher
        finally:
            stop.set()
            await task

    async def start(self, *, attempts: int = 1, parallel: int | None = None) -> Run:
        step = self.app.workflow("launched").command("work", "true").on("scripts")
        step.retry(max_attempts=attempts, retry=Retry(base=0.0))
        if parallel is not None:
            step.parallel(parallel)
        return await self.app.start("launched")

    def lines(self, file: str) -> list[str]:
        path = self.folder / file
        return path.read_text().split() if path.exists() else []

    async def wrote(self, file: str) -> list[str]:
        async def look() -> list[str]:
            return self.lines(file)

        return await eventually(look, seconds=60)


@pytest.fixture
async def bench(database: str, tmp_path: Path) -> AsyncIterator[Bench]:
    async with Windlass(database, settings=Settings(master_keys=KEYS, home=tmp_path / "home")) as app:
        yield Bench(app, await app.open(), tmp_path)


@pytest.mark.parametrize(
    ("launches", "cap"),
    [(40, 4), pytest.param(1000, 50, marks=[pytest.mark.soak, pytest.mark.timeout(900)])],
)
async def test_a_pool_runs_at_most_max_parallel_jobs_and_launches_each_once(
    bench: Bench, launches: int, cap: int
) -> None:
    script = f"""
    echo "+$launch" >> "$DIR/log"
    while [ $(grep -c "^+" "$DIR/log") -lt {cap} ]; do sleep 0.05; done
    echo "-$launch" >> "$DIR/log"; succeed 1
    """
    async with bench.pool(script, max_parallel=cap):
        run = await bench.start(parallel=launches)
        assert (await run.wait(timeout=800)).value == [1] * launches
    alive, most, started = set(), 0, Counter[str]()
    for line in bench.lines("log"):
        sign, name = line[0], line[1:]
        if sign == "+":
            alive.add(name)
            started[name] += 1
        else:
            alive.discard(name)
        most = max(most, len(alive))
    assert most == cap
    assert len(started) == launches
    assert set(started.values()) == {1}


async def test_the_end_of_a_job_is_not_processed_before_the_status_that_it_wrote(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mailbox is read just before the job writes its status, the pool is listed just after the job has ended."""
    script = 'touch "$DIR/started"; while ! [ -e "$DIR/go" ]; do sleep 0.02; done; succeed 1'
    objects, is_read, is_listed = bench.db.objects(), asyncio.Event(), asyncio.Event()
    read_mailbox = objects.list

    async def late_mail(prefix: str) -> list[ObjectMeta]:
        mail = await read_mailbox(prefix)
        if launcher.is_waiting:
            is_read.set()
            await is_listed.wait()
            await asyncio.sleep(0)  # the launches take the pool's answer
        return mail

    async with bench.pool(script) as launcher:
        run = await bench.start()

        async def has_started() -> bool:
            return (bench.folder / "started").exists()

        await eventually(has_started, seconds=60)
        monkeypatch.setattr(objects, "list", late_mail)
        launcher.race = is_read, is_listed, bench.folder / "go"
        assert (await run.wait(timeout=60)).value == 1
        assert is_listed.is_set()


async def test_an_output_without_a_status_is_not_the_result(bench: Bench) -> None:
    script = 'echo "$launch" >> "$DIR/log"; [ $(wc -l < "$DIR/log") = 2 ] || { write "$box/output.json" 1; exit 7; }; '
    async with bench.pool(script + "succeed 2"):
        run = await bench.start(attempts=2)
        assert (await run.wait(timeout=60)).value == 2
    assert len(bench.lines("log")) == 2


async def test_the_status_of_an_older_attempt_does_not_end_the_current_one(bench: Bench) -> None:
    script = """
    echo "$box" >> "$DIR/log"
    [ $(wc -l < "$DIR/log") = 2 ] || exit 7
    old=$(head -1 "$DIR/log"); mkdir -p "$old"
    write "$old/output.json" '"old"'; write "$old/status.json" '{"state": "success"}'
    echo late > "$DIR/late"
    while ! [ -e "$DIR/go" ]; do sleep 0.05; done
    succeed '"new"'
    """
    async with bench.pool(script) as launcher:
        run = await bench.start(attempts=2)
        await bench.wrote("late")
        lists = launcher.lists

        async def has_looked() -> bool:
            return launcher.lists >= lists + 2  # a tick reads the objects after each list

        await eventually(has_looked, seconds=60)
        assert (await run.account()).state is RunState.RUNNING
        (bench.folder / "go").touch()
        assert (await run.wait(timeout=60)).value == "new"


async def test_a_cancelled_step_ends_only_when_its_job_has_been_stopped(bench: Bench) -> None:
    async with bench.pool('echo $$ > "$DIR/pid"; exec sleep 1000') as launcher:
        launcher.refuses_stops = True
        run = await bench.start(attempts=2)
        pid = int((await bench.wrote("pid"))[0])
        await run.cancel()

        async def was_refused() -> bool:
            return len(launcher.stops) >= 3

        await eventually(was_refused, seconds=60)
        assert is_alive(pid)
        assert [job.status for job in (await jobs.list_(bench.db)).jobs] == ["leased"]
        launcher.refuses_stops = False
        await dead(pid)

        async def has_ended() -> bool:
            return [job.status for job in (await jobs.list_(bench.db)).jobs] == ["cancelled"]

        await eventually(has_ended, seconds=60)
    assert len(set(launcher.stops)) == 1


async def test_a_job_that_is_temporarily_not_listed_is_shown_as_lost_and_runs_once(bench: Bench) -> None:
    script = """
    echo $$ >> "$DIR/pid"; write "$box/status.json" '{"state": "running"}'
    while ! [ -e "$DIR/go" ]; do sleep 0.05; done
    succeed 1
    """

    async with bench.pool(script) as launcher:
        run = await bench.start(attempts=2)

        async def is_shown_as(state: str) -> bool:
            (instance,) = await run.instances("work")
            return instance.launch == state

        await bench.wrote("pid")
        await eventually(lambda: is_shown_as("running"), seconds=60)
        launcher.lists_nothing = True
        await eventually(lambda: is_shown_as("lost"), seconds=60)
        launcher.lists_nothing = False
        await eventually(lambda: is_shown_as("running"), seconds=60)
        (bench.folder / "go").touch()
        assert (await run.wait(timeout=60)).value == 1
    assert len(bench.lines("pid")) == 1


@pytest.mark.soak
async def test_heartbeats_do_not_depend_on_the_clock_of_the_machine_of_the_job(bench: Bench) -> None:
    limits = replace(FAST, heartbeat_within=15.0)
    script = """
    write "$box/status.json" '{"state": "running", "at": "1999-01-01T00:00:00+00:00"}'; year=2080
    while ! [ -e "$DIR/go" ]; do
      year=$((year - 1)); write "$box/heartbeat" "$year"; touch -d "$year-01-01" "$box/heartbeat"
      echo beat >> "$DIR/beats"; sleep 0.5
    done
    succeed 1
    """
    async with bench.pool(script, limits=limits):
        run = await bench.start()

        async def has_outlived_the_limit() -> bool:
            return len(bench.lines("beats")) >= 40  # 20 seconds at least

        await eventually(has_outlived_the_limit, seconds=90)
        (bench.folder / "go").touch()
        assert (await run.wait(timeout=60)).value == 1
