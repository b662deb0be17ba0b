"""Pools: whether they can be used, how to fix them if not, and how many jobs of each org they have."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.engine.harness import LEASE
from windlass.core.definition.parser import parse
from windlass.core.launches import pool_queue
from windlass.engine import pools, workflows
from windlass.engine.database import Tenant
from windlass.engine.orgs import audit
from windlass.engine.orgs import control as orgs
from windlass.engine.pools import ALIVE_WITHIN
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Turn
from windlass.errors import Conflict, NotFound
from windlass.testing import Clock


async def test_the_jobs_of_a_pool_are_counted_per_org_and_for_the_operator_across_all_orgs(db: Tenant) -> None:
    await pools.offer(db, [("gpu", "kubernetes", 50, "train:7"), ("other", "ray", 1, None)])
    await pools.report(db, "gpu", holder="w1", problem=None)
    await orgs.create(db, "acme")
    acme, key_of_default = db.tenant("acme", isolated=True), db.tenant(isolated=True)
    await submit(db, 1)
    await submit(acme, 2)
    await claim(db, count=1)
    gpu, other = await pools.list_(db)
    assert (gpu.waiting, gpu.running, gpu.holder, gpu.max_parallel, gpu.image) == (2, 1, "w1", 50, "train:7")
    assert (other.name, other.waiting, other.running) == ("other", 0, 0)
    for caller, counts in ((acme, (2, 0)), (key_of_default, (0, 1))):
        seen = await pools.get(caller, "gpu")
        assert (seen.waiting, seen.running, seen.holder) == (*counts, None)


async def test_a_pool_that_no_process_offers_is_not_alive_and_has_a_fix(db: Tenant, clock: Clock) -> None:
    clock.move(timedelta())  # freezes the clock
    await pools.offer(db, [("gpu", "kubernetes", 1, None), ("subprocess", "subprocess", 1, None)])
    assert [(pool.alive, pool.fix) for pool in await pools.list_(db)] == [(True, None)] * 2
    clock.move(ALIVE_WITHIN + timedelta(seconds=1))
    gpu, local = await pools.list_(db)
    assert (gpu.alive, local.alive) == (False, False)
    assert (
        gpu.fix == "no process has offered it for 31s: start a worker whose WINDLASS_POOLS has this pool, "
        "or `windlass pools forget gpu`"
    )
    assert local.fix is not None
    assert "start windlass worker --allow-commands" in local.fix


async def test_a_pool_with_a_problem_has_a_fix_that_finds_the_cause(db: Tenant) -> None:
    await pools.offer(db, [("gpu", "kubernetes", 1, None)])
    await pools.report(db, "gpu", holder="w1", problem="jobs.batch is forbidden")
    pool = await pools.get(db, "gpu")
    assert (pool.alive, pool.problem) == (True, "jobs.batch is forbidden")
    assert pool.fix == "run `windlass pools test gpu` where its worker runs, and fix what it reports"


async def test_only_a_pool_that_no_process_offers_can_be_forgotten_and_this_is_audited(
    db: Tenant, clock: Clock
) -> None:
    clock.move(timedelta())
    await pools.offer(db, [("gpu", "kubernetes", 1, None)])
    with pytest.raises(Conflict, match="stop the workers that offer it first"):
        await pools.forget(db, "gpu")
    clock.move(ALIVE_WITHIN + timedelta(seconds=1))
    await pools.forget(db, "gpu")
    with pytest.raises(NotFound, match="gpu"):
        await pools.forget(db, "gpu")
    entries = (await audit.list_(db, action="pool")).items
    assert [(entry.action, entry.object) for entry in entries] == [("pool.forget", "gpu")]


@pytest.mark.parametrize("name", ["nobody", "\0", "Ä" * 1000])
async def test_an_unknown_pool_is_not_found(db: Tenant, name: str) -> None:
    with pytest.raises(NotFound, match="pool"):
        await pools.get(db, name)


async def submit(db: Tenant, count: int) -> None:
    """Start runs, each with a step on the pool gpu."""
    flow = parse({"name": "train", "tasks": {"fit": {"run": "true", "runs_on": "gpu"}}})
    await workflows.publish(db, flow)
    await start.start(db, "train", [RunSpec() for _ in range(count)])


async def claim(db: Tenant, *, count: int) -> None:
    lanes = [(replace(lane, seq=0), count) for lane in await turn.look(db, [pool_queue("gpu")])]
    claimed, _ = await turn.turn(db, Turn(worker="pool:gpu", lease=LEASE, lanes=lanes, count=count))
    assert len(claimed) == count
