"""Cancel, retry and rerun over real HTTP, for one run and in bulk."""

from typing import Any

import httpx
import pytest

from tests.engine.harness import Fails, ManualWorker
from tests.web.serving import data, fields, problem, served
from windlass import Windlass

CHAIN: dict[str, Any] = {
    "name": "chain",
    "tasks": {"a": {"job": "a"}, "b": {"needs": ["a"], "job": "b", "max_attempts": 1}},
}


async def start(http: httpx.AsyncClient, name: str = "chain", **order: Any) -> str:
    return str(data(await http.post(f"/workflows/{name}/runs", json=order), 201)["run_id"])


async def failed(app: Windlass, http: httpx.AsyncClient, count: int, **order: Any) -> list[str]:
    """Create `count` failed runs and return their ids, oldest first."""
    await http.post("/workflows", json=CHAIN)
    ids = [await start(http, **order) for _ in range(count)]
    worker = await ManualWorker.registered(await app.open())
    await worker.play({"b": Fails("boom", for_good=True)})
    return ids


async def test_rerun_from_a_task_with_another_input(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=CHAIN)
        run = await start(http, input={"n": 1})
        problem(await http.post(f"/runs/{run}/rerun", json={"from": "b"}), 409)
        worker = await ManualWorker.registered(await app.open())
        await worker.play()
        again = data(await http.post(f"/runs/{run}/rerun", json={"from": "b", "input": {"n": 2}}))
        shown = data(await http.get(f"/runs/{run}"))
        await worker.play()
        kept = data(await http.post(f"/workflows/chain/runs/{run}/rerun", json={"from": "a"}))
        assert data(await http.get(f"/runs/{run}"))["input"] == {"n": 2}
    assert (again["status"], again["retried"], kept["retried"]) == ("running", 1, 2)
    assert {name: task["status"] for name, task in shown["tasks"].items()} == {"a": "success", "b": "running"}


@pytest.mark.parametrize(
    ("body", "field"),
    [({}, "from"), ({"from": "z"}, "from"), ({"from": 7}, "from"), ({"from": "a", "step": "b"}, "step")],
    ids=str,
)
async def test_an_invalid_rerun_is_rejected_with_the_field(app: Windlass, body: dict[str, Any], field: str) -> None:
    async with served(app) as http:
        [run] = await failed(app, http, 1)
        assert fields(await http.post(f"/runs/{run}/rerun", json=body)) == [field]
        assert data(await http.get(f"/runs/{run}"))["status"] == "failed"


async def test_a_run_is_retried_with_the_live_version_after_a_preview(app: Windlass) -> None:
    async with served(app) as http:
        [run] = await failed(app, http, 1)
        fixed = {"a": {"job": "a"}, "z": {"job": "z"}, "b": {"needs": ["a"], "job": "fixed"}}
        await http.post("/workflows", json={"name": "chain", "tasks": fixed})
        preview = data(await http.get(f"/runs/{run}/restart", params={"version": "live"}))
        again = data(await http.post(f"/runs/{run}/retry", json={"version": "live"}))
        problem(await http.get(f"/runs/{run}/restart"), 409)
        assert fields(await http.get(f"/runs/{run}/restart", params={"version": "7"})) == ["version"]
    assert preview == {"kept": ["a"], "again": ["b"], "new": ["z"], "gone": []}
    assert (again["status"], again["version"], again["retried"]) == ("running", 2, 1)


async def test_a_retry_with_the_live_version_is_refused_if_a_finished_task_differs(app: Windlass) -> None:
    async with served(app) as http:
        [run] = await failed(app, http, 1)
        changed = {"a": {"job": "other"}, "b": {"needs": ["a"], "job": "b"}}
        await http.post("/workflows", json={"name": "chain", "tasks": changed})
        refused = problem(await http.post(f"/runs/{run}/retry", json={"version": "live"}), 409)
    assert "the live version differs in a, which the run has finished" in refused["detail"]


async def test_a_run_is_paused_shown_as_paused_and_resumed(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=CHAIN)
        run = await start(http)
        assert data(await http.post(f"/runs/{run}/pause", json={"reason": "bank holiday"}))["paused_at"] is not None
        worker = await ManualWorker.registered(await app.open())
        assert await worker.take() == []
        shown = data(await http.get(f"/runs/{run}"))
        assert (shown["status"], shown["tasks"]["a"]["activity"]) == ("running", "run_paused")
        assert data(await http.post(f"/workflows/chain/runs/{run}/resume"))["paused_at"] is None
        await worker.play()
        trail = data(await http.get(f"/runs/{run}/events"))
        problem(await http.post(f"/runs/{run}/pause"), 409)
    assert [(line["event"], line["reason"]) for line in trail if line["event"] == "paused"] == [
        ("paused", "bank holiday")
    ]


async def test_cancelling_with_compensation_compensates_the_successful_tasks(app: Windlass) -> None:
    tasks = {"a": {"job": "a", "compensate": {"job": "undo-a"}}, "b": {"needs": ["a"], "job": "b"}}
    async with served(app) as http:
        await http.post("/workflows", json={"name": "saga", "tasks": tasks})
        run = await start(http, "saga")
        worker = await ManualWorker.registered(await app.open())
        await worker.end(await worker.take_one("a"))
        assert data(await http.post(f"/runs/{run}/cancel", json={"compensate": True}))["status"] == "running"
        shown = data(await http.get(f"/runs/{run}"))
        assert (shown["is_undone"], shown["tasks"]["a.compensate"]["compensates"]) == (True, "a")
        await worker.play()
        graph = data(await http.get(f"/runs/{run}/graph"))
        ended = data(await http.get(f"/runs/{run}"))
    assert (ended["status"], ended["reason"]) == ("cancelled", "the run was cancelled, compensated")
    assert [node["compensates"] for node in graph["tasks"]] == [None, None, "a"]


async def test_bulk_cancel_works_in_batches(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=CHAIN)
        ids = [await start(http, labels={"team": "a"}) for _ in range(5)]
        other = await start(http, labels={"team": "b"})
        which: dict[str, Any] = {"workflow": "chain", "labels": {"team": "a"}, "reason": "wrong bucket"}
        counted = data(await http.post("/runs/cancel", json={**which, "dry_run": True}))
        first = data(await http.post("/runs/cancel", json={**which, "limit": 3}))
        rest = data(await http.post("/runs/cancel", json={**which, "before": first["next"]}))
        none = data(await http.post("/runs/cancel", json=which))
        states = {run["id"]: run["status"] for run in data(await http.get("/runs"))}
        reason = data(await http.get(f"/runs/{ids[0]}"))["reason"]
    assert counted == {"dry_run": True, "done": 0, "left": 5, "runs": [], "next": None}
    assert (first["runs"], first["left"], first["next"]) == (ids[:1:-1], 2, ids[2])
    assert (rest["runs"], rest["left"], rest["next"]) == (ids[1::-1], 0, None)
    assert (none["done"], none["left"]) == (0, 0)
    assert states == {**dict.fromkeys(ids, "cancelled"), other: "running"}
    assert reason == "wrong bucket"


async def test_bulk_retry_works_in_batches(app: Windlass) -> None:
    async with served(app) as http:
        ids = await failed(app, http, 4)
        counted = data(await http.post("/runs/retry", json={"status": ["failed"], "dry_run": True}))
        first = data(await http.post("/runs/retry", json={"workflow": "chain", "limit": 3}))
        rest = data(await http.post("/runs/retry", json={"all": True, "before": first["next"]}))
        states = {run["status"] for run in data(await http.get("/runs"))}
    assert counted["left"] == 4
    assert (first["runs"], first["left"]) == (ids[:0:-1], 1)
    assert (rest["runs"], rest["next"]) == (ids[:1], None)
    assert states == {"running"}


async def test_bulk_retry_leaves_child_runs_to_their_parents(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=CHAIN)
        await http.post("/workflows", json={"name": "above", "tasks": {"sub": {"workflow": "chain"}}})
        run = await start(http, "above")
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"b": Fails("boom", for_good=True)})
        assert len(data(await http.get("/runs", params={"status": "failed"}))) == 2
        assert data(await http.post("/runs/retry", json={"all": True}))["runs"] == [run]
        await worker.play()
        assert data(await http.get(f"/runs/{run}"))["status"] == "completed"


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("cancel", {}, "body"),
        ("retry", {}, "body"),
        ("retry", {"dry_run": True}, "body"),
        ("cancel", {"status": ["failed"]}, "status"),
        ("retry", {"status": ["success"]}, "status"),
        ("retry", {"status": "failed"}, "status"),
        ("retry", {"status": ["done"]}, "status"),
        ("cancel", {"workfow": "chain"}, "workfow"),
        ("cancel", {"all": "yes"}, "all"),
        ("cancel", {"all": True, "limit": 1001}, "limit"),
        ("cancel", {"all": True, "before": "7"}, "before"),
        ("cancel", {"labels": {"a": 1}}, "labels.a"),
        ("cancel", {"inserted_after": "2026-01-01T00:00:00"}, "inserted_after"),
        ("retry", {"all": True, "reason": "x"}, "reason"),
        ("cancel", {"all": True, "reason": "x" * 10_000}, "reason"),
        ("cancel", [], "body"),
    ],
    ids=str,
)
async def test_invalid_bulk_requests_change_nothing(app: Windlass, path: str, body: Any, field: str) -> None:
    async with served(app) as http:
        await http.post("/workflows", json=CHAIN)
        run = await start(http)
        assert fields(await http.post(f"/runs/{path}", json=body)) == [field]
        assert data(await http.get(f"/runs/{run}"))["status"] == "running"
