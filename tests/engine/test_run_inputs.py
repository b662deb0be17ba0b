"""The input of a run must match the `input` schema of its workflow, however the run is started; the error names the
field."""

from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import Fails, ManualWorker, letters, reasons, tick
from windlass.engine import messages, quarantine, workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import requests, search, start
from windlass.engine.runs.start import RunSpec
from windlass.engine.schedules import workflow as schedules
from windlass.errors import Invalid, InvalidWorkflow

Connection = Any
ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "items": {"type": "array", "items": {"type": "object", "required": ["sku"]}},
    },
    "required": ["id"],
}
GOOD, BAD = {"id": 1, "items": [{"sku": "a"}]}, {"id": 1, "items": [{}]}
JOB = {"job": "test.a.v1"}


async def deploy(db: Tenant, name: str = "order", *, input: Any = ORDER, tasks: Any = None, **more: Any) -> str | None:  # noqa: A002
    document = {"name": name, "input": input, "tasks": tasks or {"a": JOB}, **more}
    return (await workflows.publish_many(db, [document]))[0].token


async def begin(db: Tenant, *inputs: Any, name: str = "order", **spec: Any) -> list[UUID]:
    return await start.start(db, name, [RunSpec(input=value, **spec) for value in inputs])


async def inputs_of(db: Tenant, workflow: str) -> list[Any]:
    rows = await search.list_(db, workflow=workflow)
    return [(await runs.get(db, row.id)).input for row in reversed(rows.runs)]  # oldest first


async def test_a_run_starts_only_with_a_valid_input(db: Tenant) -> None:
    await deploy(db)
    for _ in range(2):  # the second time the version is cached
        with pytest.raises(Invalid) as refused:
            await begin(db, BAD)
        assert refused.value.errors == [("input.items.0.sku", '"sku" is a required property')]
        await begin(db, GOOD)
    assert await inputs_of(db, "order") == [GOOD, GOOD]


async def test_every_error_is_reported_with_the_index_of_the_run(db: Tenant) -> None:
    await deploy(db)
    with pytest.raises(Invalid) as refused:
        await begin(db, {"items": 5})
    assert [field for field, _ in refused.value.errors] == ["input.id", "input.items"]
    with pytest.raises(Invalid) as refused:
        await begin(db, GOOD, BAD)
    assert refused.value.field == "runs.1.input.items.0.sku"
    with pytest.raises(Invalid) as refused:
        await begin(db, *[GOOD] * 250, BAD, GOOD)
    assert refused.value.field == "runs.250.input.items.0.sku"
    assert await inputs_of(db, "order") == []


async def test_an_input_is_checked_against_the_live_version(db: Tenant) -> None:
    await deploy(db)
    await begin(db, GOOD)
    await deploy(db, input={"type": "object", "required": ["customer"]})
    with pytest.raises(Invalid, match=r"input\.customer"):
        await begin(db, GOOD)
    await begin(db, {"customer": 7})
    await deploy(db, input=None)
    await begin(db, "anything")


async def test_a_known_key_returns_its_run_even_if_its_input_is_no_longer_valid(db: Tenant) -> None:
    await deploy(db)
    [first] = await begin(db, GOOD, idempotency_key="k")
    await deploy(db, input={"type": "object", "required": ["customer"]})
    assert await begin(db, GOOD, idempotency_key="k") == [first]


async def test_a_refused_start_in_a_transaction_of_the_caller_does_not_abort_the_transaction(db: Tenant) -> None:
    await deploy(db)
    async with db.begin() as conn:
        with pytest.raises(Invalid, match=r"input\.items\.0\.sku"):
            await start.start(db, "order", [RunSpec(input=BAD)], connection=conn)
        await start.start(db, "order", [RunSpec(input=GOOD)], connection=conn)
    assert await inputs_of(db, "order") == [GOOD]


@pytest.mark.parametrize(
    ("schema", "field", "message"),
    [
        ({"type": "objekt"}, "input.type", '"objekt" is not valid'),
        ({"$ref": "https://example.com/order.json"}, "input", "it must point into the schema itself"),
        ({"$ref": "#/$defs/Order"}, "input", "Order"),
        ({"properties": {"id": {"minimum": "1"}}}, "input.properties.id.minimum", '"1" is not of type "number"'),
    ],
)
async def test_publishing_an_invalid_input_schema_is_refused(db: Tenant, schema: Any, field: str, message: str) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        await deploy(db, input=schema)
    [(path, why)] = refused.value.errors
    assert path == field
    assert message in why
    with pytest.raises(InvalidWorkflow):
        await workflows.preview_many(db, [{"name": "order", "input": schema, "tasks": {"a": JOB}}])


async def test_the_input_of_a_cron_is_checked_when_it_is_published(db: Tenant) -> None:
    with pytest.raises(InvalidWorkflow) as refused:
        await deploy(db, trigger={"cron": "@daily", "input": BAD})
    assert [field for field, _ in refused.value.errors] == ["trigger.input.items.0.sku"]
    await deploy(db, trigger={"cron": "@daily", "input": GOOD})
    await schedules.run_now(db, "order")
    assert await inputs_of(db, "order") == [GOOD]


async def test_a_webhook_with_an_invalid_input_is_refused(db: Tenant) -> None:
    token = await deploy(db, trigger="webhook")
    assert token is not None
    json = {"content-type": "application/json"}
    with pytest.raises(Invalid, match=r"input\.id"):
        await schedules.receive(db, token, b'{"items": []}', json)
    await schedules.receive(db, token, b'{"id": 2}', json)
    assert await inputs_of(db, "order") == [{"id": 2}]


async def test_an_event_with_an_invalid_payload_is_set_aside_alone_and_can_be_retried(db: Tenant) -> None:
    await deploy(db, trigger={"event": "placed"})
    for payload in ({"id": 1}, {"number": 2}, {"id": 3}):
        await messages.publish(db, "placed", payload=payload)
    await tick(db)
    assert {value["id"] for value in await inputs_of(db, "order")} == {1, 3}
    [entry] = await quarantine.list_(db)
    assert (entry.kind, entry.reason) == ("start", 'input.id: "id" is a required property')
    await deploy(db, trigger={"event": "placed"}, input={"type": "object"})
    await requests.retry(db, UUID(entry.key))
    assert {"number": 2} in await inputs_of(db, "order")


async def test_a_run_requested_by_plain_sql_with_an_invalid_input_is_set_aside(db: Tenant, conn: Connection) -> None:
    await deploy(db)
    await conn.execute("""select windlass.start('order', '{"id": "one"}'), windlass.start('order', '{"id": 1}')""")
    await tick(db)
    assert await inputs_of(db, "order") == [{"id": 1}]
    [entry] = await quarantine.list_(db)
    assert entry.reason == 'input.id: "one" is not of type "integer"'


async def test_a_child_run_is_not_started_with_an_invalid_input(db: Tenant, worker: ManualWorker) -> None:
    await deploy(db, "kid")
    tasks = {"sub": {"workflow": "kid", "input": {"id": "{{input.id}}"}}}
    await deploy(db, "parent", input=None, tasks=tasks)
    [good, bad] = await begin(db, {"id": 1}, {"id": "one"}, name="parent")
    await worker.play()
    assert (await letters(db, good), await letters(db, bad)) == ("s", "f")
    why = """the input does not fit workflow 'kid': input.id: "one" is not of type "integer\""""
    assert await reasons(db, bad, "sub") == [why]
    assert await inputs_of(db, "kid") == [{"id": 1}]


@pytest.mark.parametrize("input_", [{}, {"copy": "{{item}}"}], ids=["shared input", "an input for each item"])
async def test_only_instances_with_an_invalid_item_fail(db: Tenant, worker: ManualWorker, input_: Any) -> None:
    await deploy(db, "kid", input={"properties": {"item": {"type": "integer"}}, "required": ["item"]})
    tasks = {"sub": {"workflow": "kid", "foreach": "input.numbers", "input": input_, "allow_failure": True}}
    await deploy(db, "parent", input=None, tasks=tasks)
    [run] = await begin(db, {"numbers": [1, "two", 3]}, name="parent")
    await worker.play()
    assert sorted(value["item"] for value in await inputs_of(db, "kid")) == [1, 3]
    why = """the input does not fit workflow 'kid': input.item: "two" is not of type "integer\""""
    assert await reasons(db, run, "sub") == [why, "1 of 3 instances failed"]


async def test_a_rerun_with_another_input_or_on_the_live_version_is_checked(db: Tenant, worker: ManualWorker) -> None:
    await deploy(db)
    [run] = await begin(db, GOOD)
    await worker.play({"a": Fails(for_good=True)})
    with pytest.raises(Invalid, match=r"input\.items\.0\.sku"):
        await runs.rerun(db, run, "a", input_=BAD, with_input=True)
    await deploy(db, input={"type": "object", "required": ["customer"]})
    with pytest.raises(Invalid, match=r"input\.customer"):
        await runs.retry(db, run, live=True)
    assert (await runs.get(db, run)).input == GOOD
    await runs.rerun(db, run, "a", input_={"customer": 7}, with_input=True, live=True)
    assert (await runs.get(db, run)).input == {"customer": 7}
