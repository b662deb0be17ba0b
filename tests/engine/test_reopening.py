"""Retrying a single job: refused while its successor with the same unique key is live, or while its composition is."""

import functools
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from windlass.core.jobs.job import Failed, Succeeded
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters, submit
from windlass.engine.jobs.dead_letters import DeadLetterFilter
from windlass.engine.runs import control as runs
from windlass.engine.workers import remote, remote_reports
from windlass.engine.workers.remote import Fetch, Job
from windlass.engine.workers.remote_reports import RemoteReport
from windlass.errors import Conflict, Duplicate
from windlass.web.ojs import parse_job
from windlass.web.ojs.parse_workflow import Reader

UNIQUE = {"type": "mail.send", "args": [1], "options": {"unique": {"keys": ["type", "args"]}}}
BOOM = Failed({"type": "x", "message": "boom"}, retryable=False)


async def fetch(db: Tenant, count: int = 1) -> list[Job]:
    return (await remote.fetch(db, [Fetch(queues=["default"], count=count, worker="w")]))[0]


async def send_reports(db: Tenant, job: UUID, outcome: Any) -> None:
    [answer] = await remote_reports.record(db, [RemoteReport(job, outcome)])
    assert isinstance(answer, Job)


async def push(db: Tenant) -> UUID:
    [pushed] = await submit.push(db, [parse_job.read_job(UNIQUE, datetime.now(UTC))])
    return pushed.job.id


async def dead(db: Tenant) -> UUID:
    id_ = await push(db)
    await fetch(db)
    await send_reports(db, id_, BOOM)
    return id_


async def test_a_unique_job_cannot_be_reopened_while_its_successor_is_live(db: Tenant) -> None:
    one = await dead(db)
    two = await push(db)
    with pytest.raises(Duplicate, match=f"job {two} is live and has the same unique key") as refused:
        await jobs.reopen(db, one)
    assert refused.value.existing == two
    assert await jobs.reopen_many(db, [one]) == set()
    assert [job.id for job in await fetch(db, 5)] == [two]


async def test_a_unique_job_can_be_reopened_once_its_successor_has_ended(db: Tenant) -> None:
    one = await dead(db)
    two = await push(db)
    await fetch(db)
    await send_reports(db, two, Succeeded("1"))
    await jobs.reopen(db, one)
    assert [job.id for job in await fetch(db, 5)] == [one]


async def test_only_one_of_several_dead_jobs_with_the_same_unique_key_is_reopened(db: Tenant) -> None:
    ids = [await dead(db) for _ in range(3)]
    assert await jobs.reopen_many(db, ids) == {ids[-1]}
    assert (await dead_letters.retry(db, DeadLetterFilter())).jobs == []
    assert [job.id for job in await fetch(db, 5)] == ids[-1:]


async def test_an_instance_of_a_live_composition_cannot_be_reopened(db: Tenant) -> None:
    steps = [
        {"type": "make.list", "args": []},
        {"type": "do.item", "args": [], "map": True},
        {"type": "sum.up", "args": []},
    ]
    read = Reader(functools.partial(compositions.job_columns, db)).read
    run = await compositions.create(db, read({"type": "chain", "steps": steps}))
    [first] = await fetch(db)
    await send_reports(db, first.id, Succeeded("[1, 2, 3]"))
    a, b, c = await fetch(db, 3)
    await send_reports(db, a.id, BOOM)
    with pytest.raises(Conflict, match="once it has ended"):
        await jobs.reopen(db, a.id)
    for job in (b, c):
        assert (await runs.get(db, run)).state == "running"
        await send_reports(db, job.id, Succeeded("1"))
    assert ((await runs.get(db, run)).state, (await runs.get(db, run)).letters) == ("failed", "sfk")
