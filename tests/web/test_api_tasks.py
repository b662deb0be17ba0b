"""The activity and the failures of the tasks of a run, and the data of their graph, over real HTTP."""

from typing import Any

import pytest

from tests.engine.harness import Fails, ManualWorker, report
from tests.web.serving import data, fields, problem, served
from windlass import Windlass
from windlass.core.jobs.job import Failed
from windlass.engine.jobs import queues

SOON: dict[str, Any] = {"retry": {"kind": "constant", "base": 60}, "retries": 1}


async def tasks(http: Any, run: str) -> dict[str, dict[str, Any]]:
    return {task["name"]: task for task in data(await http.get(f"/runs/{run}/tasks"))}


async def test_a_task_shows_its_current_activity(app: Windlass) -> None:
    steps = {
        "load": {"job": "a.load.v1", **SOON},
        "lost": {"job": "nobody.serves.v1"},
        "nap": {"sleep": "1h"},
        "ask": {"wait_for_webhook": {"timeout": "1h"}},
        "sub": {"workflow": "below"},
        "last": {"needs": ["load"], "job": "a.load.v1"},
    }
    app.job("a.load.v1")(lambda: None)
    async with served(app) as http:
        await http.post("/workflows", json={"name": "below", "tasks": {"nap": {"sleep": "1h"}}})
        await http.post("/workflows", json={"name": "w", "tasks": steps})
        run = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        db = await app.open()
        worker = await ManualWorker.registered(db)
        await worker.register(types=["a.load.v1"])
        first = await tasks(http, run)
        await queues.pause(db, "default")
        paused = await tasks(http, run)
        await queues.resume(db, "default")
        [job] = [job for job in await worker.take() if job.type == "a.load.v1"]
        running = await tasks(http, run)
        await worker.send(report(job, Failed({"type": "ValueError", "message": "no luck"}, retryable=True)))
        later = await tasks(http, run)
    assert {name: task["activity"] for name, task in first.items()} == {
        "load": "queued",
        "lost": "no_worker",
        "nap": "sleeping",
        "ask": "waiting_for_callback",
        "sub": "waiting_for_child",
        "last": "waiting_for_tasks",
    }
    assert first["nap"]["until"] == first["nap"]["wake_at"] is not None
    assert paused["load"]["activity"] == "queue_paused"
    assert (running["load"]["activity"], running["load"]["until"]) == ("running", None)
    assert (later["load"]["activity"], later["load"]["error"]) == ("backing_off", "no luck")
    assert later["load"]["until"] > later["nap"]["started_at"]


async def test_the_tasks_of_a_pending_run_are_held(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "concurrency": 1, "tasks": {"a": {"sleep": "1h"}}})
        _, held = [data(await http.post("/workflows/w/trigger"), 201)["run_id"] for _ in range(2)]
        assert (await tasks(http, held))["a"]["activity"] == "held"


async def test_a_task_that_succeeded_after_a_retry_has_no_error(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": {"a": {"job": "a", "retries": 1}}})
        run = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.play({"a": lambda job: Fails("no luck") if not job.attempt else None})
        task = (await tasks(http, run))["a"]
    assert (task["status"], task["attempt"]) == ("success", 2)
    assert (task["error"], task["error_message"], task["activity"]) == (None, None, None)


async def test_a_template_error_is_the_error_of_its_task(app: Windlass) -> None:
    lost = {"url": "https://x.example", "body": {"n": "{{trigger.body.missing}}"}}
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": {"lost": lost}})
        run = data(await http.post("/workflows/w/trigger", json={}), 201)["run_id"]
        task = (await tasks(http, run))["lost"]
    assert task["status"] == "template_error"
    assert "missing" in task["error_message"]
    assert task["error"] == task["error_message"] == task["reason"]


async def test_instances_that_never_ran_count_as_cancelled_once_their_run_was_cancelled(app: Windlass) -> None:
    fan = {"job": "a", "parallel": 30, "concurrency": 3}
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": {"p": fan}})
        run = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        worker = await ManualWorker.registered(await app.open())
        for _ in range(2):
            await worker.send(*(report(job, None) for job in await worker.take()))
        await http.post(f"/runs/{run}/cancel")
        task = (await tasks(http, run))["p"]
    counts = {"count": 30, "pending": 0, "running": 0, "success": 6, "failed": 0, "cancelled": 24}
    assert (task["status"], task["instances"]) == ("cancelled", counts)
    assert task["remark"].startswith("30/30, 24 cancelled")


async def test_a_failed_run_shows_the_reason(app: Windlass) -> None:
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": {"a": {"job": "a", "retries": 0}}})
        run = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        await (await ManualWorker.registered(await app.open())).play({"a": Fails()})
        shown = data(await http.get(f"/runs/{run}"))
    assert (shown["status"], shown["reason"]) == ("failed", "step a failed and no step handled it")


@pytest.mark.parametrize("path", ["/workflows/w/graph", "/runs/{run}/graph"])
async def test_a_graph_shows_the_condition_of_a_task_on_the_task_and_its_edges(app: Windlass, path: str) -> None:
    steps = {
        "ask": {"url": "https://x.example"},
        "paid": {"needs": ["ask"], "if": "tasks.ask.status_code == 200", "sleep": 1},
    }
    async with served(app) as http:
        await http.post("/workflows", json={"name": "w", "tasks": steps})
        run = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        graph = data(await http.get(path.format(run=run)))
    condition = "tasks.ask.status_code == 200"
    assert [(task["type"], task["if"]) for task in graph["tasks"]] == [("http", None), ("sleep", condition)]
    assert graph["edges"] == [{"from": "ask", "to": "paid", "on": "complete", "if": condition}]


async def test_jobs_are_listed_with_or_without_jobs_of_runs(app: Windlass) -> None:
    async with served(app) as http:
        await http.post(
            "/workflows", json={"name": "w", "tasks": {"a": {"job": "a"}, "h": {"url": "https://x.example"}}}
        )
        run = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        alone = data(await http.post("/jobs", json={"type": "alone.v1"}), 201)["id"]
        done = data(await http.post("/jobs", json={"type": "a"}), 201)["id"]
        worker = await ManualWorker.registered(await app.open())
        await worker.send(*(report(job, None) for job in await worker.take() if job.type in ("a", "test.a.v1")))
        everything = {job["type"] for job in data(await http.get("/jobs"))}
        plain = [job["id"] for job in data(await http.get("/jobs", params={"steps": "false"}))]
        assert fields(await http.get("/jobs", params={"steps": "false", "run": run})) == ["steps"]
    assert everything == {"a", "windlass.http.v1", "alone.v1"}
    assert sorted(plain) == sorted([alone, done])


async def test_a_run_of_a_deleted_workflow_does_not_belong_to_a_new_workflow_of_the_same_name(app: Windlass) -> None:
    document = {"name": "w", "tasks": {"a": {"sleep": "1h"}}}
    async with served(app) as http:
        first = data(await http.post("/workflows", json=document), 201)["id"]
        old = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        await http.delete("/workflows/w")
        assert data(await http.get(f"/workflows/w/runs/{old}"))["id"] == old
        second = data(await http.post("/workflows", json=document), 201)["id"]
        new = data(await http.post("/workflows/w/trigger"), 201)["run_id"]
        problem(await http.get(f"/workflows/w/runs/{old}"), 404)
        assert data(await http.get(f"/workflows/{first}/runs/{old}"))["id"] == old
        listed = [data(await http.get(f"/workflows/{ref}/runs")) for ref in (first, second, "w")]
        same = data(await http.get("/runs", params={"workflow": first}))
        problem(await http.get(f"/workflows/{old}/runs"), 404)
    assert [[run["id"] for run in page] for page in listed] == [[old], [new], [new]]
    assert same == listed[0]
