"""Requests that create workflows: dialects, ids, errors, and features beyond the spec."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote
from uuid import UUID

import asyncpg
import pytest

from tests.conformance.workflow_client import Json, WorkflowClient, flowing, job
from windlass import Windlass
from windlass.engine.database import new_ids


@pytest.fixture
async def flows(app: Windlass) -> AsyncIterator[WorkflowClient]:
    async with flowing(app) as opened:
        yield opened


def step(id_: str, type_: str, *needs: str, **options: Any) -> Json:
    found = {"id": id_, "type": type_, "args": [], "depends_on": [*needs]}
    return found | ({"options": options} if options else {})


async def test_the_type_of_a_workflow_is_inferred_from_its_steps(flows: WorkflowClient) -> None:
    for kind, steps in {
        "chain": [step("step-0", "a.a"), step("step-1", "a.b", "step-0")],
        "group": [step("job-0", "a.a"), step("job-1", "a.b")],
        "batch": [step("job-0", "a.a"), step("cb", "a.b", "job-0", callback_type="on_complete")],
        "batch ": [step("job-0", "a.a"), step("on-success", "a.b", "job-0")],
        "dag": [step("a", "a.a"), step("b", "a.b", "a"), step("c", "a.c", "a"), step("d", "a.d", "b", "c")],
    }.items():
        made = await flows.create(name="from an SDK", steps=steps, options={"queue": "sdk"})
        assert (made["type"], made["name"], made["state"]) == (kind.strip(), "from an SDK", "running")
        assert all(one["id"] and one["type"] for one in made["steps"])
        seen: dict[str, Json] = {}
        while jobs := await flows.fetch(queues=["sdk"]):
            for one in jobs:
                seen[one["type"]] = one
                await flows.ack(one, one["type"])
        assert await flows.state(made["id"]) == "completed"
    assert seen["a.d"]["context"]["parent_results"] == {"0": "a.a", "1": "a.b", "2": "a.c"}


MISTAKES: list[tuple[Json, list[str]]] = [
    ({}, ["$.type"]),
    ({"type": "loop", "steps": [job("a.b")]}, ["$.type"]),
    ({"type": "chain", "steps": []}, ["$.steps"]),
    ({"type": "chain", "jobs": [job("a.b")]}, ["$.steps"]),
    ({"type": "group", "steps": [job("a.b")]}, ["$.jobs"]),
    ({"type": "batch", "jobs": [job("a.b")]}, ["$.callbacks"]),
    ({"type": "batch", "jobs": [], "callbacks": {}}, ["$.jobs", "$.callbacks"]),
    ({"type": "batch", "jobs": [job("a.b")], "callbacks": {"on_end": job("x")}}, ["$.callbacks"]),
    (
        {"type": "chain", "steps": [{"args": []}, {"type": "a.b"}, {}, "x", job("A B")]},
        ["$.steps[0].type", "$.steps[1].args", "$.steps[2].type", "$.steps[2].args", "$.steps[3]", "$.steps[4].type"],
    ),
    (
        {"type": "group", "jobs": [{"type": "chain", "steps": [job("a.b", options={"retry": {"max_attempts": -1}})]}]},
        ["$.jobs[0].steps[0].options.retry.max_attempts"],
    ),
    ({"type": "chain", "steps": [{"type": "group", "jobs": []}]}, ["$.steps[0].jobs"]),
    ({"steps": [step("a", "a.a", "b"), step("b", "a.b", "a")]}, ["$.steps[0].depends_on"]),
    ({"steps": [step("a", "a.a", "x")]}, ["$.steps[0].depends_on"]),
    ({"type": "chain", "steps": [job("a.a"), {**job("a.b"), "if": "tasks.step-9.body"}]}, ["$.steps[1].if"]),
    ({"type": "chain", "steps": [{**job("a.b"), "map": True}]}, ["$.steps[0].map"]),
    ({"type": "chain", "id": "", "name": 3, "steps": [job("a.a")]}, ["$.name", "$.id"]),
    ({"type": "chain", "timeout_ms": 0, "steps": [job("a.a")]}, ["$.timeout_ms"]),
    # Fields that would be ignored
    ({"type": "group", "jobs": [job("a.a")], "callbacks": {"on_complete": job("a.b")}}, ["$.callbacks"]),
    ({"type": "chain", "steps": [job("a.a")], "jobs": [job("a.b")]}, ["$.jobs"]),
    ({"type": "group", "jobs": [job("a.a")], "steps": [job("a.b")]}, ["$.steps"]),
    ({"type": "chain", "steps": [{**job("a.a"), "depends_on": ["zz"]}]}, ["$.steps[0].depends_on"]),
    ({"type": "chain", "stepz": [], "steps": [job("a.a")], "options": {"queue": "q"}}, ["$.stepz", "$.options"]),
    (
        {"type": "chain", "steps": [{"type": "group", "jobs": [job("a.a")], "timeout_ms": 9, "retry": {}}]},
        ["$.steps[0].timeout_ms", "$.steps[0].retry"],
    ),
    (
        {"type": "batch", "jobs": [job("a.a")], "callbacks": {"on_complete": {**job("a.b"), "if": "true"}}},
        ["$.callbacks.on_complete.if"],
    ),
    ({"steps": [step("a", "a.a")], "callbacks": {"on_complete": job("a.b")}, "jobs": []}, ["$.callbacks", "$.jobs"]),
    ({"steps": [step("a", "a.a"), step("b", "a.b", callback_type="on_end")]}, ["$.steps[1].options.callback_type"]),
    ({"steps": [step("a", "a.a"), step("on-success", "a.b"), step("on_success", "a.c")]}, ["$.steps[2]"]),
    ({"steps": [step("on-success", "a.c"), step("a", "a.a"), step("b", "a.b", "a")]}, ["$.steps[2].depends_on"]),
    ({"steps": [step("on-success", "a.c"), step("a", "a.a"), step("a", "a.b")]}, ["$.steps[2].id"]),
    ({"retry_of": "wf_1", "steps": []}, ["$.steps"]),
    # Contradictory and unknown options
    (
        {"type": "chain", "steps": [job("a.a", options={"scheduled_at": "+PT1S", "delay_until": "+PT2S"})]},
        ["$.steps[0].options.delay_until"],
    ),
    ({"type": "chain", "steps": [job("a.a", queue="x", options={"queue": "y"})]}, ["$.steps[0].queue"]),
    (
        {"type": "chain", "steps": [job("a.a", options={"retry": {"max_attemps": 1}})]},
        ["$.steps[0].options.retry.max_attemps"],
    ),
    (
        {"type": "chain", "steps": [job("a.a", options={"unique": {"on_conflit": "x"}})]},
        ["$.steps[0].options.unique.on_conflit"],
    ),
    # Ids that cannot be part of a URL path
    (
        {"type": "chain", "id": "a/b", "steps": [job("a.a", id=".."), job("a.b", id="x\ny")]},
        ["$.id", "$.steps[0].id", "$.steps[1].id"],
    ),
    ({"retry_of": "wf_1", "id": "a/b"}, ["$.id"]),
    ({"type": "chain", "steps": [job("a.a", "x" * 1_100_000)]}, ["$.steps[0]"]),
]


async def test_every_error_is_reported_with_its_path_and_nothing_is_written(
    flows: WorkflowClient, conn: "asyncpg.Connection[Any]"
) -> None:
    for body, paths in MISTAKES:
        error = await flows.refused(400, **body)
        assert error["code"] == "invalid_workflow"
        assert sorted(one["path"] for one in error["details"]["validation_errors"]) == sorted(paths), body
        assert all(one["message"] for one in error["details"]["validation_errors"])
    written = "select (select count(*) from windlass.run) + (select count(*) from windlass.workflow)"
    assert await conn.fetchval(written) == 0


async def test_nesting_is_limited_to_ten_levels(flows: WorkflowClient) -> None:
    inner: Json = {"type": "group", "jobs": [job("leaf.work", "deep")]}
    for _ in range(9):
        inner = {"type": "chain", "steps": [inner]}
    made = await flows.create(**inner)
    leaf = await flows.one("leaf.work")
    assert leaf["args"] == ["deep"]
    await flows.ack(leaf, 1)
    assert await flows.state(made["id"]) == "completed"
    error = await flows.refused(400, type="chain", steps=[inner])
    assert "11 levels" in error["message"]


async def test_a_group_inside_a_chain_is_a_step(flows: WorkflowClient) -> None:
    made = await flows.create(
        type="chain",
        id="wf_019539a4-composed-example",
        steps=[
            job("data.extract"),
            {"type": "group", "id": "wf_transform", "name": "transforms", "jobs": [job("t.a"), job("t.b"), job("t.c")]},
            job("data.load"),
        ],
    )
    assert made["id"] == "wf_019539a4-composed-example"
    assert (made["metadata"]["job_count"], made["steps_total"]) == (5, 3)
    inner = await flows.get("wf_transform")
    assert (inner["state"], inner["name"], [one["state"] for one in inner["jobs"]]) == (
        "pending", "transforms", ["waiting"] * 3,
    )  # fmt: skip
    await flows.ack(await flows.one("data.extract"), {"raw": 1})
    parts = await flows.fetch()
    for n, one in enumerate(parts):
        assert (one["parent_results"], one["workflow_id"]) == ([{"raw": 1}], "wf_transform")
        await flows.ack(one, {"part": n})
    load = await flows.one("data.load")
    assert load["context"]["parent_results"] == {
        "0": {"raw": 1}, "1": {"0": {"part": 0}, "1": {"part": 1}, "2": {"part": 2}},
    }  # fmt: skip
    assert (await flows.get("wf_transform"))["state"] == "completed"
    steps = (await flows.get(made["id"]))["steps"]
    assert (steps[1]["type"], steps[1]["workflow_id"], steps[1]["state"]) == ("group", "wf_transform", "completed")
    await flows.ack(load)
    done = await flows.get(made["id"])
    assert (done["state"], done["metadata"]["completed_count"]) == ("completed", 5)
    taken = await flows.refused(409, type="group", id="wf_transform", jobs=[job("a.a")])
    assert taken["code"] == "duplicate"


async def test_nested_workflows_fail_their_parent_and_are_cancelled_with_it(flows: WorkflowClient) -> None:
    chain = {"type": "chain", "steps": [job("c.a"), job("c.b")]}
    outer = await flows.create(type="batch", jobs=[chain, job("b.b")], callbacks={"on_failure": job("batch.alert")})
    first, second = sorted(await flows.fetch(), key=lambda one: str(one["type"]), reverse=True)
    await flows.nack(first)
    await flows.ack(second, 2)
    alert = await flows.one("batch.alert")
    assert alert["parent_results"][0]["error"]["message"] == "boom"
    assert alert["parent_results"][1] == 2
    await flows.ack(alert)
    done = await flows.get(outer["id"])
    assert (done["state"], done["metadata"]["failed_job_ids"]) == ("completed", [first["id"]])
    group = await flows.create(type="group", jobs=[chain, {"type": "group", "jobs": [job("g.a")]}])
    await flows.cancel(group["id"])
    assert [await flows.state(one["workflow_id"]) for one in group["jobs"]] == ["cancelled", "cancelled"]
    assert not await flows.fetch()


async def test_ids_chosen_by_the_client_are_kept(flows: WorkflowClient) -> None:
    own = str(new_ids(1)[0])
    made = await flows.create(type="chain", steps=[job("a.a", id=own), job("a.b", id="job_b")])
    assert made["steps"][0]["job_id"] == own
    first = await flows.one("a.a")
    assert first["id"] == own
    await flows.ack(first)
    second = await flows.one("a.b")
    assert second["id"] == (await flows.get(made["id"]))["steps"][1]["job_id"] == "job_b"
    assert (await flows.job("job_b"))["state"] == "active"
    await flows.ack(second, "done")
    assert await flows.state(made["id"]) == "completed"
    for taken in (own, "job_b"):
        assert (await flows.refused(409, type="group", jobs=[job("a.a", id=taken)]))["code"] == "duplicate"


async def test_a_step_is_skipped_if_its_condition_does_not_hold(flows: WorkflowClient) -> None:
    made = await flows.create(
        type="chain", steps=[job("a.a"), {**job("a.b"), "if": "tasks.step-0.body.total > 100"}, job("a.c")]
    )
    await flows.ack(await flows.one("a.a"), {"total": 5})
    last = await flows.one("a.c")
    assert last["context"]["parent_results"] == {"0": {"total": 5}}
    assert last["parent_results"] == [{"total": 5}]
    await flows.ack(last)
    done = await flows.get(made["id"])
    assert (done["state"], [one["state"] for one in done["steps"]]) == (
        "completed", ["completed", "skipped", "completed"],
    )  # fmt: skip


async def test_a_map_step_runs_once_for_each_item_of_a_list(flows: WorkflowClient) -> None:
    made = await flows.create(
        type="chain", steps=[job("list.files"), {**job("file.scan", "fast"), "map": "files"}, job("sum.up")]
    )
    await flows.ack(await flows.one("list.files"), {"files": ["x", "y", "z"]})
    scans = await flows.fetch()
    assert [one["args"] for one in scans] == [["fast", "x"], ["fast", "y"], ["fast", "z"]]
    for one in scans:
        await flows.ack(one, one["args"][1] * 2)
    last = await flows.one("sum.up")
    assert last["parent_results"][1] == ["xx", "yy", "zz"]
    await flows.ack(last)
    done = await flows.get(made["id"])
    assert (done["state"], done["metadata"]["job_count"], done["metadata"]["completed_count"]) == ("completed", 5, 5)


async def test_a_retry_is_a_new_workflow_that_reuses_successful_results(flows: WorkflowClient) -> None:
    inner = {"type": "group", "jobs": [job("g.a"), job("g.b")]}
    made = await flows.create(type="chain", name="nightly", steps=[job("a.a"), inner, job("a.c")])
    await flows.ack(await flows.one("a.a"), "kept")
    good, bad = await flows.fetch()
    await flows.ack(good, "kept too")
    await flows.nack(bad)
    assert await flows.state(made["id"]) == "failed"
    again = await flows.create(retry_of=made["id"], id="wf_again")
    assert (again["id"], again["retry_of"], again["name"], again["state"]) == (
        "wf_again", made["id"], "nightly", "running",
    )  # fmt: skip
    assert [one["state"] for one in again["steps"]] == ["completed", "pending", "waiting"]
    second = await flows.one("g.b")
    assert second["parent_results"] == ["kept"]
    await flows.ack(second, "mended")
    last = await flows.one("a.c")
    assert last["parent_results"] == ["kept", {"0": "kept too", "1": "mended"}]
    await flows.ack(last)
    done = await flows.get("wf_again")
    assert (done["state"], done["metadata"]["completed_count"]) == ("completed", 4)
    assert await flows.state(made["id"]) == "failed"
    answer = await flows.http.post("/workflows", json={"retry_of": "wf_again"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    assert UUID(made["id"])


@pytest.mark.parametrize("id_", ["wf_ü🙂", "a b", "a?b", "a#b", "50%", "%2F", "a\\\\b", "..."])
async def test_any_id_without_a_slash_can_be_requested(flows: WorkflowClient, id_: str) -> None:
    made = await flows.create(type="chain", id=id_, steps=[job("a.a", id=f"job {id_}")])
    assert made["id"] == id_
    located = f"/workflows/{quote(id_, safe='')}"
    assert (await flows.http.get(located)).json()["workflow"]["id"] == id_
    assert (await flows.http.get(f"/jobs/{quote(f'job {id_}', safe='')}")).json()["job"]["workflow_id"] == id_
    taken = await flows.refused(409, type="chain", id=id_, steps=[job("a.a")])
    assert taken["hint"] == "Use the workflow that exists, or other ids and unique keys."
    assert (await flows.http.delete(located)).json()["workflow"]["state"] == "cancelled"
    over = (await flows.http.delete(located)).json()["error"]
    assert over["hint"] == "Read the workflow's state: it does not allow this."


async def test_the_error_for_a_duplicate_job_id_contains_the_id_of_the_client(flows: WorkflowClient) -> None:
    await flows.create(type="group", jobs=[job("a.a", id="job_mine")])
    error = await flows.refused(409, type="group", jobs=[job("a.b"), job("a.a", id="job_mine")])
    assert error["message"] == "a job job_mine already exists"
    twice = await flows.refused(409, type="group", jobs=[job("a.b", id="job_two"), job("a.a", id="job_two")])
    assert twice["message"] == "a job job_two already exists"


@pytest.mark.parametrize(
    "path", ["/workflows/%00", "/jobs/%00", "/dead-letter/%00", "/queues/a%00b/stats", "/events?types=%00"]
)
async def test_a_url_with_a_nul_is_rejected(flows: WorkflowClient, path: str) -> None:
    answer = await flows.http.get(path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")


async def test_a_405_lists_every_method_of_the_path(flows: WorkflowClient) -> None:
    for path, methods in {
        "/jobs/x": "DELETE, GET, HEAD",
        "/workflows/x": "DELETE, GET, HEAD",
        "/cron": "GET, HEAD, POST",
    }.items():
        answer = await flows.http.put(path)
        assert (answer.status_code, answer.headers["allow"]) == (405, methods)


async def test_a_workflow_is_rejected_if_its_queue_is_full(flows: WorkflowClient) -> None:
    config = {"backpressure": {"max_depth": 2, "strategy": "reject"}}
    assert (await flows.http.put("/admin/queues/narrow/config", json=config)).status_code == 200
    narrow = {"options": {"queue": "narrow"}}
    await flows.create(
        type="chain", steps=[job("a.a", **narrow) for _ in range(5)]
    )  # only one of them is in the queue at a time
    answer = await flows.http.post(
        "/workflows", json={"type": "group", "id": "wf_g", "jobs": [job("a.b", **narrow)] * 2}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "QUEUE_FULL")
    assert int(answer.headers["retry-after"]) > 0
    assert (await flows.http.get("/workflows/wf_g")).status_code == 404
    await flows.create(type="group", id="wf_g", jobs=[job("a.b", **narrow)])
