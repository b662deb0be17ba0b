"""The ten events of workflows, each once and in order; the inbox is shared with the other APIs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.conformance.workflow_client import WorkflowClient, flowing, job
from windlass import Context, Windlass
from windlass.engine.runs import sweep
from windlass.testing import run_until_idle


@pytest.fixture
async def flows(app: Windlass) -> AsyncIterator[WorkflowClient]:
    async with flowing(app) as opened:
        yield opened


async def test_all_ten_events_are_emitted_in_order(flows: WorkflowClient) -> None:
    chain = await flows.create(type="chain", name="c", steps=[job("c.a"), job("c.b"), job("c.c")])
    first = await flows.one("c.a")
    await flows.ack(first)
    await flows.nack(await flows.one("c.b"))
    batch = await flows.create(type="batch", jobs=[job("b.a"), job("b.b")], callbacks={"on_complete": job("b.done")})
    good, bad = await flows.fetch()
    await flows.ack(good)
    await flows.nack(bad)
    callback = await flows.one("b.done")
    await flows.ack(callback)
    group = await flows.create(type="group", jobs=[job("g.a")])
    await flows.cancel(group["id"])
    events = await flows.events()
    told = [(event["workflow_id"], event["type"].removeprefix("workflow.")) for event in events]
    assert told == [
        (chain["id"], "created"),
        (chain["id"], "started"),
        (chain["id"], "step_completed"),
        (chain["id"], "step_failed"),
        (chain["id"], "failed"),
        (batch["id"], "created"),
        (batch["id"], "started"),
        (batch["id"], "job_completed"),
        (batch["id"], "job_failed"),
        (batch["id"], "callback_fired"),
        (batch["id"], "completed"),
        (group["id"], "created"),
        (group["id"], "cancelled"),
    ]
    ended = events[2]
    assert (ended["event"], ended["workflow_type"], ended["workflow_name"]) == ("workflow.step_completed", "chain", "c")
    data = ended["data"]
    assert (data["step_index"], data["step_type"], data["job_id"], data["remaining_steps"]) == (
        0,
        "c.a",
        first["id"],
        2,
    )
    assert data["duration_ms"] >= 0
    assert events[3]["data"]["error"]["message"] == "boom"
    assert events[9]["data"]["callback"] == "on_complete"
    assert events[9]["data"]["job_id"] == callback["id"]


async def test_a_nested_workflow_completes_before_its_parent_in_the_events(flows: WorkflowClient) -> None:
    made = await flows.create(type="chain", id="outer", steps=[{"type": "group", "id": "inner", "jobs": [job("g.a")]}])
    await flows.ack(await flows.one("g.a"))
    assert await flows.state(made["id"]) == "completed"
    told = [(event["workflow_id"], event["type"].removeprefix("workflow.")) for event in await flows.events()]
    assert told == [
        ("outer", "created"),
        ("inner", "created"),
        ("outer", "started"),
        ("inner", "started"),
        ("inner", "job_completed"),
        ("inner", "completed"),
        ("outer", "step_completed"),
        ("outer", "completed"),
    ]


async def test_a_python_worker_executes_jobs_of_workflows(app: Windlass, flows: WorkflowClient) -> None:
    seen: list[Any] = []

    @app.job("t.first")
    async def first(payload: Any) -> Any:
        return {"got": payload}

    @app.job("t.second")
    async def second(ctx: Context, payload: Any) -> Any:
        seen.append((ctx.workflow_id, ctx.parent_results, payload))
        return 2

    made = await flows.create(type="chain", id="wf_ours", steps=[job("t.first", 1), job("t.second", "x")])
    await run_until_idle(app)
    assert seen == [("wf_ours", {"0": {"got": [1]}}, ["x"])]
    assert (await flows.get(made["id"]))["state"] == "completed"


async def test_a_worker_over_http_executes_steps_of_any_workflow(app: Windlass, flows: WorkflowClient) -> None:
    workflow = app.workflow("pair")
    one = workflow.step("one", "x.one", input={"n": 1})
    workflow.step("two", "x.two", input={"of": one["n"]})
    run = await app.start("pair")
    got = await flows.one("x.one")
    assert (got["args"], got["workflow_id"]) == ([{"n": 1}], str(run.id))
    assert "parent_results" not in got
    await flows.ack(got, {"n": 7})
    await flows.ack(await flows.one("x.two"), "end")
    assert (await run.wait(timeout=30)) is not None


async def test_workflows_are_runs_in_the_windlass_api_and_their_definitions_are_hidden(flows: WorkflowClient) -> None:
    made = await flows.create(type="chain", name="seen", steps=[job("v.a"), {"type": "group", "jobs": [job("v.b")]}])
    await flows.ack(await flows.one("v.a"), 1)
    await flows.nack(await flows.one("v.b"))
    api = str(flows.http.base_url).replace("/ojs/v1/", "/api/v1")
    listed = (await flows.http.get(f"{api}/runs")).json()["data"]
    assert {run["status"] for run in listed} == {"failed"}
    assert {str(run["id"]) for run in listed} >= {made["id"]}
    for path in ("", "/explain", "/timeline", "/tasks", "/graph"):
        answer = await flows.http.get(f"{api}/runs/{made['id']}{path}")
        assert answer.status_code == 200, answer.text
    [run] = [run for run in listed if run["id"] == made["id"]]
    assert run["labels"] == {"name": "seen"}
    shape = await flows.http.get(f"{api}/workflows/{run['workflow']}")
    assert shape.status_code == 200, shape.text
    assert (await flows.http.get(f"{api}/workflows")).json()["data"] == []
    again = await flows.http.post(f"{api}/runs/{made['id']}/retry")
    assert again.status_code == 409
    assert "retry_of" in again.text


async def test_a_workflow_over_its_timeout_fails(app: Windlass, flows: WorkflowClient) -> None:
    made = await flows.create(type="chain", timeout_ms=1, steps=[job("s.a"), job("s.b")])
    db = await app.open()
    while not await sweep.expire(db):
        pass
    late = await flows.get(made["id"])
    assert (late["state"], late["metadata"]["timed_out"]) == ("failed", True)
    assert [step["state"] for step in late["steps"]] == ["cancelled", "cancelled"]
    assert not await flows.fetch()


async def test_events_include_the_error_of_the_job_and_the_ids_of_the_client(flows: WorkflowClient) -> None:
    inner = {"type": "group", "id": "wf_inner", "jobs": [job("g.a", id="job_a")]}
    await flows.create(type="chain", id="wf_outer", steps=[inner, job("c.b")])
    await flows.nack(await flows.one("g.a"), {"code": "bad_csv", "message": "line 7", "retryable": False})
    await flows.create(retry_of="wf_outer", id="wf_again")
    assert (await flows.get("wf_again"))["retry_of"] == "wf_outer"
    events = {(one["workflow_id"], one["type"]): one["data"] for one in await flows.events()}
    assert events["wf_inner", "workflow.created"]["parent_workflow_id"] == "wf_outer"
    failed = events["wf_inner", "workflow.job_failed"]
    assert (failed["job_id"], failed["error"]["code"], failed["error"]["message"]) == ("job_a", "bad_csv", "line 7")
    step = events["wf_outer", "workflow.step_failed"]
    assert (step["step_type"], step["child_workflow_id"], step["remaining_steps"]) == ("group", "wf_inner", 1)
    assert step["duration_ms"] >= 0
    assert (step["error"]["job_id"], step["error"]["code"], step["error"]["attempt"]) == ("job_a", "bad_csv", 1)
    answer = (await flows.http.get("/events", params={"types": "job.failed"})).json()
    [alone] = answer["events"]
    assert (alone["subject"], alone["data"]["workflow_id"]) == ("job_a", "wf_inner")
    assert alone["data"]["error"]["code"] == "bad_csv"


async def test_a_cancelled_job_or_nested_workflow_has_the_error_code_cancelled(flows: WorkflowClient) -> None:
    await flows.create(
        type="group", id="wf_1", jobs=[job("g.a", id="job_a"), {"type": "group", "id": "wf_2", "jobs": [job("g.b")]}]
    )
    assert (await flows.http.delete("/jobs/job_a")).status_code == 200
    await flows.cancel("wf_2")
    failed = [one["data"] for one in await flows.events() if one["type"] == "workflow.job_failed"]
    assert [(one["job_index"], one["error"]["code"]) for one in failed] == [(0, "cancelled"), (1, "cancelled")]
    assert (failed[1]["job_type"], failed[1]["child_workflow_id"]) == ("group", "wf_2")


async def test_events_can_be_filtered_by_workflow(flows: WorkflowClient) -> None:
    await flows.create(type="chain", id="wf_1", steps=[job("c.a"), job("c.b")])
    await flows.create(type="group", id="wf_2", jobs=[job("g.a")])
    for one in await flows.fetch():
        await flows.ack(one)

    async def told(**query: Any) -> list[str]:
        answer = await flows.http.get("/events", params=query)
        assert answer.status_code == 200, answer.text
        return [event["type"] for event in answer.json()["events"]]

    assert await told(workflow_id="wf_2", types="workflow.*") == [
        "workflow.created", "workflow.started", "workflow.job_completed", "workflow.completed",
    ]  # fmt: skip
    assert sorted(await told(workflow_id="wf_2", types="job.*")) == ["job.completed", "job.enqueued", "job.started"]
    assert await told(workflow_id="wf_1", types="workflow.step_completed") == ["workflow.step_completed"]
    first = (await flows.http.get("/events", params={"workflow_id": "wf_2", "limit": 2})).json()
    rest = (await flows.http.get("/events", params={"workflow_id": "wf_2", "after": first["next"]})).json()
    whole = (await flows.http.get("/events", params={"workflow_id": "wf_2"})).json()
    assert first["events"] + rest["events"] == whole["events"]
    behind = {"workflow_id": "wf_2", "after": first["events"][-1]["id"]}
    assert (await flows.http.get("/events", params=behind)).json()["events"] == rest["events"]
    assert (await flows.http.get("/events", params={"workflow_id": "wf_3"})).status_code == 404
