"""The archive: ended jobs and runs move to the tables of their week, and all reads still find them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.engine.archive_harness import AT_ONCE, archive, counts, fail, finish
from tests.engine.harness import Fails, ManualWorker, begin, letters, node, not_yet_archived, publish, state
from tests.engine.job_harness import SPEC, submit, take
from tests.engine.upkeep_harness import by_sql, record
from windlass.core.jobs.job import Success
from windlass.core.workflows.step import ChildAction, Foreach, HookAction
from windlass.engine import hooks, quarantine, upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import dead_letters
from windlass.engine.jobs.dead_letters import DeadLetterFilter
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect, search
from windlass.engine.runs.search import RunQuery
from windlass.errors import Conflict, Gone, NotFound
from windlass.store import archive as store
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any
DAY = timedelta(days=1)


# Archiving


async def test_jobs_that_ended_before_the_cutoff_are_archived_and_live_jobs_are_not(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    await jobs.submit(db, [SPEC] * 5)
    await finish(db, 3)
    clock.move(DAY + timedelta(seconds=1))
    await finish(db, 1)
    left = []
    while await upkeep.archive(db, age=DAY, batch=2):
        left.append((await counts(conn))[0])
    assert left == [3, 2]  # two, then one of the four that were submitted early enough; the last call finds none
    assert (await counts(conn))[:2] == (2, 5)


async def test_a_run_is_archived_with_its_jobs_and_child_runs_once_all_of_them_have_ended(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("inner"), name="child")
    run = await begin(db, node("a"), node("below", "a", action=ChildAction("child")), node("z", "below"))
    await worker.play({"z": lambda job: Fails()})
    live = await begin(db, node("a"), node("b", "a"), name="live")
    job = await worker.take_one("a")
    await worker.end(job)
    await archive(db)
    assert await counts(conn) == (2, 5, 1, 3)  # not archived: the live run and the jobs of its two steps
    assert await state(db, run) == "failed"
    assert await state(db, live) == "running"


@not_yet_archived
async def test_a_fan_out_with_more_jobs_than_a_batch_is_archived_as_a_whole(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await begin(db, node("a", fan_out=Foreach("input")), input=list(range(50)))
    await worker.play()
    await begin(db, node("a"), name="small")
    await worker.play()
    async with db.begin() as engine:
        for more in (True, False):
            old = await store.find_runs(engine, age=AT_ONCE, batch=10, most_jobs=5)
            assert (len(old.ids), old.more) == (1, more)
            await store.move_runs(engine, old.ids)
    assert await counts(conn) == (0, 51, 0, 2)


async def test_a_run_whose_job_is_still_held_by_a_worker_is_not_archived(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run = await begin(db, node("a"))
    job = await worker.take_one("a")
    await runs.cancel(db, run)
    await archive(db)
    assert await counts(conn) == (1, 1, 1, 1)
    await worker.end(job)
    await worker.play()
    await archive(db)
    assert await counts(conn) == (0, 1, 0, 1)


async def test_the_archive_scan_finds_jobs_with_any_id_and_starts_over_at_the_end(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    """Ids of plain SQL are random. Those of clients may lie in the future."""
    ids = [await by_sql(conn, id=uuid4()) for _ in range(5)]
    ids += [await by_sql(conn, id=UUID(int=number)) for number in (1, 2**128 - 2)]
    await conn.execute("update workflow.workflow_run set status = 'succeeded'")
    late = await submit(db)
    await upkeep.log_created(db)
    clock.move(DAY + timedelta(seconds=1))
    await archive(db, age=DAY)
    assert await counts(conn) == (1, 8, 0, 0)
    await finish(db)
    await archive(db, age=DAY)
    assert await counts(conn) == (1, 8, 0, 0)
    clock.move(DAY + timedelta(seconds=1))
    await archive(db, age=DAY)
    assert await counts(conn) == (0, 8, 0, 0)
    assert (await jobs.get(db, late)).status == "succeeded"


@not_yet_archived
async def test_rows_that_cannot_be_archived_are_set_aside_and_the_others_are_archived(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    run, other = await begin(db, node("a")), await begin(db)
    await worker.play()
    ids = await jobs.submit(db, [SPEC] * 5)
    await finish(db, 5)
    week = await conn.fetchval("select windlass.archive_week(updated_at) from workflow.workflow_run")
    poison = f"check (id <> '{ids[2]}')", f"check (id <> '{run}')"
    for kind, condition in zip(("job", "run"), poison, strict=True):
        await conn.execute(f"alter table windlass.{kind}_archive_{week} add constraint poison {condition}")
    await archive(db)
    assert await counts(conn) == (2, 7, 1, 2)
    entries = {entry.key: entry.reason for entry in await quarantine.list_(db)}
    assert set(entries) == {f"archive/{ids[2]}", f"archive/{run}"}
    assert all("poison" in reason for reason in entries.values())
    assert await state(db, other) == "completed"


# Reads


async def seen(db: Tenant, run: UUID, ids: Sequence[UUID]) -> list[Any]:
    """Return what callers can see of a run and of jobs."""
    queries = [RunQuery(), RunQuery(workflow="orders"), RunQuery(states=["failed"]), RunQuery(labels={"team": "a"})]
    queries += [RunQuery(text="ord"), RunQuery(text=str(run)[:13])]
    return [
        await runs.view(db, run),
        await runs.output(db, run),
        (await inspect.explanation(db, run))[1],
        [(await search.find(db, query)).runs for query in queries],
        [await jobs.get(db, id_) for id_ in ids],
        [await jobs.events(db, id_) for id_ in ids],
        (await jobs.list_(db)).jobs,
        (await jobs.list_(db, statuses=["failed"])).jobs,
        (await jobs.list_(db, run=run)).jobs,
        (await dead_letters.groups(db)).groups,
        (await dead_letters.list_(db, DeadLetterFilter())).jobs,
    ]


async def test_archived_runs_and_jobs_are_read_like_live_ones(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(
        db, node("a"), node("each", "a", fan_out=Foreach("input.n")), node("b", "each"), name="orders",
        input={"n": [1, 2, 3]}, labels={"team": "a"},
    )  # fmt: skip
    await worker.play({"b": Fails(for_good=True)})
    ids = await jobs.submit(db, [SPEC] * 2)
    await finish(db)
    await fail(db)
    before = await seen(db, run, ids)
    await archive(db)
    assert await seen(db, run, ids) == before


async def test_pages_of_a_job_list_continue_from_live_jobs_into_the_archive(db: Tenant, clock: Clock) -> None:
    ids = []
    for _ in range(4):  # a week each
        ids += await jobs.submit(db, [SPEC] * 3)
        await finish(db, 3)
        clock.move(timedelta(days=7))
    await archive(db, age=timedelta(days=8))
    ids += await jobs.submit(db, [SPEC])
    page, listed = await jobs.list_(db, limit=5), []
    while True:
        listed += [job.id for job in page.jobs]
        if page.next is None:
            break
        page = await jobs.list_(db, limit=5, before=page.next)
    assert listed == ids[::-1]


async def test_plain_sql_reads_the_archive_through_the_inbox(db: Tenant, conn: Connection) -> None:
    id_ = await submit(db)
    await finish(db)
    await archive(db)
    row = await conn.fetchrow("select status, result from workflow.workflow_run where id = $1", id_)
    assert tuple(row) == ("succeeded", '{"ok": true}')


# Changes


async def test_retrying_an_archived_run_restores_it_with_its_child_runs(
    db: Tenant, worker: ManualWorker, conn: Connection
) -> None:
    await publish(db, node("inner"), name="child")
    run = await begin(db, node("below", action=ChildAction("child")), node("b", "below"))
    await worker.play({"b": Fails(for_good=True)})
    await archive(db)
    worker.seen.clear()
    await runs.retry(db, run)
    assert await counts(conn) == (2, 2, 2, 2)
    await worker.play()
    assert (await state(db, run), worker.seen) == ("completed", ["b"])
    await archive(db)
    assert await counts(conn) == (0, 2, 0, 2)


async def test_a_run_is_rerun_with_another_input_after_it_was_archived(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("b", "a"))
    await worker.play()
    await archive(db)
    worker.seen.clear()
    await runs.rerun(db, run, "b", input_={"n": 2}, with_input=True)
    await worker.play()
    assert (await letters(db, run), worker.seen) == ("ss", ["b"])


async def test_an_archived_completed_run_cannot_be_cancelled_or_retried(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play()
    await archive(db)
    with pytest.raises(Conflict, match="is completed and cannot be cancelled"):
        await runs.cancel(db, run)
    with pytest.raises(Conflict, match="is completed and cannot be retried"):
        await runs.retry(db, run)


async def test_an_archived_job_is_reopened_and_deleted(db: Tenant, conn: Connection) -> None:
    failed, other = await jobs.submit(db, [SPEC] * 2)
    assert await fail(db) == failed
    assert await fail(db) == other
    await archive(db)
    await jobs.reopen(db, failed)
    assert (await counts(conn))[:2] == (1, 2)
    assert await finish(db) == [failed]
    await jobs.delete(db, other)
    with pytest.raises(NotFound):
        await jobs.get(db, other)


async def test_dead_letters_in_the_archive_are_retried(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"))
    await worker.play({"a": Fails(for_good=True)})
    await jobs.submit(db, [SPEC])
    alone = await fail(db)
    await archive(db)
    result = await dead_letters.retry(db, DeadLetterFilter())
    assert (result.jobs, result.runs) == ([alone], [run])


async def test_a_callback_for_an_archived_run_is_gone(db: Tenant, worker: ManualWorker) -> None:
    run = await begin(db, node("a"), node("paid", action=HookAction()))
    token = (await hooks.address(db, run, "paid")).rsplit("/", 1)[1]
    await runs.cancel(db, run)
    await worker.play()
    await archive(db)
    with pytest.raises(Gone):
        await hooks.receive(db, token, b"{}", {})


async def test_a_report_about_an_archived_job_changes_nothing(db: Tenant) -> None:
    id_ = await submit(db)
    [job] = await take(db)
    await record(db, Success(job, "1"))
    await archive(db)
    await record(db, Success(job, "2"))
    assert (await jobs.get(db, id_)).result == 1


async def test_plain_sql_cannot_reopen_an_archived_job(db: Tenant, conn: Connection) -> None:
    id_ = await submit(db)
    await finish(db)
    await archive(db)
    await conn.execute("update workflow.workflow_run set status = 'pending', result = null where id = $1", id_)
    job = await jobs.get(db, id_)
    assert (job.status, job.result) == ("succeeded", {"ok": True})
    with pytest.raises(asyncpg.CheckViolationError):
        await conn.execute("update workflow.workflow_run set status = 'pending', epoch = 1 where id = $1", id_)
