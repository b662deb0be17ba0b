"""The worker protocol: order, reports, retries, leases, time limits, dead letters."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.conformance.ojs_client import ERROR, OjsClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

FAST = {"initial_interval": "PT1S", "jitter": False}


async def test_jobs_are_fetched_by_queue_order_then_priority_then_age(ojs: OjsClient) -> None:
    for name, options in (
        ("a.one", {"queue": "low", "priority": 50}),
        ("a.two", {"queue": "high"}),
        ("b.three", {"queue": "high", "priority": -1}),
        ("c.four", {"queue": "high", "priority": 10}),
        ("a.five", {"queue": "high"}),
        ("b.six", {"queue": "high"}),
        ("a.seven", {"queue": "high"}),
    ):
        await ojs.push(name, **options)
    order = [job["type"] for job in await ojs.fetch("high", "low", count=100)]
    assert order == ["c.four", "a.two", "a.five", "b.six", "a.seven", "b.three", "a.one"]


async def test_concurrent_fetches_never_return_the_same_job(ojs: OjsClient) -> None:
    await ojs.ask("POST", "/jobs/batch", {"jobs": [{"type": f"a.t{n % 3}", "args": []} for n in range(100)]}, 201)
    fetched = await asyncio.gather(*(ojs.fetch(count=7, worker_id=f"w{n}") for n in range(20)))
    taken = Counter(job["id"] for jobs in fetched for job in jobs)
    assert len(taken) == 100
    assert set(taken.values()) == {1}


async def test_a_result_is_stored_exactly(ojs: OjsClient) -> None:
    await ojs.push()
    job = await ojs.one()
    told = await ojs.ack(job, {"a": [1.5, None, "ü"]})
    assert (told["acknowledged"], told["id"], told["job_id"]) == (True, job["id"], job["id"])
    assert (told["state"], told["job"]["result"]) == ("completed", {"a": [1.5, None, "ü"]})
    found = await ojs.get(job)
    assert (found["state"], found["attempt"], found["completed_at"]) == ("completed", 1, told["completed_at"])
    assert found["started_at"]
    assert (await ojs.ack(job, status=409))["error"]["retryable"] is False
    assert (await ojs.nack(job, status=409))["error"]["code"] == "conflict"
    await ojs.refused("POST", "/workers/ack", {"job_id": "nothing"}, 404, "not_found")
    await ojs.refused("POST", "/workers/ack", {}, 400, "invalid_request")


async def test_a_report_with_a_worker_id_is_accepted_only_from_the_holder(ojs: OjsClient) -> None:
    await ojs.push()
    job = await ojs.one(worker_id="mine")
    assert (await ojs.ack(job, status=409, worker_id="other"))["error"]["code"] == "conflict"
    assert (await ojs.ack(job, worker_id="mine"))["state"] == "completed"


BACKOFFS: list[tuple[dict[str, Any], list[int]]] = [
    ({"backoff_strategy": "exponential", "backoff_coefficient": 2.0}, [1000, 2000, 4000]),
    ({"backoff_strategy": "linear"}, [1000, 2000, 3000]),
    ({"backoff_type": "constant"}, [1000, 1000, 1000]),
    ({"backoff_strategy": "polynomial", "backoff_coefficient": 2.0}, [1000, 4000, 9000]),
    ({"backoff_coefficient": 10.0, "max_interval": "PT2S"}, [1000, 2000, 2000]),
    ({"backoff": "linear", "base_delay_ms": 500, "initial_interval": None}, [500, 1000, 1500]),
]


async def test_retries_are_delayed_by_their_policy(ojs: OjsClient) -> None:
    for policy, delays in BACKOFFS:
        await ojs.push(retry={"max_attempts": 4, **FAST, **policy})
        for number, delay in enumerate(delays, 1):
            job = await ojs.one()
            assert job["attempt"] == number
            told = await ojs.nack(job)
            assert (told["state"], told["attempt"], told["retry_delay_ms"]) == ("retryable", number, delay)
            assert told["next_attempt_at"] == (await ojs.get(job))["next_attempt_at"]
            assert await ojs.fetch() == []
            await ojs.pass_time(milliseconds=delay)
        last = await ojs.one()
        assert last["retry_delay_ms"] == delays[-1]
        assert len(last["errors"]) == 3
        told = await ojs.nack(last)
        assert (told["state"], told["attempt"], told["discarded_at"]) == ("discarded", 4, told["completed_at"])
    assert (await ojs.ask("GET", "/dead-letter"))["jobs"] == []


async def test_jitter_shortens_and_lengthens_delays(ojs: OjsClient) -> None:
    listed = [{"type": "a.b", "args": [], "options": {"retry": {"initial_interval": "PT2S"}}} for _ in range(50)]
    await ojs.ask("POST", "/jobs/batch", {"jobs": listed}, 201)
    told = [await ojs.nack(job) for job in await ojs.fetch(count=50)]
    delays = [one["retry_delay_ms"] for one in told]
    assert all(1000 <= delay <= 3000 for delay in delays)
    assert min(delays) < 2000 < max(delays)


FINAL: list[tuple[dict[str, Any], str, bool]] = [
    ({"code": "handler_error", "message": "m", "retryable": False}, "discarded", True),
    ({"code": "handler_error", "message": "m", "type": "Auth.Expired"}, "discarded", True),
    ({"code": "auth.late", "message": "m"}, "retryable", False),
    ({"code": "handler_error", "message": "m", "details": {"error_class": "ValueError"}}, "discarded", True),
    ({"code": "handler_error", "message": "m", "type": "Authority"}, "retryable", False),
    ({"code": "DISCARD", "message": "m"}, "discarded", False),
    ({"code": "FAIL", "message": "m"}, "discarded", False),
    ({"code": "DEAD_LETTER", "message": "m"}, "discarded", True),
    ({"code": "RETRY", "message": "m"}, "retryable", False),
]


async def test_the_error_determines_whether_a_job_is_retried_or_discarded(ojs: OjsClient) -> None:
    policy = {**FAST, "non_retryable_errors": ["ValueError", "Auth.*"], "on_exhaustion": "dead_letter"}
    dead: list[str] = []
    for error, state, kept in FINAL:
        await ojs.push(retry=policy)
        told = await ojs.nack(await ojs.one(), error)
        assert (told["state"], told["job"]["error"]["message"]) == (state, "m"), error
        dead = [told["id"], *dead] if kept else dead
    assert [job["id"] for job in (await ojs.ask("GET", "/dead-letter"))["jobs"]] == dead


async def test_success_clears_the_last_error_and_keeps_the_history(ojs: OjsClient) -> None:
    await ojs.push(retry=FAST)
    await ojs.nack(await ojs.one(), {**ERROR, "details": {"error_class": "ConnectionError", "host": "db"}})
    await ojs.pass_time(seconds=1)
    job = await ojs.one()
    assert job["error"]["type"] == "ConnectionError"
    assert job["error"]["details"]["host"] == "db"
    done = (await ojs.ack(job))["job"]
    assert "error" not in done
    [error] = done["errors"]
    assert (error["code"], error["attempt"]) == ("handler_error", 1)
    assert error["occurred_at"] == error["timestamp"]


async def test_a_requeued_job_uses_no_attempt(ojs: OjsClient) -> None:
    await ojs.push(retry={"max_attempts": 1})
    told = await ojs.nack(await ojs.one(), requeue=True)
    assert (told["state"], told["attempt"]) == ("available", 0)
    assert (await ojs.one())["attempt"] == 1


async def test_an_expired_lease_releases_the_job_until_its_attempts_are_exhausted(ojs: OjsClient) -> None:
    await ojs.push(visibility_timeout_ms=3000, retry={"max_attempts": 2, "on_exhaustion": "dead_letter"})
    job = await ojs.one(worker_id="silent")
    await ojs.pass_time(seconds=2)
    assert await ojs.state(job) == "active"
    told = await ojs.ask("POST", "/workers/heartbeat", {"worker_id": "silent", "active_jobs": [job["id"]]})
    assert (told["state"], told["directive"], told["jobs_extended"]) == ("running", "", [job["id"]])
    await ojs.pass_time(seconds=2)
    assert await ojs.state(job) == "active"
    await ojs.pass_time(seconds=2)
    found = await ojs.get(job)
    assert (found["state"], found["error"]["type"]) == ("available", "visibility_timeout")
    again = await ojs.one(worker_id="second", visibility_timeout_ms=1000)
    assert again["attempt"] == 2
    assert (await ojs.ack(job, status=409, worker_id="silent"))["error"]["code"] == "conflict"
    await ojs.pass_time(seconds=2)
    assert (await ojs.get(job))["state"] == "discarded"
    assert [dead["id"] for dead in (await ojs.ask("GET", "/dead-letter"))["jobs"]] == [job["id"]]


async def test_an_attempt_over_its_timeout_fails_although_its_worker_is_alive(ojs: OjsClient) -> None:
    await ojs.push(timeout_ms=2000, retry={**FAST, "max_attempts": 2})
    job = await ojs.one(worker_id="slow")
    await ojs.pass_time(seconds=3)
    found = await ojs.get(job)
    assert (found["state"], found["error"]["type"], found["error"]["code"]) == ("retryable", "timeout", "timeout")
    assert (await ojs.ack(job, status=409, worker_id="slow"))["error"]["code"] == "conflict"
    await ojs.pass_time(seconds=1)
    assert (await ojs.one())["attempt"] == 2


async def test_dead_letters_are_listed_retried_and_dropped(ojs: OjsClient) -> None:
    for n in range(3):
        await ojs.push("a.b", n, queue=f"q{n % 2}", retry={"max_attempts": 0, "on_exhaustion": "dead_letter"})
        await ojs.nack(await ojs.one(f"q{n % 2}"))
    page = await ojs.ask("GET", "/dead-letter?limit=2")
    assert [job["args"] for job in page["jobs"]] == [[2], [1]]
    assert page["pagination"] == {"total": 3, "limit": 2, "offset": 0, "has_more": True, "next_cursor": "2"}
    assert [job["args"] for job in (await ojs.ask("GET", "/dead-letter?queue=q1"))["jobs"]] == [[1]]
    [last, first] = page["jobs"]
    found = (await ojs.ask("POST", f"/dead-letter/{last['id']}/retry"))["job"]
    assert (found["state"], found["attempt"]) == ("available", 0)
    assert (await ojs.one("q0"))["attempt"] == 1
    assert await ojs.ask("DELETE", f"/dead-letter/{first['id']}") == {"deleted": True, "job_id": first["id"]}
    for path in (f"/jobs/{first['id']}",):
        await ojs.refused("GET", path, None, 404, "not_found")
    await ojs.refused("POST", f"/dead-letter/{last['id']}/retry", None, 404, "not_found")
    assert len((await ojs.ask("GET", "/dead-letter"))["jobs"]) == 1


async def test_a_heartbeat_returns_the_test_directive_of_a_job(ojs: OjsClient) -> None:
    await ojs.push(metadata={"test_directive": "quiet"})
    job = await ojs.one(worker_id="w")
    told = await ojs.ask("POST", "/workers/heartbeat", {"worker_id": "w", "active_job_ids": [job["id"]]})
    assert (told["state"], told["directive"]) == ("quiet", "quiet")
    assert told["server_time"]
    await ojs.refused("POST", "/workers/heartbeat", {}, 400, "invalid_request")


async def test_a_quiet_worker_gets_no_new_jobs(ojs: OjsClient) -> None:
    await ojs.push()
    await ojs.ask("POST", "/workers/heartbeat", {"worker_id": "w", "active_jobs": [], "state": "quiet"})
    assert await ojs.fetch(worker_id="w") == []
    await ojs.ask("POST", "/workers/heartbeat", {"worker_id": "w", "active_jobs": [], "state": "running"})
    assert len(await ojs.fetch(worker_id="w")) == 1


async def test_concurrent_reports_are_accepted_or_rejected_individually(ojs: OjsClient) -> None:
    await ojs.ask("POST", "/jobs/batch", {"jobs": [{"type": "a.b", "args": [n]} for n in range(40)]}, 201)
    jobs = await ojs.fetch(count=40)

    async def report(n: int) -> int:
        body = {"job_id": jobs[n % 40]["id"], "result": n, "worker_id": "other" if n % 10 == 9 else "ojs"}
        return (await ojs.http.post("/ojs/v1/workers/ack", json=body)).status_code

    told = await asyncio.gather(*(report(n) for n in range(80)))
    assert Counter(told) == {200: 36, 409: 44}
    assert Counter([await ojs.state(job) for job in jobs]) == {"completed": 36, "active": 4}
