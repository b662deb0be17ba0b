"""kill -9 at every fault point of the engine: the next process completes the work, and nothing is done twice."""

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, WorkerProcess, dice, eventually
from tests.chaos.runs import FAN, RUNLOAD, SLEEPY, Runs, design, small
from windlass.engine.faults import POINTS

IN_START = ("start.inserted", "settle.decided", "settle.saved", "settle.enqueued")
IN_WORKER = tuple(point for point in POINTS if point.startswith(("settle.", "turn.")))
IN_ENGINE = ("settle.decided", "settle.saved", "settle.enqueued")
HITS = (1, 2, 3)
TURNS = (*HITS, 6, 7)  # one job at a time: from the second on each turn brings a report, and these two end the fan-out
# Reserves the recovery term for the second worker: no wait until the term of a dead worker ends.
RESERVE = "insert into windlass.term (duty, holder, until) values ('recovery', $1, now() + interval '1 minute')"
ROWS = """select (select count(*) from windlass.run), (select count(*) from workflow.workflow_run),
  (select count(*) from windlass.event), (select count(*) from workflow.workflow_event),
  (select count(*) from windlass.timer), (select count(*) from windlass.item)"""
LAZY = design(  # nothing in it needs a worker
    "lazy",
    {
        "nap": {"sleep": "50ms"},
        "below": {"needs": ["nap"], "workflow": "nap", "parallel": 3, "concurrency": 2},
        "again": {"needs": ["below"], "sleep": "50ms"},
    },
    "sss",
    (0, 3, 0),
)
NAP = design("nap", {"nap": {"sleep": "50ms"}, "more": {"needs": ["nap"], "sleep": "50ms"}}, "ss", (0, 0))


async def all_killed(doomed: Sequence[WorkerProcess]) -> None:
    for worker in doomed:
        assert await worker.ended(within=30) == -signal.SIGKILL, f"{worker.id}: {worker.output()[-2000:]}"


async def no_lease_holds(runs: Runs) -> None:
    async def over() -> bool:
        return not await runs.value("select count(*) from workflow.workflow_run where lease_until >= now()")

    await eventually(over, "the leases of the dead had run out")


async def clients_rolled_back(runs: Runs) -> None:
    """Wait until the server has noticed that its clients are dead and has rolled back."""

    async def gone() -> bool:
        others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        return not await runs.value(others)

    await eventually(gone, "the server had noticed the death of its clients")


@pytest.mark.parametrize("point", IN_WORKER)
async def test_runs_of_a_worker_killed_at_a_fault_point_are_completed_once_by_the_next_worker(
    point: str, runs: Runs, tmp_path: Path
) -> None:
    """Several workers, each with a run in its own queue, die when they reach the point for the nth time."""
    designs = {f"q{hit}": small(f"small{hit}", f"q{hit}") for hit in TURNS}
    await runs.execute(RESERVE, "second")
    await runs.deploy(*designs.values())
    for each in designs.values():
        await runs.start(each.name)
    with Crew(runs.url, tmp_path, app=RUNLOAD) as crew:
        doomed = [
            crew.start(f"doomed{hit}", lease=1, concurrency=1, queues=[f"q{hit}"], fault=f"{point}:{hit}")
            for hit in TURNS
        ]
        await all_killed(doomed)
        assert await runs.ended() == 0, "they died too late to leave anything"
        await no_lease_holds(runs)
        second = crew.start("second", queues=tuple(designs))
        await runs.all_quiet(within=30)
        await runs.assert_as_designed(*designs.values(), roots=len(TURNS))
        assert second.alive
        crew.assert_calm()


@pytest.mark.parametrize("point", IN_ENGINE)
async def test_sleeps_and_child_runs_of_an_engine_killed_at_a_fault_point_are_completed_by_the_next(
    point: str, runs: Runs, tmp_path: Path
) -> None:
    await runs.deploy(NAP, LAZY)
    await runs.start("lazy", 5)
    with Crew(runs.url, tmp_path) as crew:
        for hit in HITS:
            await all_killed([crew.engine("doomed", fault=f"{point}:{hit}")])
        assert await runs.ended() < 5, "they died too late to leave anything"
        engine = crew.engine("second")
        await runs.all_quiet(within=30)
        await runs.assert_as_designed(NAP, LAZY, roots=5)
        assert engine.alive
        crew.assert_calm()


@pytest.mark.parametrize("point", IN_START)
async def test_a_client_killed_before_its_commit_starts_no_runs_and_may_retry(
    point: str, runs: Runs, tmp_path: Path
) -> None:
    await runs.deploy(FAN, SLEEPY)
    with Crew(runs.url, tmp_path, app=RUNLOAD) as crew:
        for name in ("fan", "sleepy"):
            await all_killed([start(crew, f"doomed-{name}", name, 10, fault=point)])
        await clients_rolled_back(runs)
        assert await runs.fetch(ROWS) == [(0,) * 6]
        for name in ("fan", "sleepy"):
            assert await start(crew, f"second-{name}", name, 10).ended(within=30) == 0
        crew.start("ann")
        await runs.all_quiet(within=30)
        await runs.assert_as_designed(FAN, SLEEPY, roots=20)
        crew.assert_calm()


async def test_clients_killed_at_random_moments_start_whole_batches_of_runs_or_none(runs: Runs, tmp_path: Path) -> None:
    """Batches with the same idempotency keys, retried until one commits: each key has one run, and it ends."""
    await runs.deploy(FAN)
    batch, batches = 20, 5
    with dice() as rng, Crew(runs.url, tmp_path, app=RUNLOAD) as crew:
        for n in range(batches):
            victim = start(crew, f"victim{n}", "fan", batch, key=f"batch{n}")
            await connected_for_a_while(runs, victim, patience=rng.randrange(60))
            victim.kill()
        await clients_rolled_back(runs)
        assert await runs.value("select count(*) from windlass.run") % batch == 0
        for starter in [start(crew, f"second{n}", "fan", batch, key=f"batch{n}") for n in range(batches)]:
            assert await starter.ended(within=30) == 0
        crew.start("ann")
        await runs.all_quiet(within=30)
        await runs.assert_as_designed(FAN, roots=batch * batches)
        crew.assert_calm()


def start(crew: Crew, id_: str, workflow: str, count: int, *, key: str | None = None, fault: str = "") -> WorkerProcess:
    return crew.run(id_, [workflow, str(count), key or workflow], module="tests.chaos.starter", fault=fault)


async def connected_for_a_while(runs: Runs, starter: WorkerProcess, *, patience: int) -> None:
    """Wait until the starter is connected, and then for `patience` more polls."""
    looks = 0

    async def seen() -> bool:
        nonlocal looks
        others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        looks += bool(await runs.value(others))
        return looks > patience or not starter.alive

    await eventually(seen, "the starter was connected", every=0.001)
