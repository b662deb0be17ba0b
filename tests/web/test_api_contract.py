"""The API of seeds 001 and 004, exactly as they define it, over real HTTP."""

from datetime import datetime
from typing import Any

import pytest

from tests.engine.fake_services import answer, play
from tests.engine.harness import ManualWorker
from tests.web.serving import data, problem, served
from windlass import Windlass

CREATE: dict[str, Any] = {
    "name": "order-processing",
    "trigger": "api",
    "tasks": {
        "charge": {
            "url": "https://myapp.com/api/charge",
            "method": "POST",
            "headers": {"Authorization": "Bearer {{trigger.body.token}}"},
            "body": {"order_id": "{{trigger.body.order_id}}"},
            "retries": 3,
            "timeout": 30000,
        },
        "send-receipt": {
            "needs": ["charge"],
            "if": "tasks.charge.status_code == 200",
            "url": "https://myapp.com/api/send-receipt",
            "method": "POST",
            "body": {"email": "{{trigger.body.email}}"},
        },
    },
}
PAYLOAD = {"order_id": 123, "email": "alice@example.com", "token": "sk_live_xxx"}
FILES: dict[str, Any] = {
    "name": "files",
    "tasks": {
        "discover": {"job": "discover"},
        "process": {"depends_on": ["discover"], "foreach": "discover.files", "concurrency": 4, "job": "process"},
    },
}


def is_moment(text: str) -> bool:
    return text.endswith("Z") and datetime.fromisoformat(text).utcoffset() is not None


async def test_create_workflow(app: Windlass) -> None:
    async with served(app) as http:
        made = data(await http.post("/workflows", json=CREATE), 201)
    assert {key: made[key] for key in ("name", "trigger", "task_count", "enabled")} == {
        "name": "order-processing",
        "trigger": "api",
        "task_count": 2,
        "enabled": True,
    }
    assert isinstance(made["id"], str)
    assert is_moment(made["inserted_at"])


async def test_update_workflow_replaces_all_tasks_and_does_not_change_active_runs(app: Windlass) -> None:
    async with served(app) as http:
        id_ = data(await http.post("/workflows", json=CREATE), 201)["id"]
        run = data(await http.post(f"/workflows/{id_}/trigger", json=PAYLOAD), 201)["run_id"]
        changed = {**CREATE, "tasks": {"charge": CREATE["tasks"]["charge"]}}
        updated = data(await http.put(f"/workflows/{id_}", json=changed))
        shown = data(await http.get(f"/workflows/{id_}"))
        before = data(await http.get(f"/runs/{run}"))
    assert (updated["version"], updated["task_count"], updated["id"]) == (2, 1, id_)
    assert list(shown["tasks"]) == ["charge"]
    assert list(before["tasks"]) == ["charge", "send-receipt"]


async def test_trigger_workflow(app: Windlass) -> None:
    async with served(app) as http:
        id_ = data(await http.post("/workflows", json=CREATE), 201)["id"]
        started = data(await http.post(f"/workflows/{id_}/trigger", json=PAYLOAD), 201)
        run = data(await http.get(f"/runs/{started['run_id']}"))
    assert set(started) == {"run_id", "workflow_id", "status", "started_at"}
    assert (started["workflow_id"], started["status"]) == (id_, "running")
    assert is_moment(started["started_at"])
    assert run["input"] == PAYLOAD


@pytest.mark.parametrize("by", ["id", "name"])
async def test_get_list_and_delete_by_id_or_name(app: Windlass, by: str) -> None:
    async with served(app) as http:
        ref = data(await http.post("/workflows", json=CREATE), 201)[by]
        shown = data(await http.get(f"/workflows/{ref}"))
        listed = (await http.get("/workflows")).json()
        started = data(await http.post(f"/workflows/{ref}/trigger", json=PAYLOAD), 201)
        runs = (await http.get(f"/workflows/{ref}/runs")).json()
        assert (await http.delete(f"/workflows/{ref}")).status_code == 204
        problem(await http.get(f"/workflows/{ref}"), 404)
        problem(await http.post(f"/workflows/{ref}/trigger", json=PAYLOAD), 404)
        under_way = data(await http.get(f"/workflows/{ref}/runs/{started['run_id']}"))
    assert list(shown["tasks"]) == ["charge", "send-receipt"]
    assert shown["tasks"]["send-receipt"]["needs"] == ["charge"]
    assert ([one["name"] for one in listed["data"]], listed["next"]) == (["order-processing"], None)
    assert [run["id"] for run in runs["data"]] == [started["run_id"]]
    assert under_way["status"] == "running"


async def test_get_workflow_run(app: Windlass) -> None:
    async with served(app) as http:
        id_ = data(await http.post("/workflows", json=CREATE), 201)["id"]
        run = data(await http.post(f"/workflows/{id_}/trigger", json=PAYLOAD), 201)["run_id"]
        await play(await app.open(), charge=answer(200, {"amount": 5}), send__receipt=answer(200))
        found = data(await http.get(f"/workflows/{id_}/runs/{run}"))
        same = data(await http.get(f"/runs/{run}"))
    assert (found["id"], found["status"]) == (run, "completed")
    assert is_moment(found["started_at"])
    assert is_moment(found["finished_at"])
    assert list(found["tasks"]) == ["charge", "send-receipt"]
    for task in found["tasks"].values():
        assert (task["status"], task["status_code"], task["duration_ms"]) == ("success", 200, 1)
        assert is_moment(task["started_at"])
        assert is_moment(task["finished_at"])
    for body in (found, same):
        body.pop("cursor")  # a position in the event trail of the whole server: other databases may move it
    assert found == same


async def test_cancelling_a_workflow_run_twice_is_409(app: Windlass) -> None:
    async with served(app) as http:
        id_ = data(await http.post("/workflows", json=CREATE), 201)["id"]
        run = data(await http.post(f"/workflows/{id_}/trigger", json=PAYLOAD), 201)["run_id"]
        cancelled = data(await http.post(f"/workflows/{id_}/runs/{run}/cancel"))
        told = problem(await http.post(f"/workflows/{id_}/runs/{run}/cancel"), 409)
        tasks = data(await http.get(f"/runs/{run}"))["tasks"]
    assert cancelled["status"] == "cancelled"
    assert "is cancelled and cannot be cancelled" in told["detail"]
    assert {task["status"] for task in tasks.values()} == {"cancelled"}


async def test_a_run_completes_if_its_failed_task_was_handled(app: Windlass) -> None:
    tasks = {
        "charge": {"url": "https://myapp.com/api/charge"},
        "send-receipt": {"needs": ["charge"], "url": "https://myapp.com/api/send-receipt"},
        "handle-failure": {"needs": ["charge"], "if": "tasks.charge.status_code != 200", "url": "https://myapp.com/x"},
    }
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": tasks})
        run = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        await play(await app.open(), charge=answer(402), handle__failure=answer(200))
        found = data(await http.get(f"/runs/{run}"))
    words = {name: task["status"] for name, task in found["tasks"].items()}
    assert (found["status"], words) == (
        "completed",
        {"charge": "failed", "send-receipt": "skipped", "handle-failure": "success"},
    )
    assert found["tasks"]["charge"]["status_code"] == 402
    assert "needs charge to succeed" in found["tasks"]["send-receipt"]["reason"]
    assert (found["tasks"]["send-receipt"]["status_code"], found["tasks"]["send-receipt"]["started_at"]) == (None, None)


async def test_a_run_shows_sleeping_waiting_and_template_error_tasks(app: Windlass) -> None:
    tasks = {
        "nap": {"sleep": "13d"},
        "paid": {"wait_for_webhook": {"timeout": "1h"}},
        "lost": {"url": "https://myapp.com/x", "body": {"n": "{{trigger.body.missing_field}}"}},
        "after": {"needs": ["nap"], "url": "https://myapp.com/x"},
    }
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": tasks})
        run = data(await http.post("/workflows/w/trigger", json={}), 201)["run_id"]
        found = data(await http.get(f"/runs/{run}"))["tasks"]
        events = data(await http.get(f"/runs/{run}/events"))
    words = {name: task["status"] for name, task in found.items()}
    assert words == {"nap": "sleeping", "paid": "waiting", "lost": "template_error", "after": "pending"}
    assert is_moment(found["nap"]["wake_at"])
    assert is_moment(found["nap"]["started_at"])
    assert "missing_field" in found["lost"]["reason"]
    assert [event["event"] for event in events if event["task"] == "lost"] == ["template_error"]


@pytest.mark.parametrize(
    ("change", "field", "told"),
    [
        ({"send-receipt": {"needs": ["chrage"], "url": "https://x.example"}}, "tasks.send-receipt", "chrage"),
        ({"a": {"needs": ["b"], "sleep": 1}, "b": {"needs": ["a"], "sleep": 1}}, "tasks", "dependency cycle"),
        ({"a": {"sleep": "1d", "url": "https://x.example"}}, "tasks.a", "sleep"),
        ({}, "tasks", ""),
    ],
    ids=["orphaned needs", "circular", "two types", "empty"],
)
async def test_invalid_definitions_are_rejected_with_the_field(
    app: Windlass, change: dict[str, Any], field: str, told: str
) -> None:
    tasks = {**CREATE["tasks"], **change} if "send-receipt" in change else change
    async with served(app) as http:
        found = problem(await http.post("/workflows", json={**CREATE, "tasks": tasks}), 422)
        assert (await http.get("/workflows")).json() == {"data": [], "next": None}
    assert any(error["field"].startswith(field) and told in error["message"] for error in found["errors"]), found


async def test_every_endpoint_of_seed_004_works(app: Windlass) -> None:
    """Call every endpoint in the table of seed 004, with the workflow syntax of that seed."""
    async with served(app) as http:
        assert data(await http.get("/workflows")) == []
        assert data(await http.post("/workflows", json=FILES), 201)["version"] == 1
        assert data(await http.post("/workflows", json=FILES))["changed"] is False
        assert data(await http.get("/workflows/files"))["name"] == "files"
        run = data(await http.post("/workflows/files/runs", json={}), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"discover": {"files": ["a.csv", "b.csv", "c.csv"]}})
        assert [one["id"] for one in data(await http.get("/runs", params={"status": "success"}))] == [run]
        assert data(await http.get(f"/runs/{run}"))["status"] == "completed"
        tasks = {task["name"]: task for task in data(await http.get(f"/runs/{run}/tasks"))}
        assert tasks["process"]["instances"] == {
            "count": 3,
            "pending": 0,
            "running": 0,
            "success": 3,
            "failed": 0,
            "cancelled": 0,
        }
        assert data(await http.get(f"/runs/{run}/tasks/process/logs")) == []
        problem(await http.post(f"/runs/{run}/cancel"), 409)
        problem(await http.post(f"/runs/{run}/retry"), 409)
        assert (await http.delete("/workflows/files")).status_code == 204


async def test_retry_runs_the_failed_tasks_again(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=CREATE)
        run = data(await http.post("/workflows/order-processing/runs", json={"input": PAYLOAD}), 201)["run_id"]
        db = await app.open()
        await play(db, charge=answer(402))
        assert data(await http.get(f"/runs/{run}"))["status"] == "failed"
        again = data(await http.post(f"/runs/{run}/retry"))
        assert (again["status"], again["retried"]) == ("running", 1)
        await play(db, charge=answer(200), send__receipt=answer(200))
        assert data(await http.get(f"/runs/{run}"))["status"] == "completed"
