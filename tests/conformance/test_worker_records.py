"""The records of a worker while it runs a job, under its fence: steps, log lines, progress and checkpoints."""

import json
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.ojs_client import Json, OjsClient
from windlass.core.jobs.job import MAX_LINES
from windlass.core.jobs.spec import JobSpec
from windlass.engine.jobs import checkpoints

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEASE = 2000
AT = "2026-07-01T12:00:00.5Z"
LINE = {"job_id": "x", "at": AT, "level": "info", "message": "m"}
FAST = {"max_attempts": 5, "initial_interval": "PT1S", "jitter": False}


def held(job: Json, worker: str = "w") -> Json:
    return {"worker_id": worker, "fence": job["fence"]}


async def record(ojs: OjsClient, job: Json, steps: Json, status: int = 200, **more: Any) -> Json:
    listed = [{"name": name, "value": value} for name, value in steps.items()]
    return await ojs.ask("POST", f"/jobs/{job['id']}/steps", {**held(job), "steps": listed, **more}, status)


def line(job: Json, message: str, **more: Any) -> Json:
    return {"job_id": job["id"], "fence": job["fence"], "at": AT, "level": "info", "message": message, **more}


async def log(ojs: OjsClient, *lines: Json, worker: str = "w") -> int:
    answer = await ojs.ask("POST", "/workers/logs", {"worker_id": worker, "lines": lines})
    assert answer == {"accepted": answer["accepted"], "refused": []}
    return int(answer["accepted"])


async def messages(ojs: OjsClient, job: Json) -> list[tuple[int, str, str]]:
    return [(row.attempt, row.level, row.message) for row in await ojs.app.logs(UUID(job["id"]))]


async def fetch_and_lose(ojs: OjsClient, worker: str = "w") -> tuple[Json, Json]:
    """Return a job whose lease was lost to another worker, as each of the two workers fetched it."""
    await ojs.push(retry=FAST)
    late = await ojs.one(worker_id=worker, visibility_timeout_ms=LEASE)
    await ojs.pass_time(milliseconds=LEASE + 1000)
    return late, await ojs.one(worker_id="next")


async def test_the_next_attempt_gets_the_steps_of_earlier_attempts(ojs: OjsClient) -> None:
    await ojs.push(retry=FAST)
    job = await ojs.one(worker_id="w")
    assert "steps" not in job
    assert await record(ojs, job, {"pack": {"box": 7}}) == {"recorded": 1}
    assert await record(ojs, job, {"pack#2": None, "weigh": [1]}) == {"recorded": 2}
    await ojs.nack(job)
    await ojs.pass_time(seconds=1)
    again = await ojs.one(worker_id="w")
    assert sorted(again["steps"], key=lambda step: str(step["name"])) == [
        {"name": "pack", "value": {"box": 7}},
        {"name": "pack#2", "value": None},
        {"name": "weigh", "value": [1]},
    ]
    assert {step.name for step in await checkpoints.timeline(await ojs.app.open(), UUID(job["id"]))} == {
        "pack",
        "pack#2",
        "weigh",
    }


async def test_a_step_that_is_recorded_again_keeps_its_first_value(ojs: OjsClient) -> None:
    await ojs.push(retry=FAST)
    job = await ojs.one(worker_id="w")
    await record(ojs, job, {"pack": 1})
    assert await record(ojs, job, {"pack": 2, "weigh": 3}) == {"recorded": 2}
    listed = [{"name": "send", "value": 4}, {"name": "send", "value": 5}]
    body = {**held(job), "steps": listed}
    assert await ojs.ask("POST", f"/jobs/{job['id']}/steps", body) == {"recorded": 1}
    await ojs.nack(job, requeue=True)
    again = await ojs.one(worker_id="w")
    assert {step["name"]: step["value"] for step in again["steps"]} == {"pack": 1, "weigh": 3, "send": 4}


async def test_steps_are_recorded_all_or_none(ojs: OjsClient) -> None:
    """A later step may have used the result of an earlier one, which the next attempt would compute again."""
    await ojs.push(retry=FAST)
    job = await ojs.one(worker_id="w")
    for steps, field in (
        ({"pack": 1, "": 2, "send": 3}, "steps[1].name"),
        ({"pack": 1, "weigh": 2, "s" * 1000: 3}, "steps[2].name"),
    ):
        error = await record(ojs, job, steps, 400)
        assert error["error"]["details"] == {"field": field}
    await ojs.nack(job, requeue=True)
    assert "steps" not in await ojs.one(worker_id="w")


async def test_a_job_that_is_rerun_after_a_success_records_its_steps_again(ojs: OjsClient) -> None:
    app = ojs.app
    await app.deploy({"name": "again", "tasks": {"work": {"job": "again.v1", "queue": "remote"}}})
    run = await app.start("again")
    first = await ojs.one("remote", worker_id="w")
    await record(ojs, first, {"pack": 1})
    await ojs.ack(first, worker_id="w")
    await run.rerun("work")
    second = await ojs.one("remote", worker_id="w")
    assert (second["id"], "steps" in second) == (first["id"], False)
    await record(ojs, second, {"pack": 2})
    await ojs.nack(second, requeue=True)
    assert (await ojs.one("remote", worker_id="w"))["steps"] == [{"name": "pack", "value": 2}]


async def test_only_the_holder_of_the_lease_may_record(ojs: OjsClient) -> None:
    late, current = await fetch_and_lose(ojs)
    for path, method, body in (
        ("steps", "POST", {"steps": [{"name": "pack", "value": 1}]}),
        ("progress", "PUT", {"progress": 0.5}),
        ("checkpoint", "PUT", {"state": {"at": 1}}),
    ):
        for who in (held(late), held(late, "next"), held(current, "w")):
            error = await ojs.refused(method, f"/jobs/{late['id']}/{path}", {**body, **who}, 409, "conflict")
            assert "no longer held" in error["message"]
        await ojs.ask(method, f"/jobs/{late['id']}/{path}", {**body, **held(current, "next")})
    await ojs.ack(current)
    for path, method, body in (
        ("steps", "POST", {"steps": [{"name": "pack", "value": 1}]}),
        ("progress", "PUT", {"progress": 0.5}),
    ):
        await ojs.refused(method, f"/jobs/{late['id']}/{path}", {**body, **held(current, "next")}, 409, "conflict")
    unknown = f"/jobs/{UUID(int=1)}/steps"
    await ojs.refused("POST", unknown, {**held(late), "steps": [{"name": "a", "value": 1}]}, 404, "not_found")


async def test_log_lines_sent_by_workers_are_log_lines_of_the_job(ojs: OjsClient) -> None:
    await ojs.push(retry=FAST)
    job = await ojs.one(worker_id="w")
    assert await log(ojs, line(job, "one"), line(job, "two", level="warning")) == 2
    assert await log(ojs, line(job, "x" * 9000 + "y"), line(job, "nul \0")) == 2
    await ojs.nack(job, {"code": "handler_error", "message": "boom"})
    await ojs.pass_time(seconds=1)
    again = await ojs.one(worker_id="w")
    assert await log(ojs, line(again, "three", level="error")) == 1
    assert await messages(ojs, job) == [
        (1, "INFO", "one"),
        (1, "WARNING", "two"),
        (1, "INFO", "x" * 8192),
        (1, "INFO", "nul \\x00"),
        (2, "ERROR", "three"),
    ]
    assert (await ojs.app.logs(UUID(job["id"])))[0].at.isoformat() == "2026-07-01T12:00:00.500000+00:00"


async def test_lines_of_jobs_that_the_worker_does_not_hold_are_dropped(ojs: OjsClient) -> None:
    late, current = await fetch_and_lose(ojs)
    assert await log(ojs, line(late, "late"), line(current, "stolen")) == 0
    assert await log(ojs, line(late, "late"), line(current, "mine"), worker="next") == 1
    assert await messages(ojs, current) == [(2, "INFO", "mine")]
    assert await log(ojs) == 0


async def test_an_invalid_line_is_rejected_without_affecting_the_others(ojs: OjsClient) -> None:
    await ojs.push()
    job = await ojs.one(worker_id="w")
    bad: list[tuple[Any, str]] = [
        ({}, "level"),
        ("x", ""),
        (None, ""),
        ([line(job, "nested")], ""),
        (line(job, "m", level="fatal"), "level"),
        (line(job, "m", level=["info"]), "level"),
        ({**line(job, "m"), "message": 7}, "message"),
        (line(job, "m", job_id=7), "job_id"),
        (line(job, "m", job_id=""), "job_id"),
        (line(job, "m", at=1), "at"),
        (line(job, "m", at="2026-07-01T12:00:00"), "at"),
        (line(job, "m", fence=None), "fence"),
        (line(job, "m", fence=2**31), "fence"),
    ]
    lines = [part for n, (entry, _) in enumerate(bad) for part in (line(job, str(n)), entry)]
    answer = await ojs.ask("POST", "/workers/logs", {"worker_id": "w", "lines": lines})
    assert answer["accepted"] == len(bad)
    assert [one["index"] for one in answer["refused"]] == list(range(1, len(lines), 2))
    for (_, field), one in zip(bad, answer["refused"], strict=True):
        place = f"lines[{one['index']}]" + (f".{field}" if field else "")
        assert one["error"]["message"].startswith(f"{place} "), one
        assert (one["error"]["code"], one["error"]["retryable"]) == ("invalid_request", False)
    assert [message for _, _, message in await messages(ojs, job)] == [str(n) for n in range(len(bad))]


async def test_lines_with_values_that_are_not_json_are_rejected(ojs: OjsClient) -> None:
    await ojs.push()
    job = await ojs.one(worker_id="w")
    lines = [line(job, "one"), line(job, "two", fence=float("nan")), line(job, "three", at=float("inf"))]
    body = json.dumps({"worker_id": "w", "lines": [*lines, line(job, "four")]})
    response = await ojs.http.post("/ojs/v1/workers/logs", content=body, headers={"content-type": "application/json"})
    answer = response.json()
    assert (answer["accepted"], [one["index"] for one in answer["refused"]]) == (2, [1, 2])
    assert [message for _, _, message in await messages(ojs, job)] == ["one", "four"]


async def test_an_attempt_stores_a_limited_number_of_lines(ojs: OjsClient) -> None:
    await ojs.push()
    job = await ojs.one(worker_id="w")
    assert await log(ojs, *(line(job, str(n)) for n in range(MAX_LINES - 1))) == MAX_LINES - 1
    assert await log(ojs, line(job, "last"), line(job, "too many"), line(job, "far too many")) == 1
    assert await log(ojs, line(job, "later")) == 0
    stored = await messages(ojs, job)
    assert len(stored) == MAX_LINES + 1
    assert [message for _, _, message in stored[-2:]] == [
        "last",
        f"more than {MAX_LINES} lines: the rest of this attempt is not stored",
    ]


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("steps", {"steps": [{"name": "a", "value": 1}], "worker_id": "w"}, "fence"),
        ("steps", {"steps": [{"name": "a", "value": 1}], "fence": 1}, "worker_id"),
        ("steps", {"steps": [{"name": "a"}], "worker_id": "w", "fence": 1}, "steps[0]"),
        ("steps", {"steps": [{"name": "", "value": 1}], "worker_id": "w", "fence": 1}, "steps[0].name"),
        ("steps", {"steps": {"a": 1}, "worker_id": "w", "fence": 1}, "steps"),
        ("logs", {"lines": []}, "worker_id"),
        ("logs", {"lines": [{}] * 1001, "worker_id": "w"}, "lines"),
    ],
)  # fmt: skip
async def test_invalid_fields_are_named(ojs: OjsClient, path: str, body: Json, field: str) -> None:
    job = await ojs.push()
    url = "/workers/logs" if path == "logs" else f"/jobs/{job['id']}/steps"
    error = await ojs.refused("POST", url, body, 400, "invalid_request")
    assert error["details"] == {"field": field}


async def test_the_payload_of_a_job_of_the_windlass_api_becomes_its_arguments(ojs: OjsClient) -> None:
    for payload, args in (({"a": 1}, [{"a": 1}]), ([1, 2], [1, 2]), (None, [None])):
        await ojs.app.submit_many([JobSpec(type="mixed.v1", queue="mixed", payload=payload)])
        assert (await ojs.one("mixed", worker_id="w"))["args"] == args
