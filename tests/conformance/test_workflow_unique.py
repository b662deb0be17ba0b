"""Unique keys and times of the jobs of workflows."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.conformance.ojs_client import OjsClient
from tests.conformance.workflow_client import Json, WorkflowClient, job

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def flows(ojs: OjsClient) -> AsyncIterator[WorkflowClient]:
    async with httpx.AsyncClient(base_url=f"{ojs.http.base_url}/ojs/v1", timeout=30) as http:
        yield WorkflowClient(http)


def unique(type_: str = "uni.job", on_conflict: str = "reject", **more: Any) -> Json:
    return job(type_, options={"unique": {"keys": ["type"], "on_conflict": on_conflict, **more}})


async def push(flows: WorkflowClient, status: int, **more: Any) -> Json:
    answer = await flows.http.post("/jobs", json=unique(**more))
    assert answer.status_code == status, answer.text
    found: Json = answer.json()
    return found


async def test_a_job_of_a_workflow_is_refused_if_its_unique_key_is_taken(flows: WorkflowClient) -> None:
    there = (await push(flows, 201))["job"]
    for on_conflict in ("reject", "ignore"):
        body = {"type": "group", "id": "wf_1", "jobs": [job("a.a"), unique(on_conflict=on_conflict)]}
        error = await flows.refused(409, **body)
        assert (error["code"], error["details"]) == ("duplicate", {"existing_job_id": there["id"]})
    assert (await flows.http.get("/workflows/wf_1")).status_code == 404, "nothing was written"
    await flows.ack(await flows.one("uni.job"))
    await flows.create(type="group", id="wf_1", jobs=[job("a.a"), unique()])


async def test_two_jobs_of_one_workflow_cannot_have_the_same_unique_key(flows: WorkflowClient) -> None:
    inner = {"type": "chain", "steps": [job("a.a"), unique()]}
    for body in ({"type": "group", "jobs": [unique(), unique()]}, {"type": "group", "jobs": [unique(), inner]}):
        error = await flows.refused(409, **body)
        assert (error["code"], error["message"]) == ("duplicate", "two jobs of this workflow have the same unique key")
    assert not await flows.fetch()


async def test_a_job_of_a_workflow_may_replace_another_job(flows: WorkflowClient) -> None:
    there = (await push(flows, 201))["job"]
    await flows.create(type="group", jobs=[unique(on_conflict="replace")])
    assert (await flows.job(there["id"]))["state"] == "cancelled"
    assert (await flows.one("uni.job"))["id"] != there["id"]
    error = await flows.refused(400, type="group", jobs=[unique(on_conflict="replace_except_schedule")])
    assert [one["path"] for one in error["details"]["validation_errors"]] == ["$.jobs[0].options.unique.on_conflict"]


@pytest.mark.parametrize("on_conflict", ["reject", "ignore", "replace"])
async def test_a_waiting_step_holds_its_unique_key(flows: WorkflowClient, on_conflict: str) -> None:
    inner = {"type": "group", "jobs": [unique()]}
    await flows.create(type="chain", id="wf_1", steps=[job("a.a"), inner])
    for _ in range(2):
        error = (await push(flows, 409, on_conflict=on_conflict))["error"]
        assert "has the same unique key" in error["message"]
        assert (await flows.refused(409, type="group", jobs=[unique(on_conflict=on_conflict)]))["code"] == "duplicate"
    await push(flows, 201, states=["active"])  # it is not among the states that count
    await flows.cancel("wf_1")
    await flows.ack(await flows.one("uni.job"))
    await push(flows, 201, on_conflict=on_conflict)


async def test_an_active_step_holds_its_unique_key_until_it_ends(flows: WorkflowClient) -> None:
    made = await flows.create(type="chain", steps=[job("a.a"), unique(), job("a.c")])
    await flows.ack(await flows.one("a.a"))
    step = await flows.one("uni.job")
    assert (await push(flows, 200, on_conflict="ignore"))["job"]["id"] == step["id"]
    await flows.ack(step)
    assert await flows.states(made["id"]) == ["completed", "completed", "pending"]
    await push(flows, 201)


async def test_a_retry_takes_the_unique_keys_of_the_jobs_it_runs_again(flows: WorkflowClient) -> None:
    await flows.create(type="chain", id="wf_1", steps=[unique("uni.a"), unique("uni.b")])
    await flows.ack(await flows.one("uni.a"))
    await flows.nack(await flows.one("uni.b"))
    there = (await push(flows, 201, type_="uni.b"))["job"]
    error = await flows.refused(409, retry_of="wf_1")
    assert error["details"] == {"existing_job_id": there["id"]}
    await flows.ack(await flows.one("uni.b"))
    await flows.create(retry_of="wf_1", id="wf_2")
    await push(flows, 409, type_="uni.b")
    await push(flows, 201, type_="uni.a")


async def test_relative_times_of_a_step_count_from_when_it_is_enqueued(ojs: OjsClient, flows: WorkflowClient) -> None:
    options = {"scheduled_at": "+PT5S", "expires_at": "+PT20S"}
    inner = {"type": "group", "jobs": [job("a.b", options=options)]}
    made = await flows.create(type="chain", steps=[job("a.a"), inner])
    first = await flows.one("a.a")
    await ojs.pass_time(seconds=60)
    await flows.ack(first)
    assert not await flows.fetch(), "five seconds after it was enqueued, not after the creation of the workflow"
    await ojs.pass_time(seconds=6)
    late = await flows.one("a.b")
    await flows.ack(late)
    assert await flows.state(made["id"]) == "completed"


async def test_the_expiry_of_a_step_counts_from_when_it_is_enqueued(ojs: OjsClient, flows: WorkflowClient) -> None:
    made = await flows.create(type="chain", steps=[job("a.a"), job("a.b", options={"expires_at": "+PT5S"})])
    first = await flows.one("a.a")
    await ojs.pass_time(seconds=60)
    await flows.ack(first)
    assert await flows.states(made["id"]) == ["completed", "pending"]
    await ojs.pass_time(seconds=6)
    assert await flows.states(made["id"]) == ["completed", "failed"]
