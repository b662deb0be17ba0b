"""Cron: both dialects, ticks under a moved clock, overlaps, upsert, times that daylight saving skips."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.ojs_client import Json, OjsClient
from windlass.engine.schedules import workflow as workflow_schedules

pytestmark = pytest.mark.asyncio(loop_scope="module")

WRONG: list[dict[str, Any]] = [
        {"expression": "not a valid cron"}, {"expression": "0 0 0 0 0 0 0"}, {"expression": "99 25 32 13 8"},
        {"expression": None}, {"timezone": "UTC+5"}, {"timezone": "A" * 40 + "!"}, {"timezone": "A/" * 40 + "A"},
        {"timezone": "Mars/Olympus"}, {"name": "Nope!"}, {"name": None},
        {"overlap_policy": "shout"}, {"job_template": []}, {"job_template": {"type": "a.b", "args": {}}},
        {"job_template": {"type": "a.b", "args": [], "options": {"scheduled_at": "2030-01-01T00:00:00Z"}}},
    ]  # fmt: skip


async def registered(ojs: OjsClient, name: str = "tick", status: int = 201, **more: Any) -> Json:
    template = {"type": "a.tick", "args": [1], "options": {"queue": "ticks"}}
    body = {"name": name, "expression": "* * * * *", "job_template": template, **more}
    found: Json = (await ojs.ask("POST", "/cron", body, status))["cron"]
    return found


async def test_both_dialects_are_accepted_and_returned(ojs: OjsClient) -> None:
    found = await registered(ojs, expression="@daily", timezone="Asia/Tokyo")
    wanted = {"name": "tick", "expression": "@daily", "cron": "@daily", "timezone": "Asia/Tokyo", "enabled": True,
              "status": "active", "overlap_policy": "skip", "run_count": 0, "type": "a.tick", "args": [1]}  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted
    assert found["next_run_at"].endswith("T15:00:00Z")
    other = {"name": "b", "cron": "0 9 * * MON-FRI", "type": "a.b", "args": [2], "options": {"queue": "ticks"}}
    told = await ojs.ask("POST", "/cron", other, 201)
    assert told["cron_job"] == told["cron"]
    listed = await ojs.ask("GET", "/cron")
    assert [cron["name"] for cron in listed["crons"]] == ["b", "tick"]
    assert listed["crons"] == listed["cron_jobs"]
    gone = await ojs.ask("DELETE", "/cron/b")
    assert (gone["deleted"], gone["name"], gone["cron"]["name"]) == (True, "b", "b")
    await ojs.refused("DELETE", "/cron/b", None, 404, "not_found")


async def test_invalid_crons_are_rejected(ojs: OjsClient) -> None:
    for change in WRONG:
        body = {"name": "x", "expression": "* * * * *", "job_template": {"type": "a.b", "args": []}, **change}
        await ojs.refused("POST", "/cron", body, 400, "invalid_request")
    assert (await ojs.ask("GET", "/cron"))["crons"] == []


async def test_a_tick_enqueues_one_job_and_several_missed_ticks_enqueue_only_one(ojs: OjsClient) -> None:
    await registered(ojs, overlap_policy="allow")
    await ojs.pass_time(minutes=1)
    assert (await ojs.one("ticks"))["args"] == [1]
    assert await ojs.fetch("ticks") == []
    await ojs.pass_time(minutes=10)
    assert len(await ojs.fetch("ticks", count=10)) == 1
    [found] = (await ojs.ask("GET", "/cron"))["crons"]
    assert found["run_count"] == 2
    assert found["last_run_at"] < found["next_run_at"]


async def test_registering_an_existing_name_updates_its_cron(ojs: OjsClient) -> None:
    await registered(ojs)
    found = await registered(ojs, status=200, expression="0 0 1 1 *")
    assert found["expression"] == "0 0 1 1 *"
    await ojs.pass_time(minutes=1)
    assert await ojs.fetch("ticks") == []


async def test_skip_omits_a_tick_while_an_earlier_job_is_unfinished(ojs: OjsClient) -> None:
    await registered(ojs)
    await ojs.pass_time(minutes=1)
    await ojs.pass_time(minutes=1)  # the first one is still waiting
    job = await ojs.one("ticks")
    await ojs.pass_time(minutes=1)
    assert await ojs.fetch("ticks") == []
    await ojs.ack(job)
    await ojs.pass_time(minutes=1)
    assert (await ojs.one("ticks"))["id"] != job["id"]
    events = (await ojs.events("cron.skipped"))["events"]
    assert [event["data"]["cron_name"] for event in events] == ["tick", "tick"]


async def test_cancel_previous_replaces_the_earlier_job(ojs: OjsClient) -> None:
    await registered(ojs, overlap_policy="cancel_previous")
    await ojs.pass_time(minutes=1)
    job = await ojs.one("ticks")
    await ojs.pass_time(minutes=1)
    assert await ojs.state(job) == "cancelled"
    assert (await ojs.one("ticks"))["id"] != job["id"]


async def test_enqueue_waits_for_the_earlier_job(ojs: OjsClient) -> None:
    await registered(ojs, overlap_policy="enqueue")
    await ojs.pass_time(minutes=1)
    job = await ojs.one("ticks")
    await ojs.pass_time(minutes=1)
    assert await ojs.fetch("ticks") == []
    await ojs.ack(job)
    await ojs.pass_time(seconds=1)
    assert len(await ojs.fetch("ticks", count=10)) == 1


async def test_a_time_that_daylight_saving_skips_is_skipped(ojs: OjsClient) -> None:
    assert ojs.clock is not None
    ojs.clock.set(datetime(2030, 3, 30, 12, tzinfo=UTC))
    found = await registered(ojs, expression="30 2 * * *", timezone="Europe/Berlin")
    assert found["next_run_at"] == "2030-04-01T00:30:00Z"  # 02:30 does not exist on the 31st


async def test_relative_times_in_a_template_count_from_the_tick(ojs: OjsClient) -> None:
    template = {
        "type": "a.b",
        "args": [],
        "options": {"queue": "ticks", "scheduled_at": "+PT10S", "expires_at": "+PT30S"},
    }
    await registered(ojs, job_template=template)
    await ojs.pass_time(minutes=1)
    assert await ojs.fetch("ticks") == []
    await ojs.pass_time(seconds=10)
    assert len(await ojs.fetch("ticks")) == 1


async def test_a_reset_deletes_workflows_and_schedules(ojs: OjsClient) -> None:
    published = {"name": "hourly", "trigger": {"cron": "0 * * * *"}, "tasks": {"a": {"job": "a.b"}}}
    assert (await ojs.http.post("/api/v1/workflows", json=published)).status_code == 201
    await ojs.ask("POST", "/admin/reset", {})
    assert (await ojs.http.get("/api/v1/workflows")).json()["data"] == []
    assert (await ojs.http.get("/api/v1/schedules")).json()["data"] == []
    await ojs.pass_time(hours=2)
    assert await workflow_schedules.tick(await ojs.app.open()) == 0
    assert await ojs.fetch() == []


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"overlap_polcy": "skip"}, "overlap_polcy"),
        ({"enabled": False}, "enabled"),
        ({"cron": "0 2 * * *"}, "cron"),
        ({"type": "c.d"}, "type"),
        ({"queue": "q"}, "queue"),
    ],
)
async def test_a_cron_with_a_key_that_would_be_ignored_is_rejected(ojs: OjsClient, more: Json, field: str) -> None:
    body = {"name": "n", "expression": "0 1 * * *", "job_template": {"type": "a.b", "args": []}, **more}
    error = await ojs.refused("POST", "/cron", body, 400, "invalid_request")
    assert error["details"]["field"] == field
    assert (await ojs.ask("GET", "/cron"))["crons"] == []
