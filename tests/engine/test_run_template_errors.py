"""Templates without a value: the step fails with the reason; retries and reruns evaluate them again."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.engine.fake_services import ServiceWorker, answer, deploy, played, run_of
from tests.engine.harness import letters, reasons, state, tick
from tests.engine.template_harness import TRIGGER, failed, http, job
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec

# Missing values


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{{trigger.body.missing}}", "Failed to resolve {{trigger.body.missing}}"),
        ("x {{trigger.body.list[2]}}", "Failed to resolve {{trigger.body.list[2]}}"),
        ("{{trigger.body.id.deeper}}", "Failed to resolve {{trigger.body.id.deeper}}"),
        ("{{trigger.headers.x}}", "Failed to resolve {{trigger.headers.x}}"),
        ("{{tasks.a.body.order_id}}", "Failed to resolve {{tasks.a.body.order_id}}"),
        ("{{tasks.a.headers.location}}", "Failed to resolve {{tasks.a.headers.location}}"),
        ("{{tasks.a.error}}", "Failed to resolve {{tasks.a.error}}"),
    ],
)
async def test_a_missing_value_fails_the_step_with_the_message_of_the_seed(
    db: Tenant, template: str, told: str
) -> None:
    tasks = {"a": http(), "b": http("a", body={"x": template}), "c": job("b")}
    run, worker = await played(db, tasks, input=TRIGGER, a=answer(200, {"orderId": 1}))
    assert await failed(db, run, "b") == told
    assert (await letters(db, run), await state(db, run), worker.seen) == ("sfk", "failed", ["a"])


@pytest.mark.parametrize("kind", ["job", "http", "run", "child"])
async def test_a_template_error_is_a_status_that_can_be_handled_for_every_kind_of_step(db: Tenant, kind: str) -> None:
    await deploy(db, "below", z=job())
    step: Mapping[str, Any] = {
        "job": job("a", input="{{tasks.a.body.no}}"),
        "http": http("a", url="https://x.example/{{tasks.a.body.no}}"),
        "run": {"run": "do {{tasks.a.body.no}}", "needs": ["a"]},
        "child": {"workflow": "below", "needs": ["a"], "input": {"n": "{{tasks.a.body.no}}"}},
    }[kind]
    tasks = {"a": job(), "b": step, "c": job("b", **{"if": "tasks.b.status == 'template_error'"})}
    run, worker = await played(db, tasks)
    assert await failed(db, run, "b") == "Failed to resolve {{tasks.a.body.no}}"
    assert (await letters(db, run), await state(db, run)) == ("sfs", "completed")
    assert worker.seen == ["a", "c"]


async def test_a_template_error_in_a_root_step_fails_its_run_immediately(db: Tenant) -> None:
    run = await run_of(db, a=http(url="https://x.example/{{input.no}}"), b=job("a"))
    assert (await letters(db, run), await state(db, run)) == ("fk", "failed")


async def test_a_failure_edge_and_the_failure_function_handle_a_template_error(db: Tenant) -> None:
    tasks = {
        "a": job(input="{{input.no}}"),
        "b": job() | {"needs": {"a": "failure"}},
        "c": job("a"),
        "d": job("c", **{"if": "failure()"}),
    }
    run, _ = await played(db, tasks)
    assert (await letters(db, run), await state(db, run)) == ("fsks", "completed")


@pytest.mark.parametrize("path", ["body.amount", "body", "body.items[0].id", "output"])
async def test_a_truncated_response_fails_the_step_with_the_message_of_the_seed(db: Tenant, path: str) -> None:
    tasks = {"charge": http(), "b": http("charge", body={"amount": f"{{{{tasks.charge.{path}}}}}"})}
    run, _ = await played(db, tasks, charge=answer(200, '{"amount": 5, "more": "', truncated=True))
    told = f"Cannot read '{path}' because the response from 'charge' exceeded the 256KB limit and was truncated"
    assert await failed(db, run, "b") == told


async def test_the_status_and_headers_of_a_truncated_response_can_be_read(db: Tenant) -> None:
    tasks = {"a": http(), "b": job("a", input=["{{tasks.a.status_code}}", "{{tasks.a.headers.etag}}"])}
    _, worker = await played(db, tasks, a=answer(200, "{", truncated=True, headers={"etag": "1"}))
    assert worker.payloads["b"] == [[200, "1"]]


async def test_a_skipped_step_has_no_value_for_a_template(db: Tenant) -> None:
    tasks = {
        "a": job(**{"if": "false"}),
        "b": job("a", input="{{tasks.a.body.n}}", **{"if": "tasks.a.status == 'skipped'"}),
        "c": job("a", input="{{tasks.a.body.n}}"),
    }
    run, _ = await played(db, tasks)
    assert await letters(db, run) == "kfk"  # with a true `if` it fails to start; without one it is skipped
    assert await failed(db, run, "b") == "Failed to resolve {{tasks.a.body.n}}"


async def test_templates_of_a_skipped_step_are_not_evaluated(db: Tenant) -> None:
    tasks = {"a": job(), "b": job("a", input="{{input.no}}", **{"if": "false"}), "c": job("b", input="{{input.no}}")}
    run, _ = await played(db, tasks)
    assert (await letters(db, run), await state(db, run)) == ("skk", "completed")


async def test_instances_without_a_value_fail_alone_and_the_others_run(db: Tenant) -> None:
    each = job(foreach="input.list", input={"id": "{{item.id}}"})
    last = job("a", input="{{tasks.a.body}}", **{"if": "tasks.a.status == 'failed'"})
    given = {"list": [{"id": 0}, {}, {"id": 2}]}
    run, worker = await played(db, {"a": each, "b": last}, input=given, a=lambda claimed: {"n": claimed.item})
    assert await letters(db, run) == "fs"
    assert sorted(payload["id"] for payload in worker.payloads["a"]) == [0, 2]
    assert worker.payloads["b"] == [[{"n": 0}, None, {"n": 2}]]  # by index


async def test_a_step_none_of_whose_instances_has_a_value_is_a_template_error(db: Tenant) -> None:
    each = job(foreach="input.list", concurrency=1, input="{{item.id}}")
    run, worker = await played(
        db, {"a": each, "b": job("a", **{"if": "tasks.a.status == 'template_error'"})}, input={"list": [1, 2, 3]}
    )
    assert (await letters(db, run), worker.seen) == ("fs", ["b"])
    assert await reasons(db, run, "a") == ["Failed to resolve {{item.id}}", "3 of 3 instances failed"]


async def test_the_error_for_a_forbidden_value_in_a_header_does_not_contain_the_value(db: Tenant) -> None:
    tasks = {"a": http(headers={"X-Key": "{{input.key}}"})}
    run = await run_of(db, input={"key": "s3cret\r\nEvil: 1"}, **tasks)
    told = await failed(db, run, "a")
    assert told.startswith("{{input.key}} cannot be used here")
    assert "s3cret" not in told


async def test_an_evaluated_input_is_limited_to_one_megabyte(db: Tenant) -> None:
    tasks = {"a": job(input=["{{input.t}}", "{{input.t}}"]), "b": job(input="{{input.t}}")}
    run = await run_of(db, input={"t": "x" * 600_000}, **tasks)
    assert (await failed(db, run, "a")).startswith("the input of a is 12000")
    assert (await letters(db, run))[1] == "a"


# Retries and reruns


async def test_a_rerun_after_a_template_error_uses_the_new_values(db: Tenant) -> None:
    tasks = {"a": job(), "b": job("a", input="{{tasks.a.body.n}}")}
    run, worker = await played(db, tasks, a={})
    assert await letters(db, run) == "sf"
    await runs.rerun(db, run, "a")
    await worker.play({"a": {"n": 1}})
    assert (await state(db, run), worker.payloads["b"]) == ("completed", [1])


async def test_templates_of_a_rerun_with_another_input_use_that_input(db: Tenant) -> None:
    run, worker = await played(db, {"a": job(input="{{input.n}}"), "b": job("a", input="{{input.n}}")}, input={"n": 1})
    await runs.rerun(db, run, "a", input_={"n": [2]}, with_input=True)
    await worker.play()
    assert (worker.payloads["a"], worker.payloads["b"]) == ([1, [2]], [1, [2]])


async def test_a_retry_of_a_fan_out_creates_instances_that_had_no_value_before(db: Tenant) -> None:
    tasks = {"a": job(), "b": job("a", foreach="a.list", input="{{item.id}}")}
    run, worker = await played(db, tasks, a={"list": [{"id": 1}, {}]})
    assert await letters(db, run) == "sf"
    await runs.retry(db, run)
    await worker.play()
    assert await letters(db, run) == "sf"  # the same list: still no value
    await runs.rerun(db, run, "a")
    await worker.play({"a": {"list": [{"id": 1}, {"id": 2}]}})
    assert await state(db, run) == "completed"
    assert worker.payloads["b"] == [{"item": {"id": 1}}, {"item": {"id": 1}}, {"item": {"id": 2}}]


async def test_a_template_error_in_a_rerun_hides_the_earlier_output_of_the_step(db: Tenant) -> None:
    tasks = {
        "a": job(),
        "b": http("a", body="{{tasks.a.body.n}}"),
        "c": job("b", input="{{tasks.b.status}}", **{"if": "tasks.b.status_code != 200"}),
    }
    run, worker = await played(db, tasks, a={"n": 1}, b=answer(200, {"old": True}))
    assert await letters(db, run) == "ssk"
    await runs.rerun(db, run, "a")
    await worker.play({"a": {}})
    assert (await letters(db, run), worker.payloads["c"]) == ("sfs", ["template_error"])


async def test_a_template_error_in_a_rerun_is_still_visible_to_a_step_that_starts_much_later(db: Tenant) -> None:
    """The output of the earlier round still exists when the `if` is finally evaluated."""
    tasks = {
        "a": job(),
        "b": http("a", body="{{tasks.a.body.n}}"),
        "long": job("a"),
        "c": job("b", "long", input="{{tasks.b.status}}", **{"if": "tasks.b.status_code != 200"}),
    }
    run, worker = await played(db, tasks, a={"n": 1}, b=answer(200, {"old": True}))
    await runs.rerun(db, run, "a")
    await worker.end(await worker.take_one("a"), {})
    assert await letters(db, run) == "sfa."
    await worker.play()
    assert (await letters(db, run), worker.payloads["c"]) == ("sfss", ["template_error"])


async def test_templates_of_many_runs_are_evaluated_in_one_batch(db: Tenant) -> None:
    await deploy(db, a=job(input="{{input.n}}"), b=job("a", input=["{{tasks.a.body.got}}", "{{input.n}}"]))
    await start.start(db, "w", [RunSpec(input={"n": n}) for n in range(300)])
    worker = await ServiceWorker.registered(db)
    assert isinstance(worker, ServiceWorker)
    await worker.play({"a": lambda claimed: {"got": claimed.payload}})
    assert sorted(worker.payloads["b"], key=lambda pair: int(pair[1])) == [[str(n), n] for n in range(300)]
    assert await tick(db) == 0
