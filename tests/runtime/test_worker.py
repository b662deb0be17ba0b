"""The execution of claimed jobs by a worker."""

import asyncio
import logging
import threading
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from tests.runtime.conftest import Working, eventually
from windlass import Context, Job, NonRetryable, Retry, RetryAfter, Windlass
from windlass.engine.workers import turn
from windlass.testing import run_until_idle


async def ended(app: Windlass, id_: UUID, status: str = "succeeded") -> Job:
    async def look() -> Job | None:
        job = await app.get(id_)
        return job if job.status == status else None

    return await eventually(look)


async def test_sync_handlers_run_in_threads(app: Windlass) -> None:
    @app.job("sync.work.v1")
    def handle(ctx: Context, n: int) -> dict[str, object]:
        return {"double": n * 2, "main": threading.current_thread() is threading.main_thread()}

    id_ = await app.submit("sync.work.v1", {"n": 21})
    await run_until_idle(app)
    assert (await app.get(id_)).result == {"double": 42, "main": False}


async def test_the_concurrency_of_a_worker_limits_its_running_jobs(app: Windlass, working: Working) -> None:
    running, most, release = 0, 0, asyncio.Event()

    @app.job("wait.here.v1")
    async def wait() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1

    ids = await app.submit_many([{"type": "wait.here.v1"}] * 20)
    async with working(app, concurrency=4):
        await eventually(lambda: _true(running == 4))
        release.set()
        for id_ in ids:
            await ended(app, id_)
    assert most == 4


async def test_a_job_type_may_have_its_own_concurrency_limit(app: Windlass, working: Working) -> None:
    running, most, release = 0, 0, asyncio.Event()
    others = 0

    @app.job("scarce.tool.v1", concurrency=2)
    async def scarce() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await release.wait()
        running -= 1

    @app.job("plenty.tool.v1")
    async def plenty() -> None:
        nonlocal others
        others += 1

    ids = await app.submit_many([{"type": "scarce.tool.v1"}] * 10)
    await app.submit_many([{"type": "plenty.tool.v1"}] * 10)
    async with working(app, concurrency=8):
        await eventually(lambda: _true(running == 2 and others == 10))
        release.set()
        for id_ in ids:
            await ended(app, id_)
    assert most == 2


async def test_a_failure_is_retried_after_the_delay_of_the_retry_policy(app: Windlass) -> None:
    @app.job("fail.always.v1", retry=Retry(base=100, jitter=0))
    async def fail() -> None:
        raise RuntimeError("no luck")

    id_ = await app.submit("fail.always.v1")
    await run_until_idle(app)
    job = await app.get(id_)
    assert (job.status, job.attempt, job.last_error) == ("pending", 1, "no luck")
    assert timedelta(seconds=95) < job.run_at - datetime.now(UTC) <= timedelta(seconds=100)
    assert job.errors[0]["type"] == "RuntimeError"
    assert "raise RuntimeError" in job.errors[0]["traceback"]


async def test_the_retry_policy_of_a_job_overrides_that_of_its_handler(app: Windlass) -> None:
    @app.job("fail.twice.v1", retry=Retry(base=1000))
    async def fail(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise RuntimeError(f"attempt {ctx.attempt}")
        return ctx.attempt

    id_ = await app.submit("fail.twice.v1", retry=Retry(base=0))
    await run_until_idle(app)
    job = await app.get(id_)
    assert (job.status, job.result) == ("succeeded", 3)
    assert [error["message"] for error in job.errors] == ["attempt 1", "attempt 2"]
    trail = [event.event_type for event in await app.events(id_)]
    assert trail == ["created", "leased", "retried", "leased", "retried", "leased", "succeeded"]


async def test_a_job_without_attempts_left_fails(app: Windlass) -> None:
    @app.job("fail.always.v1", retry=Retry(base=0), max_attempts=2)
    async def fail() -> None:
        raise RuntimeError("no luck")

    id_ = await app.submit("fail.always.v1")
    await run_until_idle(app)
    job = await app.get(id_)
    assert (job.status, job.attempt) == ("failed", 2)


async def test_a_non_retryable_error_fails_the_job_without_a_retry(app: Windlass) -> None:
    @app.job("fail.hard.v1")
    async def fail() -> None:
        raise NonRetryable("the card is stolen")

    id_ = await app.submit("fail.hard.v1", max_attempts=10)
    await run_until_idle(app)
    job = await app.get(id_)
    assert (job.status, job.attempt, job.last_error) == ("failed", 1, "the card is stolen")


async def test_a_retry_after_error_sets_the_delay_of_the_retry(app: Windlass) -> None:
    @app.job("busy.server.v1")
    async def busy() -> None:
        raise RetryAfter(500, "the server is busy")

    id_ = await app.submit("busy.server.v1")
    await run_until_idle(app)
    job = await app.get(id_)
    assert job.status == "pending"
    assert timedelta(seconds=490) < job.run_at - datetime.now(UTC) <= timedelta(seconds=500)


@pytest.mark.parametrize(
    ("payload", "told"),
    [({}, "'content_id'"), ({"content_id": "c", "size": 1}, "'size'"), (["c", 1, 2], "there are 3 arguments")],
)
async def test_an_invalid_payload_fails_without_a_retry_and_the_error_names_the_parameter(
    app: Windlass, payload: object, told: str
) -> None:
    @app.job("content.thumbnail.v1", max_attempts=5)
    async def thumbnail(ctx: Context, content_id: str, width: int = 300) -> None: ...

    id_ = await app.submit("content.thumbnail.v1", payload)
    await run_until_idle(app)
    job = await app.get(id_)
    assert (job.status, job.attempt) == ("failed", 1)
    assert told in (job.last_error or "")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_handler_that_exceeds_its_timeout_is_stopped_and_its_attempt_fails(
    app: Windlass, working: Working, kind: str
) -> None:
    stopped = threading.Event()

    async def slow_async(ctx: Context) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            assert ctx.cancelled
            stopped.set()
            raise

    def slow_sync(ctx: Context) -> None:
        if ctx.wait_cancelled(30):
            stopped.set()

    app.job("slow.work.v1", timeout=0.1)(slow_async if kind == "async" else slow_sync)
    id_ = await app.submit("slow.work.v1", max_attempts=1)
    async with working(app):
        job = await ended(app, id_, "failed")
    assert job.last_error == "timed out after 0.1 s"
    assert stopped.wait(5)


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_cancelling_a_running_job_stops_its_handler(app: Windlass, working: Working, kind: str) -> None:
    started, stopped = threading.Event(), threading.Event()

    async def slow_async() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    def slow_sync(ctx: Context) -> None:
        started.set()
        if ctx.wait_cancelled(30):
            stopped.set()

    app.job("slow.work.v1")(slow_async if kind == "async" else slow_sync)
    id_ = await app.submit("slow.work.v1")
    async with working(app, lease=timedelta(seconds=3)):
        await eventually(lambda: _true(started.is_set()))
        await app.cancel(id_, reason="changed my mind")
        await eventually(lambda: _true(stopped.is_set()))
    job = await app.get(id_)
    assert (job.status, job.result) == ("cancelled", None)
    assert [event.event_type for event in await app.events(id_)] == ["created", "leased", "cancelled"]


async def test_the_lease_of_a_long_job_is_extended_automatically(app: Windlass, working: Working) -> None:
    release = asyncio.Event()

    @app.job("long.work.v1")
    async def long() -> None:
        await release.wait()

    id_ = await app.submit("long.work.v1")

    async def lease_until() -> datetime | None:
        return (await app.get(id_)).lease_until

    async with working(app, lease=timedelta(seconds=1)):
        first = await eventually(lease_until)

        async def is_over() -> bool:
            return (await lease_until() or first) > first + timedelta(seconds=1)

        await eventually(is_over)
        release.set()
        job = await ended(app, id_)
    assert job.lost == 0
    assert [event.event_type for event in await app.events(id_)] == ["created", "leased", "succeeded"]


async def test_a_job_without_a_handler_is_left_for_other_workers(app: Windlass) -> None:
    @app.job("known.work.v1")
    async def known() -> None: ...

    other = await app.submit("unknown.work.v1")
    mine = await app.submit("known.work.v1")
    await run_until_idle(app)
    assert (await app.get(mine)).status == "succeeded"
    job = await app.get(other)
    assert (job.status, job.attempt) == ("pending", 0)
    assert [event.event_type for event in await app.events(other)] == ["created"]


async def test_a_worker_may_serve_a_pattern_and_only_some_prefixes(app: Windlass, working: Working) -> None:
    seen: list[str] = []

    @app.job("billing.%")
    async def billing(ctx: Context) -> None:
        seen.append(ctx.type)

    @app.job("content.ocr.v1")
    async def ocr(ctx: Context) -> None:
        seen.append(ctx.type)

    invoice = await app.submit("billing.invoice.v1")
    scan = await app.submit("content.ocr.v1")
    async with working(app, prefixes=["billing.%"]):
        await ended(app, invoice)
    assert seen == ["billing.invoice.v1"]
    assert (await app.get(scan)).status == "pending"


async def test_the_registry_moves_a_type_between_runtimes(app: Windlass, working: Working) -> None:
    @app.job("content.ocr.v1")
    async def ocr() -> None: ...

    db = await app.open()
    await db.pool.execute(
        "insert into workflow.workflow_registry (workflow_name, runtime) values ('content.ocr.v1', 'go')"
    )
    id_ = await app.submit("content.ocr.v1")
    await run_until_marker_job_ends(app, working)
    assert (await app.get(id_)).status == "pending"
    await db.pool.execute("update workflow.workflow_registry set runtime = 'python'")
    async with working(app):
        await ended(app, id_)


async def run_until_marker_job_ends(app: Windlass, working: Working) -> None:
    """Run a worker until it has processed a marker job that it may claim."""
    app.job("marker.work.v1")(_nothing)
    marker = await app.submit("marker.work.v1", priority=999)
    async with working(app):
        await ended(app, marker)


async def test_log_lines_are_stored_with_their_attempt_and_capped(app: Windlass) -> None:
    @app.job("chatty.work.v1", retry=Retry(base=0))
    def chatty(ctx: Context) -> None:
        ctx.log.info("attempt %d", ctx.attempt)
        logging.getLogger("my.library").warning("from a library")
        if ctx.attempt == 1:
            raise RuntimeError("again")
        for n in range(1200):
            ctx.log.info("line %d", n)

    id_ = await app.submit("chatty.work.v1")
    await run_until_idle(app)
    first = [line.message for line in await app.logs(id_, attempt=1)]
    assert first == ["attempt 1", "from a library"]
    second = await app.logs(id_, attempt=2)
    assert len(second) == 1001
    assert "not stored" in second[-1].message


async def test_a_result_that_is_not_json_fails_with_a_clear_error(app: Windlass) -> None:
    @app.job("odd.result.v1")
    async def odd() -> object:
        return {"when": {1, 2}}

    id_ = await app.submit("odd.result.v1")
    await run_until_idle(app)
    job = await app.get(id_)
    assert job.status == "failed"
    assert "result is not JSON" in (job.last_error or "")


async def test_an_error_text_that_postgres_cannot_store_does_not_block_the_report(app: Windlass) -> None:
    @app.job("evil.error.v1", max_attempts=1)
    async def evil() -> None:
        raise RuntimeError("NUL \x00 and half a pair \ud800")

    @app.job("good.work.v1")
    async def good() -> None: ...

    bad = await app.submit("evil.error.v1")
    others = await app.submit_many([{"type": "good.work.v1"}] * 20)
    await run_until_idle(app)
    assert (await app.get(bad)).last_error == "NUL \\x00 and half a pair ?"
    assert {(await app.get(id_)).status for id_ in others} == {"succeeded"}


async def test_a_worker_registers_at_its_start_and_is_marked_as_stopped_at_its_end(
    app: Windlass, working: Working
) -> None:
    @app.job("known.work.v1")
    async def known() -> None: ...

    db = await app.open()
    async with working(app, id="w-1", queues=["default"]):
        rows = await eventually(lambda: db.pool.fetch("select * from windlass.worker"))
        types = ["windlass.http.v1", "windlass.webhook.v1", "known.work.v1"]
        assert (rows[0]["id"], rows[0]["state"], rows[0]["types"]) == ("w-1", "running", types)
    assert await db.pool.fetchval("select state from windlass.worker") == "stopped"


async def test_draining_hands_unfinished_work_back_uncharged(app: Windlass, working: Working) -> None:
    started = asyncio.Event()

    @app.job("long.work.v1")
    async def long() -> None:
        started.set()
        await asyncio.Event().wait()

    id_ = await app.submit("long.work.v1")
    async with working(app, grace=timedelta()):
        await started.wait()
    job = await app.get(id_)
    assert (job.status, job.attempt, job.lost, job.leased_by) == ("pending", 0, 0, None)
    last = (await app.events(id_))[-1]
    assert (last.event_type, last.data) == ("retried", {"reason": "handed back"})


async def test_delayed_jobs_start_when_they_are_due(app: Windlass, working: Working) -> None:
    @app.job("later.work.v1")
    async def later() -> None: ...

    db = await app.open()
    id_ = await app.submit("later.work.v1", delay=0.3)
    assert await turn.look(db, ["default"]) == []
    async with working(app, poll=timedelta(seconds=60)):
        job = await ended(app, id_)
    assert job.updated_at >= job.run_at


async def _true(value: bool) -> bool:
    return value


async def _nothing() -> None: ...
