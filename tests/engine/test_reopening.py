"""Retrying a single job: not beside the one that took its place, and not while a composition counts it."""

import functools
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from windlass.core.outcome import Failed, Succeeded
from windlass.engine import claims, compositions, dead_letters, jobs, pushes, reports, runs
from windlass.engine.claims import Job, Wish
from windlass.engine.dead_letters import Wanted
from windlass.engine.reports import Told
from windlass.engine.unit import Unit
from windlass.errors import Conflict, Duplicate
from windlass.web.ojs import asking
from windlass.web.ojs.composing import Reader

UNIQUE = {"type": "mail.send", "args": [1], "options": {"unique": {"keys": ["type", "args"]}}}
BOOM = Failed({"type": "x", "message": "boom"}, retryable=False)


async def fetch(unit: Unit, count: int = 1) -> list[Job]:
    return (await claims.fetch(unit, [Wish(queues=["default"], count=count, worker="w")]))[0]


async def tell(unit: Unit, job: UUID, outcome: Any) -> None:
    [answer] = await reports.record(unit, [Told(job, outcome)])
    assert isinstance(answer, Job)


async def push(unit: Unit) -> UUID:
    [pushed] = await pushes.push(unit, [asking.read_job(UNIQUE, datetime.now(UTC))])
    return pushed.job.id


async def dead(unit: Unit) -> UUID:
    id_ = await push(unit)
    await fetch(unit)
    await tell(unit, id_, BOOM)
    return id_


async def test_a_unique_job_is_not_started_over_beside_its_successor(unit: Unit) -> None:
    one = await dead(unit)
    two = await push(unit)
    with pytest.raises(Duplicate, match=f"job {two} is live and has the same unique key") as refused:
        await jobs.reopen(unit, one)
    assert refused.value.existing == two
    assert await jobs.reopen_many(unit, [one]) == set()
    assert [job.id for job in await fetch(unit, 5)] == [two]


async def test_a_unique_job_is_started_over_once_its_successor_has_ended(unit: Unit) -> None:
    one = await dead(unit)
    two = await push(unit)
    await fetch(unit)
    await tell(unit, two, Succeeded("1"))
    await jobs.reopen(unit, one)
    assert [job.id for job in await fetch(unit, 5)] == [one]


async def test_of_several_dead_jobs_of_a_unique_key_one_is_started_over(unit: Unit) -> None:
    ids = [await dead(unit) for _ in range(3)]
    assert await jobs.reopen_many(unit, ids) == {ids[-1]}
    assert (await dead_letters.retry(unit, Wanted())).jobs == []
    assert [job.id for job in await fetch(unit, 5)] == ids[-1:]


async def test_an_instance_of_a_live_composition_is_not_started_over(unit: Unit) -> None:
    steps = [
        {"type": "make.list", "args": []},
        {"type": "do.item", "args": [], "map": True},
        {"type": "sum.up", "args": []},
    ]
    read = Reader(functools.partial(compositions.given, unit)).read
    run = await compositions.create(unit, read({"type": "chain", "steps": steps}))
    [first] = await fetch(unit)
    await tell(unit, first.id, Succeeded("[1, 2, 3]"))
    a, b, c = await fetch(unit, 3)
    await tell(unit, a.id, BOOM)
    with pytest.raises(Conflict, match="once it ended"):
        await jobs.reopen(unit, a.id)
    for job in (b, c):
        assert (await runs.get(unit, run)).state == "running"
        await tell(unit, job.id, Succeeded("1"))
    assert ((await runs.get(unit, run)).state, (await runs.get(unit, run)).letters) == ("failed", "sfk")
