"""Unique jobs, rate limits, paused queues and statistics."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from tests.conformance.ojs_client import OjsClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEYS: dict[str, Any] = {"keys": ["type", "args"]}


async def test_of_concurrent_unique_jobs_exactly_one_is_accepted(ojs: OjsClient) -> None:
    async def push(n: int) -> int:
        body = {"type": "a.b", "args": [n % 3], "options": {"unique": KEYS}}
        return (await ojs.http.post("/ojs/v1/jobs", json=body)).status_code

    told = await asyncio.gather(*(push(n) for n in range(30)))
    assert Counter(told) == {201: 3, 409: 27}
    assert len(await ojs.fetch(count=100)) == 3


SAMES: list[tuple[dict[str, Any], list[Any], list[Any], bool]] = [
    ({}, [1], [2], True),  # the type alone
    ({"keys": ["args"]}, [1], [2], False),
    ({"key": ["type", "queue", "args"]}, [{"a": 1, "b": [1.0, "\u00e9"]}], [{"b": [1, "e\u0301"], "a": 1}], True),
    ({"keys": ["args"], "args_keys": ["id"]}, [{"id": 1, "at": 1}], [{"id": 1, "at": 2}], True),
    ({"keys": ["args"], "args_keys": ["id"]}, [{"id": 1}], [{"id": 2}], False),
]


async def test_unique_keys_determine_which_jobs_are_duplicates(ojs: OjsClient) -> None:
    for n, (unique, first, second, same) in enumerate(SAMES):
        made = await ojs.push(f"a.b{n}", *first, unique=unique)
        again = {"type": f"a.b{n}", "args": second, "options": {"unique": unique}}
        if same:
            error = await ojs.refused("POST", "/jobs", again, 409, "duplicate")
            assert error["details"]["existing_job_id"] == made["id"]
        else:
            await ojs.ask("POST", "/jobs", again, 201)
        await ojs.push(f"a.c{n}", *first, unique=unique)  # another type is always another job


async def test_keys_of_meta_are_part_of_the_unique_key_if_named(ojs: OjsClient) -> None:
    async def push(status: int, **meta: Any) -> None:
        unique = {"keys": ["meta"], "meta_keys": ["user"]}
        body = {"type": "a.b", "args": [], "meta": meta, "options": {"unique": unique}}
        await ojs.ask("POST", "/jobs", body, status)

    await push(201, user=1, trace="a")
    await push(409, user=1, trace="b")
    await push(201, user=2, trace="a")


async def test_a_duplicate_is_ignored_or_replaces_the_first_job(ojs: OjsClient) -> None:
    first = await ojs.push("a.b", 1, unique={**KEYS, "on_conflict": "ignore"})
    body = {"type": "a.b", "args": [1], "options": {"unique": {**KEYS, "on_conflict": "use_existing"}}}
    told = await ojs.ask("POST", "/jobs", body, 200)
    assert (told["deduplicated"], told["job"]["id"]) == (True, first["id"])
    second = await ojs.push("a.b", 1, unique={**KEYS, "on_conflict": "replace"})
    assert (await ojs.state(first), await ojs.state(second)) == ("cancelled", "available")
    timed = await ojs.push("a.t", 1, unique=KEYS, scheduled_at="+PT1H")
    moved = await ojs.push("a.t", 1, unique={**KEYS, "on_conflict": "replace_except_schedule"})
    assert (await ojs.state(timed), await ojs.state(moved)) == ("cancelled", "scheduled")


async def test_a_period_and_states_limit_how_long_a_job_is_unique(ojs: OjsClient) -> None:
    await ojs.push("a.b", 1, unique={**KEYS, "period": "PT1M"})
    await ojs.pass_time(seconds=30)
    await ojs.refused("POST", "/jobs", _unique(period="PT1M"), 409, "duplicate")
    await ojs.pass_time(seconds=31)
    await ojs.ask("POST", "/jobs", _unique(period="PT1M"), 201)
    [first, *_] = await ojs.fetch(count=10)
    await ojs.refused("POST", "/jobs", _unique(), 409, "duplicate")
    await ojs.ask("POST", "/jobs", _unique(states=["scheduled"], on_conflict="ignore"), 201)
    await ojs.ack(first)
    await ojs.refused("POST", "/jobs", _unique(states=["completed"]), 409, "duplicate")


async def test_uniqueness_also_applies_to_a_batch(ojs: OjsClient) -> None:
    one = {"type": "a.b", "args": [1], "options": {"unique": KEYS}}
    await ojs.refused("POST", "/jobs/batch", {"jobs": [one, one]}, 409, "duplicate")
    assert await ojs.fetch() == []
    twin = {"type": "a.b", "args": [1], "options": {"unique": {**KEYS, "on_conflict": "ignore"}}}
    found = (await ojs.ask("POST", "/jobs/batch", {"jobs": [twin, twin, {"type": "c", "args": []}]}, 201))["jobs"]
    assert found[0]["id"] == found[1]["id"] != found[2]["id"]
    assert len(await ojs.fetch(count=10)) == 2


async def test_a_batch_with_an_existing_id_inserts_nothing(ojs: OjsClient) -> None:
    made = await ojs.push("a.b", 1)
    batch = {"jobs": [{"type": "a.c", "args": []}, {"type": "a.c", "args": [], "id": made["id"]}]}
    error = await ojs.refused("POST", "/jobs/batch", batch, 409, "duplicate")
    assert error["details"]["existing_job_id"] == made["id"]
    assert [job["type"] for job in await ojs.fetch(count=100)] == ["a.b"]


async def test_a_rate_limit_delays_delivery_and_never_rejects_a_job(ojs: OjsClient) -> None:
    for n in range(5):
        await ojs.push("a.b", n, rate_limit={"max_per_second": 1})
    await ojs.push("a.free", queue="other")
    assert [job["args"] for job in await ojs.fetch(count=10)] == [[0]]
    assert await ojs.fetch(count=10) == []
    assert len(await ojs.fetch("other")) == 1
    await ojs.pass_time(seconds=1.5)
    assert [job["args"] for job in await ojs.fetch(count=10)] == [[1]]
    await ojs.pass_time(hours=1)
    assert [job["args"] for job in await ojs.fetch(count=10)] == [[2]]  # unused capacity does not accumulate


async def test_a_key_limits_concurrency(ojs: OjsClient) -> None:
    for n in range(4):
        await ojs.push("a.b", n, rate_limit={"key": "api", "concurrency": 2})
    await ojs.push("a.c", 4)
    first = await ojs.fetch(count=10)
    assert [job["args"] for job in first] == [[0], [1], [4]]
    assert await ojs.fetch(count=10) == []
    await ojs.ack(first[0])
    assert [job["args"] for job in await ojs.fetch(count=10)] == [[2]]


async def test_a_rate_limit_applies_per_period(ojs: OjsClient) -> None:
    limit = {"key": "mail", "rate": 3, "period": "PT1M"}
    listed = [{"type": "a.b", "args": [n], "options": {"rate_limit": limit}} for n in range(7)]
    await ojs.ask("POST", "/jobs/batch", {"jobs": listed}, 201)
    assert len(await ojs.fetch(count=10)) == 3
    await ojs.pass_time(seconds=20)
    assert len(await ojs.fetch(count=10)) == 1
    await ojs.pass_time(minutes=5)
    assert len(await ojs.fetch(count=10)) == 3


async def test_a_paused_queue_accepts_jobs_and_delivers_none(ojs: OjsClient) -> None:
    paused = await ojs.ask("POST", "/queues/mail/pause")
    assert (paused["queue"]["paused"], paused["status"]) == (True, "paused")
    assert paused["paused_at"]
    assert (await ojs.push(queue="mail"))["state"] == "available"
    await ojs.push()
    assert [job["queue"] for job in await ojs.fetch("mail", "default", count=10)] == ["default"]
    assert (await ojs.ask("GET", "/queues/mail/stats"))["queue"]["status"] == "paused"
    resumed = await ojs.ask("POST", "/queues/mail/resume", {})
    assert (resumed["paused"], resumed["queue"]["name"]) == (False, "mail")
    assert resumed["resumed_at"]
    assert len(await ojs.fetch("mail")) == 1


async def test_queue_statistics_count_jobs_by_state(ojs: OjsClient) -> None:
    listed = [{"type": "a.b", "args": [], "options": {"queue": "q", "retry": {"max_attempts": 2}}} for _ in range(8)]
    await ojs.ask("POST", "/jobs/batch", {"jobs": listed}, 201)
    await ojs.push(queue="q", scheduled_at="+PT1H")
    await ojs.push(queue="q", pending=True)
    done, again, bad, gone, *_ = await ojs.fetch("q", count=5)
    await ojs.ack(done)
    await ojs.nack(again)
    await ojs.nack(bad, {"code": "x", "message": "m", "retryable": False})
    await ojs.ask("DELETE", f"/jobs/{gone['id']}")
    stats = await ojs.ask("GET", "/queues/q/stats")
    wanted = {"available": 3, "active": 1, "scheduled": 1, "retryable": 1, "pending": 1, "completed": 1, "cancelled": 1,
              "discarded": 1}  # fmt: skip
    assert {name: stats["queue"][name] for name in wanted} == wanted
    assert stats["stats"]["queue"] == "q"
    assert (stats["stats"]["completed_last_hour"], stats["stats"]["failed_last_hour"]) == (1, 1)
    assert (await ojs.ask("GET", "/queues/nobody/stats"))["queue"]["available"] == 0
    names = [queue["name"] for queue in (await ojs.ask("GET", "/queues"))["queues"]]
    assert names == ["default", "q"]


def _unique(**more: Any) -> dict[str, Any]:
    return {"type": "a.b", "args": [1], "options": {"unique": {**KEYS, **more}}}
