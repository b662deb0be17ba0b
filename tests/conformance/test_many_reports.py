"""Several outcomes in one request: each has its own response, and all accepted ones are recorded together."""

from typing import Any

import pytest

from tests.conformance.ojs_client import ERROR, Json, OjsClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "0198c0de-0000-7000-8000-000000000000"


async def fetched(ojs: OjsClient, number: int, **options: Any) -> list[Json]:
    await ojs.ask(
        "POST", "/jobs/batch", {"jobs": [{"type": "a.b", "args": [n], **options} for n in range(number)]}, 201
    )
    return await ojs.fetch(count=number, worker_id="w")


async def report(ojs: OjsClient, word: str, jobs: list[Any], **more: Any) -> list[Json]:
    answer = await ojs.ask("POST", f"/workers/{word}", {"worker_id": "w", "jobs": jobs, **more})
    assert answer.keys() == {"results"}
    results: list[Json] = answer["results"]
    return results


async def test_results_are_in_the_order_of_the_reports(ojs: OjsClient) -> None:
    jobs = await fetched(ojs, 5)
    entries = [{"job_id": job["id"], "fence": job["fence"], "result": {"n": job["args"][0]}} for job in reversed(jobs)]
    assert await report(ojs, "ack", entries) == [{"job_id": job["id"], "state": "completed"} for job in reversed(jobs)]
    assert [(await ojs.get(job))["result"] for job in jobs] == [{"n": n} for n in range(5)]
    assert await report(ojs, "ack", []) == []


async def test_reports_that_are_refused_do_not_affect_the_others(ojs: OjsClient) -> None:
    good, done, other, deep, nul, late = await fetched(ojs, 6)
    await ojs.ack(done)
    nested: Any = 1
    for _ in range(70):
        nested = [nested]
    results = await report(
        ojs,
        "ack",
        [
            {"job_id": done["id"]},
            {"job_id": UNKNOWN},
            {"job_id": other["id"], "fence": other["fence"] + 1},
            {"job_id": deep["id"], "result": nested},
            {"job_id": nul["id"], "result": "\0"},
            {"job_id": late["id"], "fence": "1"},
            {"job_id": 7},
            {"result": 1},
            "text",
            {"job_id": good["id"], "result": 1},
            {"job_id": good["id"], "result": 2},
        ],
    )
    assert [result.get("state") or result["error"]["code"] for result in results] == [
        "conflict",
        "not_found",
        "conflict",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "invalid_request",
        "completed",
        "conflict",
    ]
    assert [result["job_id"] for result in results[:3]] == [done["id"], UNKNOWN, other["id"]]
    assert [result["job_id"] for result in results[6:9]] == [None, None, None]
    assert "nested deeper than 64" in results[3]["error"]["message"]
    assert "jobs[4].result contains a NUL" in results[4]["error"]["message"]
    assert "fence must be an integer" in results[5]["error"]["message"]
    assert all(result["error"]["retryable"] is False for result in results if "error" in result)
    assert (await ojs.get(good))["result"] == 1
    assert [await ojs.state(job) for job in (other, deep, nul, late)] == ["active"] * 4


async def test_only_the_holder_may_report_many(ojs: OjsClient) -> None:
    [job] = await fetched(ojs, 1)
    [refused] = await report(ojs, "ack", [{"job_id": job["id"]}], worker_id="another")
    assert refused["error"]["code"] == "conflict"
    assert "held by another worker" in refused["error"]["message"]


async def test_each_failure_is_retried_released_or_final_by_its_own_report(ojs: OjsClient) -> None:
    policy = {"options": {"retry": {"max_attempts": 3, "initial_interval": "PT1S", "jitter": False}}}
    jobs = await fetched(ojs, 6, **policy)
    outcomes: list[Json] = [
        {"error": ERROR},
        {"error": ERROR, "delay_ms": 5000},
        {"error": ERROR, "delay_ms": 0},
        {"error": {**ERROR, "retryable": False}},
        {"requeue": True},
        {"error": 7},
    ]
    entries = [
        {"job_id": job["id"], "fence": job["fence"], **outcome} for job, outcome in zip(jobs, outcomes, strict=True)
    ]
    results = await report(ojs, "nack", entries)
    states = [result.get("state") or result["error"]["code"] for result in results]
    assert states == ["retryable", "retryable", "available", "discarded", "available", "invalid_request"]
    assert [result.get("state") for result in results[:5]] == [await ojs.state(job) for job in jobs[:5]]
    again = await ojs.fetch(count=6, worker_id="w")
    assert {(job["args"][0], job["attempt"]) for job in again} == {(2, 2), (4, 1)}
    await ojs.pass_time(seconds=1)
    assert [job["args"] for job in await ojs.fetch(count=6)] == [[0]]
    await ojs.pass_time(seconds=4)
    assert [job["args"] for job in await ojs.fetch(count=6)] == [[1]]


async def test_a_single_report_also_accepts_a_fence_and_a_delay(ojs: OjsClient) -> None:
    await ojs.push(retry={"max_attempts": 2})
    job = await ojs.one()
    assert (job["fence"], job["attempt"]) == (1, 1)
    await ojs.nack(job, status=409, fence=2)
    assert (await ojs.nack(job, fence=1, delay_ms=60_000))["retry_delay_ms"] == 60_000
    await ojs.pass_time(minutes=1)
    again = await ojs.one()
    assert (again["fence"], again["attempt"]) == (2, 2)
    await ojs.ack(again, status=409, fence=1)
    await ojs.ack(again, fence=2)


async def test_steps_of_runs_and_other_jobs_may_be_reported_together(ojs: OjsClient) -> None:
    tasks = {name: {"job": f"mixed.{name}", "queue": "default"} for name in ("first", "second")}
    tasks["second"]["depends_on"] = "first"
    await ojs.app.deploy({"name": "mixed", "tasks": tasks})
    run = await ojs.app.start("mixed")
    await ojs.push("mixed.plain")
    jobs = await ojs.fetch(count=9, worker_id="w")
    assert sorted(job["type"] for job in jobs) == ["mixed.first", "mixed.plain"]
    entries = [{"job_id": job["id"], "fence": job["fence"], "result": job["type"]} for job in jobs]
    assert [result["state"] for result in await report(ojs, "ack", entries)] == ["completed"] * 2
    [second] = await ojs.fetch(count=9, worker_id="w")
    assert second["type"] == "mixed.second"
    await report(ojs, "ack", [{"job_id": second["id"], "fence": second["fence"]}])
    assert (await run.result()).state == "completed"


@pytest.mark.parametrize("word", ["ack", "nack"])
async def test_an_invalid_request_records_nothing(ojs: OjsClient, word: str) -> None:
    [job] = await fetched(ojs, 1)
    for body, message in (
        ({"jobs": {"job_id": job["id"]}}, "jobs must be a list of at most 1000 objects"),
        ({"jobs": [{"job_id": job["id"]}] * 1001}, "jobs must be a list of at most 1000 objects"),
        ({"jobs": [{"job_id": job["id"]}], "worker_id": 7}, "worker_id must be a non-empty string"),
    ):
        error = await ojs.refused("POST", f"/workers/{word}", body, 400, "invalid_request")
        assert error["message"] == message
    await ojs.refused("POST", f"/workers/{word}", {"jobs": [{"job_id": job["id"]}], "x": "\0"}, 400, "invalid_payload")
    assert await ojs.state(job) == "active"


async def test_a_worker_that_stops_a_cancelled_step_cancels_it(ojs: OjsClient) -> None:
    app = ojs.app
    await app.deploy({"name": "slow", "tasks": {"work": {"job": "slow.v1", "queue": "remote"}}})
    run = await app.start("slow")
    job = await ojs.one("remote", worker_id="w")
    await run.cancel()
    beat = await ojs.ask("POST", "/workers/heartbeat", {"worker_id": "w", "active_jobs": [job["id"]]})
    assert (beat["jobs_extended"], beat["jobs_cancelled"]) == ([job["id"]], [job["id"]])
    entry = {"job_id": job["id"], "fence": job["fence"], "error": {"code": "cancelled", "message": "stopped"}}
    assert await report(ojs, "nack", [entry]) == [{"job_id": job["id"], "state": "cancelled"}]


async def test_a_heartbeat_distinguishes_a_cancelled_job_from_a_lost_one(ojs: OjsClient) -> None:
    cancelled, lost, held = await fetched(ojs, 3)
    await ojs.ask("DELETE", f"/jobs/{cancelled['id']}")
    await ojs.nack(lost, requeue=True)
    ids = [job["id"] for job in (cancelled, lost, held)]
    beat = await ojs.ask("POST", "/workers/heartbeat", {"worker_id": "w", "active_jobs": ids})
    assert (beat["jobs_extended"], beat["jobs_cancelled"]) == ([held["id"]], [cancelled["id"]])
