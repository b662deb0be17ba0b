"""HTTP steps of real runs: a real worker, a real server on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.effects.server import ClientConnection, Received, reply
from tests.runtime.conftest import Working, eventually
from tests.runtime.shop import app_for, deploy, ok, opened
from windlass import Windlass
from windlass.core.runs.run import RunResult
from windlass.testing import Clock

Connection = Any
QUICK = {"kind": "constant", "base": 0.001, "jitter": 0}


@pytest.fixture
async def app(database: str) -> AsyncIterator[Windlass]:
    async with app_for(database) as made:
        yield made


async def ended(app: Windlass, working: Working, input: Any = None, **tasks: Any) -> RunResult:  # noqa: A002
    """Run these tasks with a worker and return the result of the run."""
    await deploy(app, **tasks)
    async with working(app):
        return await (await app.start("w", input)).wait(timeout=30)


async def silent(_: Received, connection: ClientConnection) -> None:
    """Wait without sending a response until the client disconnects."""
    await connection.gone()


# Responses


@pytest.mark.parametrize(
    ("status", "state", "requests"),
    [
        (200, "succeeded", 1),
        (204, "succeeded", 1),
        (304, "succeeded", 1),
        (400, "failed", 1),
        (402, "failed", 1),
        (404, "failed", 1),
        (408, "failed", 3),
        (425, "failed", 3),
        (429, "failed", 3),
        (500, "failed", 3),
        (503, "failed", 3),
    ],
)
async def test_the_status_code_decides_between_success_failure_and_retry(
    app: Windlass, working: Working, status: int, state: str, requests: int
) -> None:
    async with opened(x=reply(status)) as shop:
        result = await ended(app, working, a={"url": f"{shop.url}/x", "retries": 2, "retry": QUICK})
        assert (result.steps["a"], len(shop.requests)) == (state, requests)
    assert result.state == ("completed" if state == "succeeded" else "failed")


async def test_a_step_succeeds_when_the_server_recovers_and_only_then_advances_the_run(
    app: Windlass, working: Working
) -> None:
    async with opened(x=[ok(status=503), ok(status=500), ok({"n": 1})]) as shop:
        result = await ended(
            app,
            working,
            a={"url": f"{shop.url}/x", "retry": QUICK},
            b={"needs": ["a"], "url": f"{shop.url}/y", "body": ["{{tasks.a.body.n}}", "{{tasks.a.attempt}}"]},
        )
        assert (result.state, shop.paths()) == ("completed", ["/x", "/x", "/x", "/y"])
        assert shop.body("/y") == [1, 3]


async def test_a_broken_connection_is_retried(app: Windlass, working: Working) -> None:
    async def hang_up(_: Received, connection: ClientConnection) -> None:
        connection.writer.close()

    async with opened(x=[hang_up, ok("fine")]) as shop:
        result = await ended(app, working, a={"url": f"{shop.url}/x", "retry": QUICK})
    assert (result.state, result.output) == ("completed", "fine")


async def test_402_fails_without_a_retry_and_its_body_selects_the_next_step(app: Windlass, working: Working) -> None:
    async with opened(charge=ok({"error": {"code": "card_declined"}}, status=402)) as shop:
        result = await ended(
            app,
            working,
            charge={"url": f"{shop.url}/charge", "retries": 5},
            ask={
                "needs": ["charge"],
                "if": "tasks.charge.status_code == 402 && tasks.charge.body.error.code == 'card_declined'",
                "url": f"{shop.url}/ask",
                "body": {"why": "{{tasks.charge.body.error.code}}", "was": "{{tasks.charge.status}}"},
            },
            other={"needs": ["charge"], "if": "tasks.charge.status_code == 409", "url": f"{shop.url}/other"},
        )
        assert shop.paths() == ["/charge", "/ask"]
        assert shop.body("/ask") == {"why": "card_declined", "was": "failed"}
    assert (result.state, result.steps["other"]) == ("completed", "skipped")


async def test_the_output_of_a_step_is_the_response_body(app: Windlass, working: Working) -> None:
    async with opened(x=ok({"id": 7})) as shop:
        result = await ended(app, working, a={"url": f"{shop.url}/x"})
    assert result.output == {"id": 7}


# Attempts


async def test_retries_are_delayed_by_the_retry_policy(app: Windlass, working: Working, conn: Connection) -> None:
    async with opened(x=ok(status=503)) as shop:
        policy = {"kind": "exponential", "base": 0.02, "factor": 2, "jitter": 0}
        result = await ended(app, working, a={"url": f"{shop.url}/x", "max_attempts": 4, "retry": policy})
        assert (result.state, len(shop.requests)) == ("failed", 4)
    waits = await conn.fetch("select data from workflow.workflow_event where event_type = 'retried' order by id")
    errors = json.loads(await conn.fetchval("select errors from workflow.workflow_run"))
    assert [error["type"] for error in errors] == ["HttpStatus"] * 4
    assert [json.loads(row["data"])["delay_seconds"] for row in waits] == [0.02, 0.04, 0.08]


async def test_an_http_step_is_retried_five_times_by_default(app: Windlass, working: Working) -> None:
    async with opened(x=ok(status=500)) as shop:
        result = await ended(app, working, a={"url": f"{shop.url}/x", "retry": QUICK})
        assert (result.state, len(shop.requests)) == ("failed", 6)


@pytest.mark.parametrize("how", ["seconds", "date"])
async def test_retry_after_is_respected_to_the_second(database: str, working: Working, clock: Clock, how: str) -> None:
    """The clock is frozen until the test moves it: no request may be sent before it is due."""
    start = datetime.now(UTC).replace(microsecond=0)
    clock.set(start)
    # A date is read by the worker's own clock, which the test cannot move: it may be some seconds off.
    told = "3600" if how == "seconds" else format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    async with (
        app_for(database, clock) as app,
        opened(x=[ok(None, f"Retry-After: {told}", status=429), ok("fine")]) as shop,
    ):
        await deploy(app, a={"url": f"{shop.url}/x", "retry": QUICK})
        db = await app.open()
        async with working(app):
            run = await app.start("w")

            async def waits() -> Any:
                return await db.pool.fetchval(
                    "select run_at from workflow.workflow_run where status = 'pending' and attempt = 1"
                )

            due = await eventually(waits)
            assert abs(due - start - timedelta(hours=1)) <= timedelta(seconds=0 if how == "seconds" else 30)
            clock.set(due - timedelta(seconds=1))
            await asyncio.sleep(0.3)
            assert len(shop.requests) == 1
            clock.set(due)
            assert (await run.wait(timeout=20)).output == "fine"


# Identity


async def test_every_attempt_sends_identifying_headers(app: Windlass, working: Working, conn: Connection) -> None:
    async with opened(x=[ok(status=503), ok(status=503), ok()]) as shop:
        result = await ended(app, working, a={"url": f"{shop.url}/x", "retry": QUICK})
        sent = [request.headers for request in shop.requests]
    assert [headers["windlass-attempt"] for headers in sent] == ["1", "2", "3"]
    assert {headers["windlass-run"] for headers in sent} == {str(result.id)}
    fences = [int(headers["windlass-fence"]) for headers in sent]
    assert fences == sorted(set(fences))
    job = await conn.fetchval("select id from workflow.workflow_run")
    assert {headers["idempotency-key"] for headers in sent} == {str(job)}
    assert sent[0]["user-agent"].startswith("windlass/")


async def test_retries_and_reruns_of_a_run_have_their_own_idempotency_keys(app: Windlass, working: Working) -> None:
    async with opened(x=[ok(status=400), ok(), ok()]) as shop:
        await deploy(app, a={"url": f"{shop.url}/x"})
        async with working(app):
            run = await app.start("w")
            assert (await run.wait(timeout=20)).state == "failed"
            await run.retry()
            assert (await run.wait(timeout=20)).state == "completed"
            await run.rerun("a")
            await run.wait(timeout=20)
        keys = [request.headers["idempotency-key"] for request in shop.requests]
    assert len(keys) == len(set(keys)) == 3
    assert len({key[:36] for key in keys}) == 1  # the same job


async def test_instances_of_a_step_have_their_own_idempotency_keys(app: Windlass, working: Working) -> None:
    async with opened() as shop:
        await ended(app, working, a={"url": f"{shop.url}/x", "parallel": 20, "body": "{{index}}"})
        keys = {request.headers["idempotency-key"] for request in shop.requests}
        assert len(keys) == len(shop.requests) == 20
        assert sorted(int(request.body) for request in shop.requests) == list(range(20))


async def test_custom_headers_override_the_default_headers(app: Windlass, working: Working) -> None:
    headers = {"Idempotency-Key": "{{input.key}}", "Content-Type": "application/vnd.shop+json"}
    async with opened() as shop:
        step = {"url": f"{shop.url}/x", "method": "PUT", "headers": headers, "body": {"a": 1}}
        await ended(app, working, {"key": "order-7"}, a=step)
        [request] = shop.requests
    assert (request.method, request.headers["idempotency-key"]) == ("PUT", "order-7")
    assert request.headers["content-type"] == "application/vnd.shop+json"


async def test_the_reason_of_a_failure_does_not_contain_secret_input(app: Windlass, working: Working) -> None:
    async with opened(**{"x?key=s3cret": ok(status=400)}) as shop:
        step = {"url": f"{shop.url}/x?key={{{{input.key}}}}", "headers": {"Authorization": "Bearer {{input.key}}"}}
        await deploy(app, a=step)
        async with working(app):
            run = await app.start("w", {"key": "s3cret"})
            await run.wait(timeout=20)
        view = await run.view()
    assert "answered 400" in str([event.reason for event in view.events])
    assert "s3cret" not in str([event.reason for event in view.events]) + str(view.jobs)


# Limits


async def test_a_response_over_256_kb_is_truncated_and_steps_that_read_it_fail_with_that_reason(
    app: Windlass, working: Working, conn: Connection
) -> None:
    large = json.dumps({"amount": 5, "more": "x" * 300_000}).encode()
    async with opened(x=reply(200, large), y=reply(200, large[:200_000])) as shop:
        result = await ended(
            app,
            working,
            charge={"url": f"{shop.url}/x"},
            code={"needs": ["charge"], "url": f"{shop.url}/code", "body": "{{tasks.charge.status_code}}"},
            amount={"needs": ["charge"], "url": f"{shop.url}/amount", "body": "{{tasks.charge.body.amount}}"},
        )
        assert shop.body("/code") == 200
        assert shop.asked("/amount") == []
    assert result.steps == {"charge": "succeeded", "code": "succeeded", "amount": "failed"}
    told = await conn.fetchval("select reason from windlass.event where code = 'template_error'")
    assert (
        told
        == "Cannot read 'body.amount' because the response from 'charge' exceeded the 256KB limit and was truncated"
    )
    kept = json.loads(await conn.fetchval("select result from workflow.workflow_run where step = 0"))
    assert (len(kept["body"]), kept["is_truncated"]) == (256 * 1024, True)


async def test_a_response_that_exceeds_the_timeout_makes_the_step_time_out(app: Windlass, working: Working) -> None:
    async with opened(x=silent) as shop:
        result = await ended(
            app,
            working,
            a={"url": f"{shop.url}/x", "timeout": 100, "max_attempts": 2, "retry": QUICK},
            b={"needs": ["a"], "if": "tasks.a.status == 'timeout'", "url": f"{shop.url}/late"},
            c={"needs": ["a"], "url": f"{shop.url}/never"},
        )
        assert shop.paths() == ["/x", "/x", "/late"]
    assert result.steps == {"a": "timed out", "b": "succeeded", "c": "skipped"}
    assert result.state == "completed"


async def test_an_unhandled_timeout_fails_the_run(app: Windlass, working: Working) -> None:
    async with opened(x=silent) as shop:
        await deploy(app, a={"url": f"{shop.url}/x", "timeout": 50, "max_attempts": 1})
        async with working(app):
            run = await app.start("w")
            assert (await run.wait(timeout=20)).state == "failed"
        view = await run.view()
    assert view.row.letters == "t"
    assert "timed out after 0.05 s" in str(view.events)


async def test_cancelling_the_run_closes_the_connection(app: Windlass, working: Working) -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def wait(_: Received, connection: ClientConnection) -> None:
        asked.set()
        await connection.gone()
        closed.set()

    async with opened(x=wait) as shop:
        await deploy(app, a={"url": f"{shop.url}/x"}, b={"needs": ["a"], "url": f"{shop.url}/b"})
        async with working(app):
            run = await app.start("w")
            await asyncio.wait_for(asked.wait(), 20)
            await run.cancel()
            await asyncio.wait_for(closed.wait(), 20)

            async def over() -> bool:
                return (await run.view()).row.letters == "cc"

            await eventually(over)
        assert (await run.result()).state == "cancelled"
        assert shop.paths() == ["/x"]


async def test_a_draining_worker_hands_the_request_back_and_the_next_worker_repeats_it(
    app: Windlass, working: Working
) -> None:
    asked = asyncio.Event()

    async def wait(_: Received, connection: ClientConnection) -> None:
        asked.set()
        await connection.gone()

    async with opened(x=[wait, ok("done")]) as shop:
        await deploy(app, a={"url": f"{shop.url}/x", "max_attempts": 1})
        async with working(app, grace=timedelta()):
            run = await app.start("w")
            await asyncio.wait_for(asked.wait(), 20)
        async with working(app):
            assert (await run.wait(timeout=20)).output == "done"
        first, second = shop.requests
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
        assert int(first.headers["windlass-fence"]) < int(second.headers["windlass-fence"])


# Allowed addresses


async def test_private_addresses_are_refused_without_a_retry_and_with_a_hint(database: str, working: Working) -> None:
    async with app_for(database, http_allow=()) as app, opened() as shop:
        await deploy(app, a={"url": f"{shop.url}/x", "retries": 5}, b={"url": "http://169.254.169.254/latest"})
        async with working(app):
            run = await app.start("w")
            result = await run.wait(timeout=20)
        view = await run.view()
        assert shop.requests == []
    assert (result.state, result.steps) == ("failed", {"a": "failed", "b": "failed"})
    told = [event.reason for event in view.events if event.step == 0 and event.reason]
    assert len(told) == 1
    assert "127.0.0.1" in str(told)
    assert "WINDLASS_HTTP_ALLOW" in str(told)


async def test_a_redirect_to_a_private_address_is_refused(app: Windlass, working: Working) -> None:
    async with opened(x=reply(302, b"", "Location: http://169.254.169.254/")) as shop:
        result = await ended(app, working, a={"url": f"{shop.url}/x"})
    assert result.state == "failed"


async def test_an_invalid_request_fails_without_a_retry(app: Windlass, working: Working) -> None:
    async with opened() as shop:
        await deploy(app, a={"url": "{{input.url}}", "retries": 3})
        async with working(app):
            run = await app.start("w", {"url": "ftp://example.com/x"})
            assert (await run.wait(timeout=20)).state == "failed"
        assert shop.requests == []


# Concurrency


async def test_two_hundred_concurrent_requests_succeed_within_the_connection_limit(
    app: Windlass, working: Working
) -> None:
    async with opened() as shop:
        result = await ended(app, working, a={"url": f"{shop.url}/x", "parallel": 200, "body": "{{index}}"})
        assert (result.state, len(shop.requests)) == ("completed", 200)
        assert shop.server is not None
        assert shop.server.busiest <= 20  # for each host
