"""Two engines and four workers with random kill -9: every run ends, and no step is executed twice."""

import random
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, WorkerProcess, dice, eventually
from tests.chaos.runs import MIXED, RUNLOAD, Runs

ENGINES = ("ed", "eve")
WORKERS = ("ann", "bob", "cid", "dan")


class Staff:
    """Six processes, each replaced when it dies."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self.members = {name: self._hire(name) for name in (*ENGINES, *WORKERS)}

    @property
    def workers(self) -> list[WorkerProcess]:
        return [self.members[name] for name in WORKERS]

    def kill_one(self, rng: random.Random) -> None:
        name = rng.choice(list(self.members))
        self.members[name].kill()
        self.members[name] = self._hire(name)

    def _hire(self, name: str) -> WorkerProcess:
        return self._crew.engine(name) if name in ENGINES else self._crew.start(name, lease=2, concurrency=20)


async def survive(runs: Runs, folder: Path, count: int, *, kills: int, within: float) -> None:
    with dice() as rng, Crew(runs.url, folder, app=RUNLOAD) as crew:
        staff = Staff(crew)
        await runs.working(staff.workers)
        await runs.start_mixed(count)
        for after in sorted(rng.sample(range(count * 9 // 10), kills)):
            await so_many_ended(runs, after, within=within)
            staff.kill_one(rng)
        await runs.all_quiet(within=within)
        await runs.assert_as_designed(*MIXED, roots=count)
        assert all(worker.alive for worker in staff.members.values())
        crew.assert_calm()


async def so_many_ended(runs: Runs, count: int, *, within: float) -> None:
    async def far_enough() -> bool:
        return await runs.ended() >= count

    await eventually(far_enough, f"{count} runs had ended", within=within, every=0.01)


async def test_mixed_runs_end_as_designed_while_their_processes_are_killed(runs: Runs, tmp_path: Path) -> None:
    await survive(runs, tmp_path, 150, kills=6, within=60)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_1000_mixed_runs_end_as_designed_while_their_processes_are_killed(runs: Runs, tmp_path: Path) -> None:
    await survive(runs, tmp_path, 1000, kills=25, within=300)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_10000_mixed_runs_end_as_designed_while_their_processes_are_killed(runs: Runs, tmp_path: Path) -> None:
    await survive(runs, tmp_path, 10_000, kills=100, within=900)
