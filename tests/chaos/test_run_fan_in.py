"""Hundreds of jobs of a run end simultaneously on four workers: the step that waits for all of them starts once."""

from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from tests.chaos.harness import Crew, WorkerProcess, eventually
from tests.chaos.runs import RUNLOAD, Design, Runs, design, job

SOME, MANY = 200, 1000  # steps or copies
NAMES = ("ann", "bob", "cid", "dan")
GATE = job("gate")
RUNNING_JOBS = """select count(*) from workflow.workflow_run j join effects e on e.job_id = j.id
  where j.run_id = $1 and j.status = 'leased'"""


def copies(width: int) -> Design:
    tasks = {"each": {**GATE, "parallel": width}, "join": job(needs=["each"]), "end": job(needs=["join"])}
    return design("copies", tasks, "sss", ())


def steps(width: int) -> Design:
    names = [f"s{n}" for n in range(width)]
    tasks = {**dict.fromkeys(names, GATE), "join": job(needs=names), "end": job(needs=["join"])}
    return design("steps", tasks, "s" * (width + 2), ())


async def end_together(runs: Runs, workers: Sequence[WorkerProcess], what: Design, width: int) -> UUID:
    """Start all jobs at one moment and end them at one moment, when the processes are thawed the second time."""

    async def all_at_work() -> bool:
        return bool(await runs.value(RUNNING_JOBS, run) == width)

    for worker in workers:
        worker.freeze()
    (run,) = await runs.start(what.name)
    for worker in workers:
        worker.thaw()
    await eventually(all_at_work, "all jobs were running", within=30, every=0.01)
    for worker in workers:
        worker.freeze()
    for worker in workers:
        worker.thaw()
    await runs.all_quiet(within=30)
    return run


async def assert_joined_once(runs: Runs, run: UUID, what: Design) -> None:
    await runs.assert_sound()
    found = await runs.fetch("select state, steps from windlass.run where id = $1", run)
    assert found == [("completed", what.letters)]
    for step in (len(what.letters) - 2, len(what.letters) - 1):
        jobs = await runs.fetch("select id from workflow.workflow_run where run_id = $1 and step = $2", run, step)
        assert len(jobs) == 1
        assert await runs.events_of(jobs[0][0]) == ["created", "leased", "succeeded"]
        assert len(await runs.effects_of(jobs[0][0])) == 1


async def join_repeatedly(runs: Runs, folder: Path, what: Design, width: int, times: int) -> None:
    await runs.deploy(what)
    with Crew(runs.url, folder, app=RUNLOAD) as crew:
        workers = [crew.start(name, concurrency=width // len(NAMES)) for name in NAMES]
        await runs.working(workers)
        for _ in range(times):
            run = await end_together(runs, workers, what, width)
            await assert_joined_once(runs, run, what)
            # Every worker reported some of the simultaneous ends.
            reported = await runs.value(
                "select count(distinct e.actor) from workflow.workflow_event e join workflow.workflow_run j"
                " on j.id = e.workflow_id where j.run_id = $1 and event_type = 'succeeded'",
                run,
            )
            assert reported == len(NAMES)
        crew.assert_calm()


@pytest.mark.parametrize("shape", [copies, steps])
async def test_a_join_after_simultaneous_ends_starts_once(
    shape: Callable[[int], Design], runs: Runs, tmp_path: Path
) -> None:
    await join_repeatedly(runs, tmp_path, shape(SOME), SOME, times=3)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("shape", [copies, steps])
async def test_a_join_after_1000_simultaneous_ends_starts_once_in_20_trials(
    shape: Callable[[int], Design], runs: Runs, tmp_path: Path
) -> None:
    await join_repeatedly(runs, tmp_path, shape(MANY), MANY, times=20)
