"""Users act while workers execute: runs are cancelled, workflows published, disabled and deleted at random times."""

import contextlib
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from tests.chaos.harness import Crew, WorkerProcess, dice, eventually
from tests.chaos.runs import AS_MADE, BROOD, GRANDPARENT, MIXED, PARENT, RUNLOAD, SORROW, Design, Runs, design, job
from windlass import Windlass
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs.start import RunSpec
from windlass.errors import Conflict, NotFound
from windlass.settings import Settings

NAMES = ("ann", "bob", "cid")
SLOW = {"input": {"seconds": 0.1}}
LONG = design(
    "long",
    {"a": job("slow", **SLOW), **{b: job("slow", [a], **SLOW) for a, b in ("ab", "bc", "cd", "de")}},
    "sssss",
    (1, 1, 1, 1, 1),
)
WIDE = design(
    "wide",
    {"each": job("slow", parallel=12, concurrency=4, **SLOW), "nap": {"sleep": "30s"}, "join": job(needs=["each"])},
    "sss",
    (12, 0, 1),
)
# A child workflow may be deleted or disabled when its parent's step starts: then that step fails.
FAMILIES = {each.name for each in (PARENT, BROOD, SORROW, GRANDPARENT)}
LIVE = "select id from windlass.run where state in ('pending', 'running') order by id"


class RandomUser:
    """Random actions of users. An action that comes too late (a conflict, not found) is not an error."""

    def __init__(self, app: Windlass, db: Tenant, runs: Runs, designs: Sequence[Design], rng: random.Random) -> None:
        self._app, self._db, self._runs, self._designs, self._rng = app, db, runs, designs, rng
        self._versions = 0
        self.cancelled = 0
        self.started = 0

    async def act(self) -> None:
        acts: list[Callable[[], Awaitable[None]]] = [self.cancel, self.cancel, self.start, self.publish]
        acts += [self.disable, self.enable, self.delete]
        with contextlib.suppress(Conflict, NotFound):
            await self._rng.choice(acts)()

    async def cancel(self) -> None:
        live = await self._runs.fetch(LIVE)
        if live:
            run = await self._app.run(self._rng.choice(live)[0])
            await run.cancel(reason="by chance")
            self.cancelled += 1

    async def start(self) -> None:
        self.started += len(await self._app.start_many(self._any().name, [RunSpec()] * 2))

    async def publish(self) -> None:
        """Deploy a new version with an additional step, or without it."""
        self._versions += 1
        document = dict(self._any().document)
        if self._versions % 2:
            document["tasks"] = {**document["tasks"], "more": job()}
        await self._app.deploy(document)

    async def disable(self) -> None:
        await workflows.enable(self._db, self._any().name, False)

    async def enable(self) -> None:
        await workflows.enable(self._db, self._any().name, True)

    async def delete(self) -> None:
        await workflows.delete(self._db, self._any().name)

    async def restore_workflows(self) -> None:
        """Deploy and enable all workflows again, so that every pending child run can start."""
        await self._app.deploy(*[each.document for each in self._designs])
        for each in self._designs:
            await workflows.enable(self._db, each.name, True)

    async def cancel_all(self, name: str) -> None:
        for (id_,) in await self._runs.fetch(
            "select r.id from windlass.run r join windlass.workflow w on w.id = r.workflow_id"
            " where w.name = $1 and r.state in ('pending', 'running')",
            name,
        ):
            await (await self._app.run(id_)).cancel()
            self.cancelled += 1

    def _any(self) -> Design:
        return self._rng.choice(self._designs)


async def steer(runs: Runs, folder: Path, count: int, *, acts: int, kills: int, within: float) -> None:
    designs = (LONG, WIDE, *MIXED)
    with dice() as rng, Crew(runs.url, folder, app=RUNLOAD) as crew:
        async with Windlass(runs.url, settings=Settings()) as app:
            people = RandomUser(app, await app.open(), runs, designs, rng)
            staff = [hire(crew, name) for name in NAMES]
            await runs.working(staff)
            await runs.start_mixed(count, designs)
            deadly = set(rng.sample(range(acts), kills))
            for n in range(acts):
                await people.act()
                if n in deadly:
                    victim = rng.randrange(len(staff))
                    staff[victim].kill()
                    staff[victim] = hire(crew, NAMES[victim])
            await people.restore_workflows()
            await only_naps_are_left(runs, within=within)
            await people.cancel_all("wide")
            await runs.all_quiet(within=within)
        await runs.assert_sound()
        await assert_each_as_designed_or_cancelled(runs, designs, people.cancelled)
        assert await runs.ended() == count + people.started
        crew.assert_calm()


def hire(crew: Crew, name: str) -> WorkerProcess:
    return crew.start(name, lease=2, concurrency=8)


async def only_naps_are_left(runs: Runs, *, within: float) -> None:
    """Wait until only runs in a long sleep are left: they end only when they are cancelled."""

    async def so() -> bool:
        return not await runs.value(
            "select exists (select from windlass.run r join windlass.workflow w on w.id = r.workflow_id"
            " where state in ('pending', 'running') and not (w.name = 'wide' and steps in ('sas', 'sass')))"
        )

    await eventually(so, "only sleeping runs were left", within=within, every=0.1)


async def assert_each_as_designed_or_cancelled(runs: Runs, designs: Sequence[Design], cancelled: int) -> None:
    known = {each.name: each for each in designs}
    found = 0
    for name, state, letters, count in await runs.fetch(AS_MADE):
        if state == "cancelled":
            found += count
        elif name not in FAMILIES:
            expected = known[name]
            assert state == expected.state, f"{count} runs of {name}: {letters}"
            assert letters in (expected.letters, expected.letters + "s"), f"{count} runs of {name}"
    assert found >= cancelled, "a cancelled run did not stay cancelled"


async def test_runs_end_while_others_are_cancelled_and_workflows_are_changed(runs: Runs, tmp_path: Path) -> None:
    await steer(runs, tmp_path, 60, acts=90, kills=2, within=45)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_2000_runs_end_while_others_are_cancelled_and_workflows_are_changed(runs: Runs, tmp_path: Path) -> None:
    await steer(runs, tmp_path, 2000, acts=3000, kills=20, within=300)
