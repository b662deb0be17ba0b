"""Data that is kept across attempts: saved checkpoints and the results of finished steps."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from windlass import Conflict, Context, Invalid, NotFound, Windlass
from windlass.core.jobs.replay import NewRecord
from windlass.core.jobs.retry import Backoff, Retry
from windlass.core.jobs.spec import JobSpec
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import checkpoints
from windlass.engine.jobs import control as jobs
from windlass.errors import LeaseLost
from windlass.testing import Clock, run_until_idle

AT_ONCE = Retry(kind=Backoff.CONSTANT, base=0)


async def test_each_save_replaces_the_checkpoint_and_increments_its_sequence(app: Windlass) -> None:
    db = await app.open()
    job = await app.submit("a.b.v1")
    with pytest.raises(NotFound):
        await checkpoints.get(db, job)
    assert (await checkpoints.save(db, job, {"page": 1})).sequence == 1
    assert (await checkpoints.save(db, job, [1, None, "x"])).sequence == 2
    found = await checkpoints.get(db, job)
    assert (found.state, found.sequence) == ([1, None, "x"], 2)
    assert list(await checkpoints.of_jobs(db, [job, uuid4()])) == [job]
    await checkpoints.remove(db, job)
    await checkpoints.remove(db, job)
    assert (await checkpoints.save(db, job, None)).sequence == 1


async def test_only_a_live_job_of_the_callers_org_can_save_a_checkpoint(app: Windlass) -> None:
    db = await app.open()
    job = await app.submit("a.b.v1")
    await checkpoints.save(db, job, 1)
    for who, id_ in ((db.tenant("other", actor="x"), job), (db, uuid4())):
        for ask in (checkpoints.get(who, id_), checkpoints.remove(who, id_), checkpoints.save(who, id_, 1)):
            with pytest.raises(NotFound):
                await ask
    with pytest.raises(Invalid, match="state"):
        await checkpoints.save(db, job, "x" * 1_048_577)
    await app.cancel(job)
    with pytest.raises(Conflict, match="cancelled"):
        await checkpoints.save(db, job, 2)
    assert (await checkpoints.get(db, job)).state == 1


class Flaky:
    """A handler of three steps that fails after one of them until `fails_behind` is cleared."""

    def __init__(self, app: Windlass, *, max_attempts: int = 3) -> None:
        self.calls: list[str] = []
        self.fails_behind: str | None = "two"
        app.job("flaky.v1", max_attempts=max_attempts, retry=AT_ONCE)(self.handle)

    async def handle(self, ctx: Context, payload: Any) -> Any:
        given = []
        for name in ("one", "two", "three"):
            given.append(await ctx.step(name, self.do, name, n=payload["n"]))
            if name == self.fails_behind:
                raise RuntimeError(f"broke behind {name}")
        return given

    async def do(self, name: str, *, n: int) -> tuple[str, int]:
        self.calls.append(name)
        return name, n


async def test_a_finished_step_is_not_executed_again_by_the_next_attempt(app: Windlass) -> None:
    work = Flaky(app)
    job = await app.submit("flaky.v1", {"n": 1})
    await run_until_idle(app)
    found = await app.get(job)
    assert (found.status, found.attempt, work.calls) == ("failed", 3, ["one", "two"])
    assert (await checkpoints.get(await app.open(), job)).state == {"steps": {"one": ["one", 1], "two": ["two", 1]}}
    work.fails_behind = None
    await app.retry(job)  # a manual retry reuses the recorded steps
    await run_until_idle(app)
    assert (await app.get(job)).result == [["one", 1], ["two", 1], ["three", 1]]
    assert work.calls == ["one", "two", "three"]


async def test_a_retry_after_its_checkpoint_was_removed_executes_all_steps_again(app: Windlass) -> None:
    work = Flaky(app, max_attempts=1)
    job = await app.submit("flaky.v1", {"n": 1})
    await run_until_idle(app)
    work.fails_behind = None
    await checkpoints.remove(await app.open(), job)
    await app.retry(job)
    await run_until_idle(app)
    assert work.calls == ["one", "two", "one", "two", "three"]


async def test_steps_recorded_for_another_payload_or_a_succeeded_execution_are_not_reused(
    app: Windlass, conn: Any
) -> None:
    work = Flaky(app, max_attempts=1)
    job = await app.submit("flaky.v1", {"n": 1})
    await run_until_idle(app)
    work.fails_behind = None
    await conn.execute("update workflow.workflow_run set payload = '{\"n\": 2}'")
    await app.retry(job)
    await run_until_idle(app)
    assert (await app.get(job)).result == [["one", 2], ["two", 2], ["three", 2]]
    # As a run does when it reruns a step.
    await conn.execute("update workflow.workflow_run set status = 'pending', epoch = epoch + 1, attempt = 0")
    work.calls.clear()
    await run_until_idle(app)
    assert work.calls == ["one", "two", "three"]


async def test_plain_functions_and_lambdas_can_be_steps_and_steps_can_run_concurrently(app: Windlass) -> None:
    @app.job("mixed.v1")
    async def mixed(ctx: Context) -> Any:
        async def later(n: int) -> int:
            await asyncio.sleep(0)
            return n

        first = await ctx.step("plain", lambda: {"n": (1, 2)})
        rest = await asyncio.gather(*(ctx.step(f"page-{n}", later, n) for n in range(20)))
        return [first, await ctx.step("wrapped", lambda: later(7)), sum(rest)]

    job = await app.submit("mixed.v1")
    await run_until_idle(app)
    # The first execution returns the same value as a replay: a tuple becomes a list.
    assert (await app.get(job)).result == [{"n": [1, 2]}, 7, 190]


async def test_sync_handlers_have_steps_and_progress(app: Windlass) -> None:
    calls: list[str] = []

    @app.job("sync.v1", retry=AT_ONCE)
    def work(ctx: Context) -> Any:
        given = ctx.step_sync("one", lambda: calls.append("one"))
        ctx.progress(0.5)
        if ctx.attempt == 1:
            raise RuntimeError("again")
        return given, ctx.step_sync("two", len, "abc")

    job = await app.submit("sync.v1")
    await run_until_idle(app)
    assert ((await app.get(job)).result, calls) == ([None, 3], ["one"])


@pytest.mark.parametrize(
    ("name", "function", "told"),
    [
        ("", lambda: 1, "step is empty"),
        ("odd", object, "the result of step 'odd' cannot be recorded: result is not JSON"),
        ("nul", lambda: "\x00", "'nul' cannot be recorded: result contains a NUL"),
    ],
    ids=["empty", "odd", "nul"],
)
async def test_an_invalid_step_fails_the_job_without_a_retry(
    app: Windlass, name: str, function: Any, told: str
) -> None:
    @app.job("wrong.v1")
    async def wrong(ctx: Context) -> None:
        await ctx.step(name, function)

    job = await app.submit("wrong.v1")
    await run_until_idle(app)
    found = await app.get(job)
    assert (found.status, found.attempt) == ("failed", 1)
    assert told in (found.last_error or "")


async def test_a_worker_that_lost_its_lease_cannot_record_a_step(app: Windlass, conn: Any) -> None:
    db = await app.open()
    job = await app.submit("a.b.v1")
    claim = "update workflow.workflow_run set status = 'leased', leased_by = $1, claim_no = claim_no + 1"
    await conn.execute(claim, "first")
    one, two = NewRecord("one", "step", 0, "1"), NewRecord("two", "step", 1, "2")
    await checkpoints.record(db, job, fence=1, records=[one])
    await conn.execute(claim, "second")
    with pytest.raises(LeaseLost):
        await checkpoints.record(db, job, fence=1, records=[two])
    await checkpoints.record(db, job, fence=2, records=[two])
    assert [(row.name, row.value) for row in (await checkpoints.recorded(db, [job]))[job]] == [("one", 1), ("two", 2)]
    await app.cancel(job)
    with pytest.raises(LeaseLost):
        await checkpoints.record(db, job, fence=2, records=[one])


async def test_a_checkpoint_is_deleted_with_its_job(db: Tenant, clock: Clock, conn: Any) -> None:
    [job] = await jobs.submit(db, [JobSpec(type="a.b.v1")])
    await checkpoints.save(db, job, 1)
    await jobs.cancel(db, job)
    clock.move(timedelta(days=2))
    assert await upkeep.prune(db, age=timedelta(days=1)) == 1
    assert await conn.fetchval("select count(*) from windlass.checkpoint") == 0


def test_a_handler_under_test_records_nothing() -> None:
    """A context that was not created by a worker runs the steps and records nothing."""
    ctx = Context(UUID(int=1), "a.b.v1", 1, 3, "default", 100, 1, datetime.now(UTC), {}, lambda _: None)

    async def both() -> Any:
        await ctx.progress(0.3, "a third")
        return await ctx.step("one", lambda: 1), ctx.step_sync("two", lambda: (2,))

    assert asyncio.run(both()) == (1, [2])
