"""Schedules over real HTTP: all operations of the command line."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.web.serving import data, fields, problem, served
from windlass import Windlass

TASKS = {"a": {"sleep": "1s"}}
ORDERS: dict[str, Any] = {
    "name": "orders",
    "trigger": {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "input": {"n": 1}},
    "tasks": TASKS,
}
HOURLY: dict[str, Any] = {"name": "hourly", "trigger": {"cron": "@hourly"}, "tasks": TASKS}
BY_SQL = """insert into workflow.workflow_schedule (type, payload, schedule, next_run_at, enabled)
  values ('report.daily.v1', '{"n": 7}', '0 7 * * *', '2099-01-01T07:00Z', true),
         ('report.daily.v1', '{}', '0 8 * * *', '2099-01-01T08:00Z', false)"""


async def test_schedules_of_runs_and_of_jobs_share_one_paged_list(app: Windlass, conn: Any) -> None:
    async with served(app) as http:
        for workflow in (ORDERS, HOURLY):
            await http.post("/workflows", json=workflow)
        await conn.execute(BY_SQL)
        seen: list[dict[str, Any]] = []
        after = ""
        while True:
            page = (await http.get("/schedules", params={"limit": 1, "after": after})).json()
            seen += page["data"]
            if page["next"] is None:
                break
            after = page["next"]
        assert seen == data(await http.get("/schedules"))
        assert fields(await http.get("/schedules", params={"after": "job/x"})) == ["after"]
    assert [(one["name"], one["starts"]) for one in seen] == [
        ("hourly", "run"),
        ("orders", "run"),
        ("report.daily.v1", "job"),
        ("report.daily.v1", "job"),
    ]
    assert sorted((one["paused"], one["next_run_at"]) for one in seen[2:]) == [
        (False, "2099-01-01T07:00:00Z"),
        (True, None),
    ]


async def test_a_schedule_is_shown_paused_resumed_and_run_immediately(app: Windlass) -> None:
    async with served(app) as http:
        id_ = data(await http.post("/workflows", json=ORDERS), 201)["id"]
        shown = data(await http.get("/schedules/orders", params={"next": 3}))
        paused = data(await http.post(f"/schedules/{id_}/pause", json={"reason": "stock-taking"}))
        would = data(await http.get("/schedules/orders"))
        run = data(await http.post("/schedules/orders/run"), 201)["run_id"]
        resumed = data(await http.post("/schedules/orders/resume"))
        started = data(await http.get(f"/runs/{run}"))
        await http.post("/workflows", json={"name": "api", "tasks": TASKS})
        for name in ("api", "nobody"):
            for method, path in (("GET", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/run")):
                problem(await http.request(method, f"/schedules/{name}{path}"), 404)
        await http.post("/workflows/orders/disable")
        problem(await http.post("/schedules/orders/run"), 409)
    assert (shown["cron"], shown["timezone"], shown["input"]) == ("30 2 * * *", "Europe/Berlin", {"n": 1})
    assert [moment[11:16] for moment in shown["upcoming"]] == ["02:30"] * 3
    assert (paused["paused"], paused["paused_reason"], paused["next_run_at"]) == (True, "stock-taking", None)
    assert len(would["upcoming"]) == 5
    assert resumed["next_run_at"] == shown["next_run_at"]
    assert (started["input"], started["idempotency_key"]) == ({"n": 1}, None)


async def test_a_backfill_resumes_where_its_limit_stopped_it(app: Windlass) -> None:
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    start, end = (now - timedelta(hours=5)).isoformat(), now.isoformat()
    async with served(app) as http:
        await http.post("/workflows", json=HOURLY)
        first = data(await http.post("/schedules/hourly/backfill", json={"from": start, "to": end, "limit": 3}))
        dry = data(await http.post("/schedules/hourly/backfill", json={"from": start, "to": end, "dry_run": True}))
        rest = data(await http.post("/schedules/hourly/backfill", json={"from": first["next"], "to": end}))
        again = data(await http.post("/schedules/hourly/backfill", json={"from": start, "to": end}))
        for body, field in (
            ({}, "from"),
            ({"from": "2026-01-01T00:00:00"}, "from"),
            ({"from": end, "to": start}, "to"),
            ({"from": start, "to": "2999-01-01T00:00:00Z"}, "to"),
            ({"from": start, "limit": 0}, "limit"),
        ):
            assert fields(await http.post("/schedules/hourly/backfill", json=body)) == [field]
        assert len(data(await http.get("/runs"))) == 5
    assert (first["started"], rest["started"], rest["next"], again["started"]) == (3, 2, None, 0)
    assert (dry["dry_run"], dry["left"], dry["started"], dry["runs"], dry["next"]) == (True, 2, 0, [], None)
    assert again["runs"] == first["runs"] + rest["runs"]
