"""Runs over real HTTP: start, wait, list, get."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest

from tests.engine.fake_services import answer, call, play
from tests.engine.harness import LEASE, Fails, ManualWorker
from tests.web.serving import data, fields, problem, served
from windlass import Windlass
from windlass.engine.workers import turn

ONE: dict[str, Any] = {"name": "one", "tasks": {"a": {"job": "a"}}}
NOTHING: dict[str, Any] = {"name": "nothing", "tasks": {"a": {"job": "a", "parallel": 0}}}  # completes as it starts
FAN: dict[str, Any] = {
    "name": "fan",
    "tasks": {"list": {"job": "l"}, "each": {"needs": ["list"], "foreach": "list.n", "job": "e", "max_attempts": 1}},
}


async def start(http: httpx.AsyncClient, name: str = "one", **order: Any) -> str:
    return str(data(await http.post(f"/workflows/{name}/runs", json=order), 201)["run_id"])


@pytest.mark.parametrize("payload", [{"order_id": 1}, [1, "a"], "text", 7, 1.5, True, None, {}, "ü\u2028"], ids=repr)
async def test_the_payload_of_a_trigger_is_stored_unchanged(app: Windlass, payload: Any) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        body, headers = json.dumps(payload), {"content-type": "application/json"}
        run = data(await http.post("/workflows/one/trigger", content=body, headers=headers), 201)["run_id"]
        assert data(await http.get(f"/runs/{run}"))["input"] == payload


async def test_the_response_to_a_start_matches_the_run(app: Windlass) -> None:
    """A running run, a run waiting for a concurrency slot, and a run that completes at once because no step applies."""
    limited = {**ONE, "name": "limited", "concurrency": 1}
    skipped = {"name": "skipped", "tasks": {"a": {"job": "a.b.v1", "if": "input.wanted"}}}
    async with served(app) as http:
        for workflow in (limited, skipped):
            data(await http.post("/workflows", json=workflow), 201)
        names, answers = ("limited", "limited", "skipped"), []
        for name in names:
            answers.append(data(await http.post(f"/workflows/{name}/trigger", json={"wanted": False}), 201))
        for answer in answers:
            run = data(await http.get(f"/runs/{answer['run_id']}"))
            assert {name: run[name] for name in ("status", "started_at", "workflow_id")} == {
                name: value for name, value in answer.items() if name != "run_id"
            }
        assert [answer["status"] for answer in answers] == ["running", "pending", "completed"]


async def test_a_missing_payload_becomes_an_empty_object(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        for path in ("trigger", "runs"):
            run = data(await http.post(f"/workflows/one/{path}"), 201)["run_id"]
            assert data(await http.get(f"/runs/{run}"))["input"] == {}


async def test_a_known_idempotency_key_returns_its_run(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        headers = {"Idempotency-Key": "order-1"}
        first = data(await http.post("/workflows/one/trigger", json={"n": 1}, headers=headers), 201)
        again = data(await http.post("/workflows/one/trigger", json={"n": 1}, headers=headers))
        same = {"idempotency_key": "order-1", "input": {"n": 1}}
        order = data(await http.post("/workflows/one/runs", json=same))
        waited = data(await http.post("/workflows/one/runs?wait=0", json=same))
        other = await http.post("/workflows/one/trigger", json={"n": 2}, headers=headers)
        differs = await http.post("/workflows/one/runs", json={"idempotency_key": "x"}, headers=headers)
        shown = data(await http.get(f"/runs/{first['run_id']}"))
        assert len(data(await http.get("/runs"))) == 1
    assert first == again == order
    assert waited["id"] == first["run_id"]
    assert "which has another input" in problem(other, 409)["detail"]
    assert fields(differs) == ["idempotency_key"]
    assert shown["idempotency_key"] == "order-1"


async def test_a_start_request_accepts_labels_and_a_time_limit(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json={**ONE, "labels": {"team": "shop"}})
        for limit, seconds in (("1h30m", 5400), (90, 90), (0.5, 0.5)):
            run = data(await http.get(f"/runs/{await start(http, labels={'n': '1'}, max_duration=limit)}"))
            span = datetime.fromisoformat(run["expires_at"]) - datetime.fromisoformat(run["inserted_at"])
            assert (run["labels"], span.total_seconds()) == ({"team": "shop", "n": "1"}, seconds)


async def test_wait_returns_the_finished_run(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        waiting = asyncio.create_task(http.post("/workflows/one/trigger?wait=30", json={}))
        while not (await app.runs()).runs:
            pass
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"a": {"rows": 7}})
        run = data(await waiting, 201)
    assert (run["status"], run["output"], run["tasks"]["a"]["status"]) == ("completed", {"rows": 7}, "success")
    assert run["run_id"] == run["id"]


async def test_wait_returns_the_current_run_after_its_timeout(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        run = data(await http.post("/workflows/one/runs?wait=0.05", json={}), 201)
        assert (run["status"], run["output"]) == ("running", None)
        await http.post("/workflows", json=NOTHING)
        assert data(await http.post("/workflows/nothing/trigger?wait=10"), 201)["status"] == "completed"
        for wait in ("61", "-1", "soon", "nan"):
            assert fields(await http.post(f"/workflows/one/trigger?wait={wait}")) == ["wait"]
        assert len(data(await http.get("/runs"))) == 2


async def test_runs_are_filtered_by_workflow_status_label_and_time(app: Windlass) -> None:
    async with served(app) as http:
        id_ = data(await http.post("/workflows", json=ONE), 201)["id"]
        await http.post("/workflows", json=NOTHING)
        live, red = await start(http), await start(http, labels={"colour": "red", "n": "1"})
        done = await start(http, "nothing")
        stopped = await start(http)
        await http.post(f"/runs/{stopped}/cancel")

        async def found(**params: Any) -> list[str]:
            return [run["id"] for run in data(await http.get("/runs", params=params))]

        assert await found() == [stopped, done, red, live]
        assert await found(workflow="one") == await found(workflow=id_) == [stopped, red, live]
        assert await found(status="success") == await found(status="completed") == [done]
        assert await found(status=["running", "canceled"]) == [stopped, red, live]
        assert await found(status=["cancelled", "failed"], workflow="one") == [stopped]
        assert await found(label=["colour=red", "n=1"]) == [red]
        assert await found(label="colour=blue") == []
        moment = data(await http.get(f"/runs/{red}"))["inserted_at"]
        assert await found(inserted_before=moment) == [live]
        assert await found(inserted_after=moment, status="running") == [red]
        assert await found(inserted_after="2999-01-01T00:00:00Z") == []
        nested = data(await http.get(f"/workflows/{id_}/runs", params={"status": "running", "limit": 1}))
        assert [run["id"] for run in nested] == [red]


async def test_runs_are_listed_in_pages(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        ids = [await start(http) for _ in range(5)]
        seen: list[str] = []
        params: dict[str, Any] = {"limit": 2}
        while True:
            page = (await http.get("/runs", params=params)).json()
            seen += [run["id"] for run in page["data"]]
            if page["next"] is None:
                break
            params["before"] = page["next"]
    assert seen == ids[::-1]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=done", "status"),
        ("status=%00", "status"),
        ("label=colour", "label"),
        ("label=a=%00", "labels"),
        ("before=7", "before"),
        ("limit=0", "limit"),
        ("inserted_after=yesterday", "inserted_after"),
        ("inserted_before=2026-01-01T00:00:00", "inserted_before"),
        ("stauts=failed", "stauts"),
    ],
)
async def test_invalid_filters_are_rejected_with_the_field(app: Windlass, query: str, field: str) -> None:
    async with served(app) as http:
        assert fields(await http.get(f"/runs?{query}")) == [field]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"])
async def test_filters_accept_the_earliest_and_latest_times(app: Windlass, moment: str) -> None:
    async with served(app) as http:
        for key in ("inserted_after", "inserted_before"):
            assert data(await http.get("/runs", params={key: moment})) == []


async def test_unknown_runs_and_tasks_are_404(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        await http.post("/workflows", json=NOTHING)
        run = await start(http)
        lost = [str(uuid4()), "7", "%00", "not-a-run", "x" * 3000]
        for id_ in lost:
            for path in ("", "/tasks", "/tasks/a", "/events", "/explain", "/output", "/logs"):
                problem(await http.get(f"/runs/{id_}{path}"), 404)
            for path in ("/cancel", "/retry"):
                problem(await http.post(f"/runs/{id_}{path}"), 404)
        for path in ("", "/logs", "/instances", "/output"):
            told = problem(await http.get(f"/runs/{run}/tasks/z{path}"), 404)
            assert "it has a" in told["detail"]
        for path in ("", "/tasks", "/tasks/a/logs", "/events"):
            assert (await http.get(f"/workflows/one/runs/{run}{path}")).status_code == 200
            problem(await http.get(f"/workflows/nothing/runs/{run}{path}"), 404)
        problem(await http.post(f"/workflows/nothing/runs/{run}/cancel"), 404)
        problem(await http.get("/runs?workflow=missing"), 404)
        assert data(await http.get(f"/runs/{run}"))["status"] == "running"


async def test_a_fanned_out_task_counts_its_instances_and_lists_them_in_pages(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=FAN)
        run = await start(http, "fan")
        worker = await ManualWorker.registered(await app.open())
        await worker.play(
            {"list": {"n": [0, 1, 2, 3, 4]}, "each": lambda job: Fails("odd") if job.item == 3 else job.item}
        )
        task = data(await http.get(f"/runs/{run}/tasks/each"))
        page = (await http.get(f"/runs/{run}/tasks/each/instances?limit=3")).json()
        rest = (await http.get(f"/runs/{run}/tasks/each/instances?after={page['next']}")).json()
        outputs = [data(await http.get(f"/runs/{run}/tasks/{name}/output")) for name in ("list", "each")]
    counts = {"count": 5, "pending": 0, "running": 0, "success": 4, "failed": 1, "cancelled": 0}
    assert (task["status"], task["instances"], task["error"]) == ("failed", counts, "odd")
    shown = [(one["index"], one["status"], one["result"]) for one in page["data"] + rest["data"]]
    assert shown == [(0, "success", 0), (1, "success", 1), (2, "success", 2), (3, "failed", None), (4, "success", 4)]
    assert rest["next"] is None
    assert outputs == [{"n": [0, 1, 2, 3, 4]}, [0, 1, 2, None, 4]]


async def test_a_task_shows_its_attempts_error_and_logs(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json={"name": "one", "tasks": {"a": {"job": "a", "max_attempts": 2}}})
        run = await start(http)
        db = await app.open()
        worker = await ManualWorker.registered(db)
        job = await worker.take_one("a")
        now = datetime.now(UTC)
        lines = [(job.id, 0, 1, n, now + timedelta(seconds=n), "INFO", f"line {n}") for n in range(1, 4)]
        await turn.turn(db, turn.Turn(worker="w1", lease=LEASE, lines=lines))
        await worker.end(job, Fails("boom", for_good=True))
        task = data(await http.get(f"/runs/{run}/tasks/a"))
        page = (await http.get(f"/runs/{run}/tasks/a/logs?limit=2&index=0&attempt=1")).json()
        rest = (await http.get(f"/runs/{run}/tasks/a/logs", params={"after": page["next"]})).json()
        assert len(data(await http.get(f"/runs/{run}/logs"))) == 3
        assert data(await http.get(f"/runs/{run}/tasks/a/logs?attempt=2")) == []
        for after in ("x", "", "W10", "bnVsbA", "%00", "é"):
            assert fields(await http.get(f"/runs/{run}/logs", params={"after": after})) == ["after"]
        assert fields(await http.get(f"/runs/{run}/tasks/a/logs?index=-1&attempt=0")) == ["index", "attempt"]
    assert (task["status"], task["attempt"], task["max_attempts"], task["error"]) == ("failed", 1, 2, "boom")
    assert [line["message"] for line in page["data"] + rest["data"]] == ["line 1", "line 2", "line 3"]
    assert page["data"][0]["task"] == "a"


async def test_the_events_of_a_run_are_listed_in_pages(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        run = await start(http)
        await http.post(f"/runs/{run}/cancel", json={"reason": "wrong bucket"})
        whole = data(await http.get(f"/runs/{run}/events"))
        page = (await http.get(f"/runs/{run}/events?limit=1")).json()
        rest = (await http.get(f"/runs/{run}/events?after={page['next']}")).json()
        shown = data(await http.get(f"/runs/{run}"))
        assert fields(await http.get(f"/runs/{run}/events?after=7")) == ["after"]
    assert page["data"] + rest["data"] == whole
    assert [(event["task"], event["event"]) for event in whole] == [
        (None, "running"),
        ("a", "queued"),
        ("a", "cancelled"),
        (None, "cancelled"),
    ]
    assert [event["event"] for event in whole if event["task"] is None][:1] == ["running"]
    assert shown["reason"] == "wrong bucket"


async def test_explain_describes_the_run_in_sentences(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        run = await start(http)
        told = data(await http.get(f"/runs/{run}/explain"))
    assert "active" in told["run"][0]
    assert "no worker serves" in told["now"][0]
    assert (told["tasks"][0]["task"], told["tasks"][0]["status"]) == ("a", "running")


async def test_outputs_of_callbacks_and_of_http_tasks_are_their_bodies(app: Windlass) -> None:
    tasks = {
        "ask": {"url": "https://x.example"},
        "paid": {"needs": ["ask"], "wait_for_webhook": {"timeout": "1h"}},
        "last": {"needs": ["paid"], "url": "https://x.example"},
    }
    async with served(app) as http:
        await http.post("/workflows", json={"name": "one", "tasks": tasks})
        run = data(await http.post("/workflows/one/trigger"), 201)["run_id"]
        db = await app.open()
        await play(db, ask=answer(200, {"n": 1}))
        row = (await app.runs()).runs[0]
        await call(db, row.id, b'{"status": "paid"}')
        await play(db, last=answer(200, {"ok": True}, truncated=True))
        outputs = {name: data(await http.get(f"/runs/{run}/tasks/{name}/output")) for name in tasks}
        found = data(await http.get(f"/runs/{run}"))
    assert (outputs["ask"], outputs["paid"]) == ({"n": 1}, {"status": "paid"})
    assert {name: task["is_truncated"] for name, task in found["tasks"].items()} == {
        "ask": False,
        "paid": False,
        "last": True,
    }


async def test_parent_and_child_runs_refer_to_each_other(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=ONE)
        await http.post("/workflows", json={"name": "above", "tasks": {"sub": {"workflow": "one"}}})
        run = await start(http, "above")
        task = data(await http.get(f"/runs/{run}"))["tasks"]["sub"]
        child = data(await http.get(f"/runs/{task['child_run_id']}"))
    assert (task["type"], child["parent_run_id"], child["workflow"]) == ("workflow", run, "one")


async def test_a_run_shows_its_trigger(app: Windlass) -> None:
    tick = "2030-01-01T06:00:00Z"
    timed = {"name": "timed", "trigger": {"cron": "0 6 * * *"}, "tasks": ONE["tasks"]}
    hooked = {"name": "hooked", "trigger": "webhook", "tasks": ONE["tasks"]}
    async with served(app) as http, httpx.AsyncClient() as jobs:
        await http.post("/workflows", json=ONE)
        await http.post("/workflows", json=timed)
        address = data(await http.post("/workflows", json=hooked), 201)["webhook_url"]
        backfill = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
        data(await http.post("/schedules/timed/backfill", json=backfill))
        server = http.base_url.copy_with(path="/")
        headers = {"windlass-scheduled-for": tick, "idempotency-key": "schedule/1"}  # a sender cannot fake a schedule
        called = await http.post(str(server.join(urlsplit(address).path)), json={}, headers=headers)
        shape = {"type": "chain", "steps": [{"type": "a.b", "args": []}, {"type": "a.c", "args": []}]}
        composed = await jobs.post(str(server.join("/ojs/v1/workflows")), json=shape)
        runs = {
            "api": await start(http),
            "cron": data(await http.get("/runs", params={"workflow": "timed"}))[0]["id"],
            "webhook": called.json()["data"]["run_id"],
            "ojs": composed.json()["workflow"]["id"],
        }
        found = {kind: data(await http.get(f"/runs/{id_}"))["trigger"] for kind, id_ in runs.items()}
    assert {kind: trigger["kind"] for kind, trigger in found.items()} == {kind: kind for kind in runs}
    assert {kind: trigger["scheduled_for"] for kind, trigger in found.items() if trigger["scheduled_for"]} == {
        "cron": "2020-01-01T06:00:00Z"
    }
