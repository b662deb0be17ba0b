"""Workflows of the Open Job Spec over HTTP: chain, group, batch, and their results."""

import re
from collections.abc import AsyncIterator

import pytest

from tests.conformance.workflow_client import FATAL, WorkflowClient, flowing, job
from windlass import Windlass

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
ALL = {
    "on_complete": job("batch.report"),
    "on_success": job("batch.celebrate"),
    "on_failure": job("batch.alert"),
}


@pytest.fixture
async def flows(app: Windlass) -> AsyncIterator[WorkflowClient]:
    async with flowing(app) as opened:
        yield opened


async def test_a_chain_runs_its_steps_in_order_and_passes_results_on(flows: WorkflowClient) -> None:
    made = await flows.create(
        type="chain", name="order", steps=[job("order.validate", {"id": 1}), job("payment.charge"), job("mail.send")]
    )
    assert UUID7.fullmatch(made["id"])
    assert (made["state"], made["steps_total"], made["steps_completed"]) == ("running", 3, 0)
    assert [step["state"] for step in made["steps"]] == ["pending", "waiting", "waiting"]
    assert [step["job_id"] is None for step in made["steps"]] == [False, True, True]
    assert made["metadata"] == {
        "created_at": made["created_at"], "job_count": 3, "completed_count": 0, "failed_count": 0,
    }  # fmt: skip
    first = await flows.one("order.validate")
    assert (first["workflow_id"], first["parent_results"], first["args"]) == (made["id"], [], [{"id": 1}])
    assert first["context"] == {
        "workflow_id": made["id"], "workflow_type": "chain", "step_index": 0, "attempt": 1, "parent_results": {},
    }  # fmt: skip
    assert (await flows.get(made["id"]))["metadata"]["started_at"]
    assert await flows.states(made["id"]) == ["active", "waiting", "waiting"]
    await flows.ack(first, {"total": 99.99})
    second = await flows.one("payment.charge")
    assert second["parent_results"] == [{"total": 99.99}]
    await flows.ack(second, None)
    third = await flows.one("mail.send")
    assert third["parent_results"] == [{"total": 99.99}, None]
    assert third["context"]["parent_results"] == {"0": {"total": 99.99}, "1": None}
    assert await flows.state(made["id"]) == "running"
    await flows.ack(third, "sent")
    done = await flows.get(made["id"])
    assert (done["state"], done["steps_completed"], done["metadata"]["completed_count"]) == ("completed", 3, 3)
    assert done["completed_at"] == done["metadata"]["completed_at"]
    assert [step.get("result") for step in done["steps"]] == [{"total": 99.99}, None, "sent"]
    assert not await flows.fetch()


async def test_a_step_that_will_be_retried_has_not_failed(flows: WorkflowClient) -> None:
    retry = {"max_attempts": 2, "initial_interval": "PT0.001S", "jitter": False}
    made = await flows.create(type="chain", steps=[job("a.b", options={"retry": retry}), job("a.c"), job("a.d")])
    again = await flows.one("a.b")
    assert (await flows.nack(again, {"code": "handler_error", "message": "not yet"}))["state"] == "retryable"
    assert await flows.state(made["id"]) == "running"
    while not (jobs := await flows.fetch()):
        pass
    await flows.nack(jobs[0], {"code": "handler_error", "message": "never"})
    failed = await flows.get(made["id"])
    assert (failed["state"], [step["state"] for step in failed["steps"]]) == (
        "failed", ["failed", "cancelled", "cancelled"],
    )  # fmt: skip
    told = failed["metadata"]
    assert (told["failed_step_index"], told["failed_job_ids"], told["failed_count"]) == (0, [again["id"]], 1)
    [error] = told["errors"]
    assert (error["job_id"], error["code"], error["message"], error["attempt"]) == (
        again["id"], "handler_error", "never", 2,
    )  # fmt: skip
    assert not await flows.fetch()


async def test_a_group_waits_for_all_jobs_and_fails_if_one_failed(flows: WorkflowClient) -> None:
    made = await flows.create(type="group", name="export", jobs=[job("x.csv"), job("x.pdf"), job("x.xls")])
    assert (made["state"], made["jobs_total"], made["jobs_completed"]) == ("running", 3, 0)
    csv, pdf, xls = await flows.fetch()
    assert [one["type"] for one in (csv, pdf, xls)] == ["x.csv", "x.pdf", "x.xls"]
    assert csv["parent_results"] == []
    await flows.ack(csv, 1)
    await flows.nack(pdf, FATAL)
    assert await flows.state(made["id"]) == "running"
    await flows.ack(xls, 3)
    done = await flows.get(made["id"])
    assert (done["state"], done["jobs_completed"], done["metadata"]["failed_count"]) == ("failed", 2, 1)
    assert "failed_step_index" not in done["metadata"]
    assert [one["state"] for one in done["jobs"]] == ["completed", "failed", "completed"]


@pytest.mark.parametrize(
    ("fails", "fired"),
    [(False, ["batch.report", "batch.celebrate"]), (True, ["batch.report", "batch.alert"])],
    ids=["all succeed", "one fails"],
)
async def test_callbacks_determine_the_state_of_a_batch(flows: WorkflowClient, fails: bool, fired: list[str]) -> None:
    made = await flows.create(type="batch", jobs=[job("mail.send", n) for n in range(3)], callbacks=ALL)
    jobs = await flows.fetch()
    for n, one in enumerate(jobs):
        assert not [other for other in await flows.fetch() if other]
        await (flows.nack(one) if fails and n == 2 else flows.ack(one, {"n": n}))
    called = await flows.fetch()
    assert [one["type"] for one in called] == fired
    for one in called:
        assert one["workflow_id"] == made["id"]
        results = one["context"]["parent_results"]
        assert [results["0"], results["1"]] == one["parent_results"][:2] == [{"n": 0}, {"n": 1}]
        if fails:
            assert results["2"]["state"] == "discarded"
            assert results["2"]["error"]["message"] == "boom"
        else:
            assert results["2"] == {"n": 2}
    assert await flows.state(made["id"]) == "running"
    await flows.ack(called[0])
    assert await flows.state(made["id"]) == "running"
    await flows.ack(called[1])
    done = await flows.get(made["id"])
    assert done["state"] == "completed"
    assert done["metadata"]["failed_count"] == (1 if fails else 0)
    assert [word for word, told in done["callbacks"].items() if told["fired"]] == (
        ["on_complete", "on_failure"] if fails else ["on_complete", "on_success"]
    )
    assert done["metadata"]["job_count"] == done["jobs_total"] == 3


async def test_a_callback_that_fails_fails_its_batch(flows: WorkflowClient) -> None:
    made = await flows.create(type="batch", jobs=[job("a.b")], callbacks={"on_success": job("batch.done")})
    await flows.ack(await flows.one("a.b"))
    callback = await flows.one("batch.done")
    await flows.nack(callback, {"code": "handler_error", "message": "no disk", "retryable": False})
    told = (await flows.get(made["id"]))["metadata"]
    assert (await flows.state(made["id"]), told["failed_callback"]) == ("failed", "on_success")
    assert (told["failed_job_ids"], told["errors"][0]["message"]) == ([callback["id"]], "no disk")


async def test_a_batch_without_a_fired_callback_is_completed(flows: WorkflowClient) -> None:
    made = await flows.create(type="batch", jobs=[job("a.b")], callbacks={"on_success": job("batch.done")})
    await flows.nack(await flows.one("a.b"))
    done = await flows.get(made["id"])
    assert (done["state"], done["metadata"]["failed_count"]) == ("completed", 1)
    assert done["callbacks"]["on_success"]["state"] == "cancelled"


async def test_cancelling_a_workflow_lets_only_active_jobs_finish(flows: WorkflowClient) -> None:
    made = await flows.create(type="chain", steps=[job("a.a"), job("a.b")])
    active = await flows.one("a.a")
    told = (await flows.cancel(made["id"]))["workflow"]
    assert (told["state"], told["metadata"]["completed_count"]) == ("cancelled", 0)
    assert told["metadata"]["cancelled_at"]
    await flows.ack(active, "late")
    after = await flows.get(made["id"])
    assert (after["state"], [step["state"] for step in after["steps"]]) == ("cancelled", ["completed", "cancelled"])
    assert not await flows.fetch()
    conflict = (await flows.cancel(made["id"], 409))["error"]
    assert conflict["code"] == "conflict"
    assert conflict["message"] == f"Workflow {made['id']} is already in terminal state 'cancelled'"
    group = await flows.create(type="group", jobs=[job("a.a"), job("a.b")])
    assert (await flows.cancel(group["id"]))["workflow"]["steps_cancelled"] == 2
    assert (await flows.job(group["jobs"][0]["job_id"]))["state"] == "cancelled"


async def test_a_job_that_is_cancelled_individually_is_a_failed_step(flows: WorkflowClient) -> None:
    made = await flows.create(type="chain", steps=[job("a.a"), job("a.b")])
    assert (await flows.http.delete(f"/jobs/{made['steps'][0]['job_id']}")).status_code == 200
    done = await flows.get(made["id"])
    assert (done["state"], [step["state"] for step in done["steps"]]) == ("failed", ["failed", "cancelled"])
    assert done["metadata"]["errors"][0]["code"] == "cancelled"


async def test_an_unknown_workflow_is_not_found(flows: WorkflowClient) -> None:
    for answer in (await flows.http.get("/workflows/wf_none"), await flows.http.delete("/workflows/wf_none")):
        assert answer.status_code == 404
        assert answer.json()["error"]["code"] == "not_found"
        assert answer.json()["error"]["message"] == "Workflow wf_none not found"


async def test_options_and_unknown_fields_reach_the_job(flows: WorkflowClient) -> None:
    options = {"queue": "orders", "priority": 7, "timeout_ms": 30000, "tags": ["t"], "retry": {"max_attempts": 5}}
    item = job("a.b", 1, meta={"k": [1, None]}, x_custom={"deep": 1}, options=options)
    made = await flows.create(type="chain", steps=[job("first"), item])
    await flows.ack(await flows.one("first"))
    [found] = await flows.fetch(queues=["orders"])
    assert (found["priority"], found["timeout_ms"], found["tags"], found["max_attempts"]) == (7, 30000, ["t"], 5)
    assert (found["meta"], found["x_custom"], found["args"]) == ({"k": [1, None]}, {"deep": 1}, [1])
    shown = await flows.job(found["id"])
    assert shown["workflow_id"] == made["id"]
    big = "x" * 70_000
    await flows.ack(found, big)
    assert (await flows.get(made["id"]))["steps"][1]["result"] == big


@pytest.mark.parametrize("ended", [False, True], ids=["while the batch runs", "after its end"])
async def test_dead_letters_of_workflows_cannot_be_retried_individually(flows: WorkflowClient, ended: bool) -> None:
    policy = {"max_attempts": 1, "on_exhaustion": "dead_letter"}
    jobs = [job("m.a", options={"retry": policy}), job("m.b")]
    await flows.create(type="batch", id="wf_1", jobs=jobs, callbacks={"on_failure": job("batch.alert")})
    first, second = await flows.fetch()
    await flows.nack(first)
    if ended:
        await flows.ack(second, 2)
        await flows.ack(await flows.one("batch.alert"))
    before = await flows.get("wf_1")
    [dead] = (await flows.http.get("/dead-letter")).json()["jobs"]
    assert dead["id"] == first["id"]
    steering = [("POST", f"/dead-letter/{dead['id']}/retry"), ("POST", f"/admin/jobs/{dead['id']}/retry")]
    for method, path in [*steering, ("DELETE", f"/dead-letter/{dead['id']}")]:
        refused = await flows.http.request(method, path)
        assert refused.status_code == 409, refused.text
        assert '{"retry_of": "wf_1"}' in refused.json()["error"]["message"]
    assert await flows.get("wf_1") == before
    assert [one["job_id"] for one in before["metadata"]["errors"]] == [first["id"]]
    if not ended:
        await flows.ack(second, 2)
        called = await flows.one("batch.alert")
        assert called["context"]["parent_results"]["0"]["state"] == "discarded"
