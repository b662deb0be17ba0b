"""Templates of runs are evaluated once, when a step begins, and keep the types of their values."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.fake_services import answer, call, deploy, play, played, run_of, token_of
from tests.engine.harness import Fails, begin, state
from tests.engine.template_harness import TRIGGER, failed, http, job
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.testing import Clock

Connection = Any
TYPED = {key: f"{{{{trigger.body.{key}}}}}" for key in TRIGGER}


# Fields with templates


async def test_templates_in_the_input_of_a_job_keep_the_types_of_their_values(db: Tenant) -> None:
    _, worker = await played(db, {"a": job(input={"in": TYPED, "text": "n={{input.id}} {{input.o}}"})}, input=TRIGGER)
    assert worker.payloads["a"] == [{"in": TRIGGER, "text": 'n=7 {"k":[null]}'}]


async def test_an_input_may_be_a_single_template_of_any_type(db: Tenant) -> None:
    tasks = {key: job(input=template) for key, template in TYPED.items()}
    _, worker = await played(db, tasks, input=TRIGGER)
    assert {key: worker.payloads[key] for key in TRIGGER} == {key: [value] for key, value in TRIGGER.items()}


async def test_the_url_headers_query_and_body_of_a_request_can_contain_templates(db: Tenant) -> None:
    step = http(
        url="https://shop.example/orders/{{trigger.body.id}}?q={{input.q}}",
        method="PUT",
        headers={"Authorization": "Bearer {{trigger.body.token}}", "X-N": "{{input.id}}"},
        query={"n": "{{input.id}}", "tags": ["{{input.q}}", "x"]},
        body={"id": "{{input.id}}", "run": "{{run.id}}"},
    )
    run, worker = await played(db, {"a": step}, input={"id": 7, "token": "sk_1", "q": "a b/&"}, a=answer())
    assert worker.payloads["a"] == [
        {
            "url": "https://shop.example/orders/7?q=a%20b%2F%26",
            "method": "PUT",
            "headers": {"Authorization": "Bearer sk_1", "X-N": "7"},
            "query": {"n": 7, "tags": ["a b/&", "x"]},
            "body": {"id": 7, "run": str(run)},
        }
    ]


async def test_a_command_receives_values_in_environment_variables_and_its_input_as_json(db: Tenant) -> None:
    step = {"run": "convert {{input.file}}", "input": {"n": "{{input.n}}"}}
    _, worker = await played(db, {"a": step}, input={"file": "a b; rm -rf /", "n": [1]}, a=None)
    [payload] = worker.payloads["a"]
    assert (payload["run"], payload["input"]) == ('convert "${WINDLASS_VALUE_1?}"', {"n": [1]})
    assert payload["values"] == {"WINDLASS_VALUE_1": "a b; rm -rf /"}


async def test_a_child_run_starts_with_the_evaluated_input(db: Tenant, conn: Connection) -> None:
    await deploy(db, "below", b=job(input="{{input}}"))
    run, worker = await played(db, {"a": {"workflow": "below", "input": {"n": "{{input.id}}"}}}, input={"id": 7})
    assert worker.payloads["b"] == [{"n": 7}]
    assert await state(db, run) == "completed"


async def test_keys_of_an_input_are_not_evaluated_as_templates(db: Tenant) -> None:
    _, worker = await played(db, {"a": job(input={"{{input.id}}": "{{ '{{' }}"})}, input={"id": 1})
    assert worker.payloads["a"] == [{"{{input.id}}": "{{"}]


async def test_values_are_not_evaluated_again_as_templates(db: Tenant) -> None:
    given = {"evil": "{{trigger.body.secret}}", "secret": "s"}
    _, worker = await played(db, {"a": job(input=["{{input.evil}}", "x{{input.evil}}"])}, input=given)
    assert worker.payloads["a"] == [["{{trigger.body.secret}}", "x{{trigger.body.secret}}"]]


# Sources of values


async def test_templates_can_read_the_output_status_and_headers_of_earlier_steps(db: Tenant) -> None:
    asked = {
        "job": "{{tasks.a.body.n}}",
        "same": "{{tasks.a.output.n}}",
        "status": "{{tasks.b.status}}",
        "code": "{{tasks.b.status_code}}",
        "body": "{{tasks.b.body.items[1].id}}",
        "type": "{{tasks.b.headers.Content-Type}}",
        "attempt": "{{tasks.b.attempt}}",
    }
    tasks = {"a": job(), "b": http("a"), "c": job("a", "b", input=asked)}
    _, worker = await played(
        db,
        tasks,
        a={"n": [1]},
        b=answer(201, {"items": [1, {"id": "x"}]}, headers={"content-type": "application/json"}),
    )
    assert worker.payloads["c"] == [
        {
            "job": [1],
            "same": [1],
            "status": "success",
            "code": 201,
            "body": "x",
            "type": "application/json",
            "attempt": 1,
        }
    ]


async def test_templates_can_read_indirect_upstream_steps(db: Tenant) -> None:
    tasks = {"a": job(), "b": job("a"), "c": job("b"), "d": job("c", input="{{tasks.a.body.n}}")}
    _, worker = await played(db, tasks, a={"n": 5})
    assert worker.payloads["d"] == [5]


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"n": 1}', {"n": 1}), ("[1]", [1]), ("plain", "plain"), ("", ""), ("{broken", "{broken"), ("null", None)],
)
async def test_a_response_body_is_parsed_as_json_or_else_kept_as_a_string(db: Tenant, text: str, value: Any) -> None:
    _, worker = await played(db, {"a": http(), "b": job("a", input=["{{tasks.a.body}}"])}, a=answer(200, text))
    assert worker.payloads["b"] == [[value]]


async def test_the_request_that_started_the_run_can_be_read_without_its_secrets(db: Tenant) -> None:
    headers = {"X-From": "shop", "Authorization": "Bearer s", "Cookie": "s"}
    given = {"from": "{{trigger.headers.x-from}}", "any": "{{trigger.headers['X-FROM']}}", "all": "{{trigger.headers}}"}
    await run_of(db, headers=headers, a=job(input=given))
    worker = await play(db)
    assert worker.payloads["a"] == [{"from": "shop", "any": "shop", "all": {"x-from": "shop"}}]


async def test_templates_can_read_the_id_and_the_attempt_of_the_run(db: Tenant) -> None:
    tasks = {"a": job(input={"id": "{{run.id}}", "n": "{{run.attempt}}", "key": "{{run.id}}/{{run.attempt}}"})}
    run, worker = await played(db, tasks, a=Fails(for_good=True))
    await runs.retry(db, run)
    await worker.play()
    assert worker.payloads["a"] == [{"id": str(run), "n": n, "key": f"{run}/{n}"} for n in (1, 2)]


async def test_callback_urls_of_all_waits_are_known_at_the_start_of_the_run(db: Tenant) -> None:
    wait = {"needs": ["a"], "wait_for_webhook": True}
    run = await run_of(db, a=job(input=["{{wait.x.url}}", "see {{wait.y-z.url}}"]), x=wait, y__z=wait)
    worker = await play(db)
    x, y = [f"http://127.0.0.1:8080/wh/{await token_of(db, run, step)}" for step in ("x", "y-z")]
    assert worker.payloads["a"] == [[x, f"see {y}"]]


async def test_templates_can_read_a_callback_and_a_child_run(db: Tenant) -> None:
    await deploy(db, "below", z=job())
    tasks: dict[str, Any] = {
        "paid": {"wait_for_webhook": True},
        "sub": {"workflow": "below"},
        "c": job("paid", "sub", input=["{{tasks.paid.body.n}}", "{{tasks.paid.status}}", "{{tasks.sub.body.m}}"]),
    }
    run = await run_of(db, **tasks)
    await call(db, run, b'{"n": 1}')
    worker = await play(db, z={"m": 2})
    assert worker.payloads["c"] == [[1, "received", 2]]


async def test_a_sleep_has_a_status(db: Tenant, clock: Clock) -> None:
    await run_of(db, a={"sleep": "1h"}, b=job("a", input="{{tasks.a.status}}"))
    clock.move(timedelta(hours=1))
    worker = await play(db)
    assert worker.payloads["b"] == ["success"]


# Fan-out


async def test_templates_of_each_instance_can_read_its_item_and_index(db: Tenant) -> None:
    each = job(foreach="input.list", input={"id": "{{item.id}}", "n": "{{index}}", "run": "{{run.id}}"})
    run = await run_of(db, input={"list": [{"id": "x"}, {"id": [2]}, {"id": None}]}, a=each)
    worker = await play(db)
    got = sorted(worker.payloads["a"], key=lambda payload: int(payload["n"]))
    assert [(p["id"], p["n"], p["run"]) for p in got] == [("x", 0, str(run)), ([2], 1, str(run)), (None, 2, str(run))]


async def test_templates_of_requests_and_commands_can_read_the_item_of_their_instance(db: Tenant) -> None:
    tasks = {
        "a": http(foreach="input.list", url="https://x.example/{{item}}", body={"n": "{{index}}"}),
        "b": {"run": "do {{item}} {{index}}", "foreach": "input.list"},
        "c": job(parallel=2, input="{{index}}"),
    }
    _, worker = await played(db, tasks, input={"list": ["p", "q"]}, a=answer(), b=None)
    assert sorted(payload["url"][-1] + str(payload["body"]["n"]) for payload in worker.payloads["a"]) == ["p0", "q1"]
    assert sorted([*payload["values"].values()] for payload in worker.payloads["b"]) == [["p", "0"], ["q", "1"]]
    assert sorted(payload["input"]["item"] for payload in worker.payloads["b"]) == ["p", "q"]
    assert sorted(worker.payloads["c"]) == [0, 1]


async def test_templates_of_child_runs_can_read_the_item_of_their_instance(db: Tenant) -> None:
    await deploy(db, "below", z=job(input="{{input.got}}"))
    sub = {"workflow": "below", "foreach": "input.list", "input": {"got": "{{item}}-{{index}}"}}
    run, worker = await played(db, {"a": sub}, input={"list": ["p", "q"]})
    assert sorted(worker.payloads["z"]) == ["p-0", "q-1"]
    assert await state(db, run) == "completed"


async def test_templates_of_instances_that_start_later_are_evaluated_too(db: Tenant) -> None:
    each = job(foreach="input.list", concurrency=2, input={"n": "{{index}}", "sq": "{{item}}"})
    run, worker = await played(db, {"a": each}, input={"list": [n * n for n in range(9)]})
    got = sorted((payload["n"], payload["sq"]) for payload in worker.payloads["a"])
    assert got == [(n, n * n) for n in range(9)]
    assert await state(db, run) == "completed"


@pytest.mark.parametrize("count", [500, pytest.param(5_000, marks=pytest.mark.soak)])
async def test_templates_of_many_instances_are_evaluated_individually(db: Tenant, count: int) -> None:
    each = job(foreach="input.list", input={"n": "{{index}}", "text": "item {{item}}"})
    run, worker = await played(db, {"a": each}, input={"list": list(range(count))}, a=None)
    assert sorted(payload["n"] for payload in worker.payloads["a"]) == list(range(count))
    assert all(payload["text"] == f"item {payload['n']}" for payload in worker.payloads["a"])
    assert await state(db, run) == "completed"


@pytest.mark.parametrize("kind", ["job", "http", "run", "child"])
async def test_the_output_of_a_fan_out_is_a_list_by_index_and_empty_without_instances(db: Tenant, kind: str) -> None:
    await deploy(db, "below", z=job(input="{{input.n}}"))
    step: Mapping[str, Any] = {
        "job": job(input={"n": "{{index}}"}),
        "http": http(body={"n": "{{index}}"}),
        "run": {"run": "x {{index}}"},
        "child": {"workflow": "below", "input": {"n": "{{index}}"}},
    }[kind]

    def give(claimed: Any) -> Any:
        return answer(200, {"n": claimed.item}) if kind == "http" else {"n": claimed.item}

    tasks: dict[str, Any] = {"a": {**step, "parallel": "input.count"}, "b": job("a", input={"all": "{{tasks.a.body}}"})}
    await deploy(db, **tasks)
    for count in (3, 1, 0):
        await begin(db, input={"count": count})
        worker = await play(db, a=give, z=lambda claimed: {"n": json.loads(claimed.payload)})
        [got] = [payload["all"] for payload in worker.payloads["b"]]
        assert got == [{"n": n} for n in range(count)]


async def test_a_template_can_read_a_single_instance_of_a_fan_out(db: Tenant) -> None:
    tasks = {
        "a": http(parallel=3, body="{{index}}"),
        "b": job("a", input="{{tasks.a.body[2].n}}"),
        "c": job("a", input="{{tasks.a.body[3]}}"),
    }
    run, worker = await played(db, tasks, a=lambda claimed: answer(200, {"n": claimed.item}))
    assert worker.payloads["b"] == [2]
    assert await failed(db, run, "c") == "Failed to resolve {{tasks.a.body[3]}}"


async def test_a_fan_out_over_requests_iterates_over_their_bodies(db: Tenant) -> None:
    tasks = {"a": http(parallel=2), "b": job("a", foreach="a", input={"got": "{{item.n}}"})}
    _, worker = await played(db, tasks, a=lambda claimed: answer(200, {"n": claimed.item}))
    assert sorted(payload["got"] for payload in worker.payloads["b"]) == [0, 1]


async def test_a_fan_out_can_iterate_over_a_response_body(db: Tenant) -> None:
    tasks = {"a": http(), "b": job("a", foreach="a.files", input={"f": "{{item}}"})}
    _, worker = await played(db, tasks, a=answer(200, {"files": ["x", "y"]}))
    assert sorted(payload["f"] for payload in worker.payloads["b"]) == ["x", "y"]
