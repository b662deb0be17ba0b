"""Payloads are checked when their jobs are submitted, with the schemas of the handlers that live workers serve."""

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from windlass import Context, Windlass
from windlass.core.jobs.payloads import MORE, POSITIONAL
from windlass.core.jobs.spec import JobSpec
from windlass.effects import schema_validator
from windlass.effects.handlers import Handler
from windlass.effects.schema_validator import SchemaValidator
from windlass.engine.database import Database, Tenant
from windlass.engine.doctor import Level, examine
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import types
from windlass.engine.jobs.types import HandlerSchema
from windlass.engine.known_types import TOPIC, KnownTypes
from windlass.engine.workers import turn
from windlass.errors import Invalid
from windlass.settings import Settings
from windlass.testing import Clock, run_until_idle

Conn: TypeAlias = "asyncpg.Connection[Any]"


@dataclass
class Item:
    sku: str
    count: int = 1


def pack(ctx: Context, items: list[Item], by: datetime | None = None) -> int:
    return sum(item.count for item in items)


def pack_later(ctx: Context, items: list[Item], by: datetime | None = None, gift: bool = False) -> None: ...


def whole(payload: Item) -> str:
    return payload.sku


def summed(first: int, *rest: int) -> int:
    return first + sum(rest)


def untyped(ctx, items) -> None: ...  # type: ignore[no-untyped-def]


async def serves(db: Database, worker: str, handlers: dict[str, Callable[..., Any]]) -> None:
    """Register a worker with these handlers."""
    await turn.register(db, id_=worker, host="here", pid=1, queues=["default"], types=list(handlers), concurrency=1)
    schemas = []
    for type_, call in handlers.items():
        payload_type = Handler.of(type_, call).payload_type
        digest, text = (payload_type.digest, payload_type.schema_text) if payload_type else (types.UNTYPED, None)
        schemas.append(HandlerSchema(type_, digest, text))
    await types.publish(db, worker, schemas, version=None)


async def jobs_of(conn: Conn) -> int:
    return int(await conn.fetchval("select count(*) from workflow.workflow_run"))


INVALID_PAYLOADS: list[tuple[str, Any, str, str]] = [
    ("pack.v1", {"items": [{"count": 1}]}, "payload.items.0.sku", '"sku" is a required property'),
    ("pack.v1", {"items": [{"sku": "s", "count": "1"}]}, "payload.items.0.count", '"1" is not of type "integer"'),
    ("pack.v1", {}, "payload.items", '"items" is a required property'),
    ("pack.v1", {"items": [], "to": 1}, "payload.to", "'to' was unexpected"),
    ("pack.v1", "text", "payload", 'is not of type "object"'),
    ("pack.v1", [[{"sku": 5}]], "payload.0.0.sku", '5 is not of type "string"'),
    ("pack.v1", [[], None, 1], "payload.2", "'2' was unexpected"),
    ("whole.v1", {}, "payload.sku", '"sku" is a required property'),
    ("whole.v1", [{"sku": "s", "count": "é"}], "payload.0.count", 'is not of type "integer"'),
    ("summed.v1", ["a", "b"], "payload.0", 'is not of type "integer"'),
]
VALID_PAYLOADS: list[tuple[str, Any]] = [
    ("pack.v1", {"items": [{"sku": "é"}], "by": "2030-01-01"}),
    ("pack.v1", {"items": [Item("s")]}),
    ("pack.v1", [[{"sku": "s"}]]),
    ("whole.v1", {"sku": "s", "unknown": 1}),
    ("whole.v1", [{"sku": "s"}]),
    ("summed.v1", [1, "b", None]),
    ("untyped.v1", {"items": 5}),
    ("other.v1", {"items": 5}),
]


async def test_an_invalid_payload_is_refused_with_its_field(app: Windlass, conn: Conn) -> None:
    handlers: dict[str, Callable[..., Any]] = {
        "pack.v1": pack,
        "whole.v1": whole,
        "summed.v1": summed,
        "untyped.v1": untyped,
    }
    await serves((await app.open()).database, "w1", handlers)
    for type_, payload, field, message in INVALID_PAYLOADS:
        with pytest.raises(Invalid) as refusal:
            await app.submit(type_, payload)
        assert (refusal.value.field, message in str(refusal.value)) == (field, True), (payload, str(refusal.value))
    assert await jobs_of(conn) == 0
    for type_, payload in VALID_PAYLOADS:
        await app.submit(type_, payload)


async def test_a_batch_is_refused_as_a_whole_with_the_index_of_its_first_invalid_payload(
    app: Windlass, conn: Conn
) -> None:
    await serves((await app.open()).database, "w1", {"pack.v1": pack, "whole.v1": whole})
    fitting = [{"type": "pack.v1", "payload": {"items": []}}] * 600
    batch = [*fitting, {"type": "whole.v1", "payload": {}}, {"type": "pack.v1", "payload": {}}]
    with pytest.raises(Invalid, match=r"^jobs\[600\]: payload.sku: ") as refusal:
        await app.submit_many(batch)
    assert refusal.value.field == "jobs.600.payload.sku"
    assert await jobs_of(conn) == 0
    assert len(await app.submit_many(fitting)) == 600


async def test_a_payload_that_any_of_several_live_schemas_accepts_is_accepted(app: Windlass) -> None:
    db = (await app.open()).database
    await serves(db, "old", {"pack.v1": pack})
    with pytest.raises(Invalid):
        await app.submit("pack.v1", {"items": [], "gift": True})
    await serves(db, "new", {"pack.v1": pack_later})
    await app.submit("pack.v1", {"items": [], "gift": True})
    await app.submit("pack.v1", {"items": []})
    with pytest.raises(Invalid) as refusal:
        await app.submit("pack.v1", {"gift": True})
    assert refusal.value.field == "payload.items"
    await serves(db, "loose", {"pack.v1": untyped})
    await app.submit("pack.v1", {"gift": True})


async def test_only_schemas_of_live_workers_are_checked(db: Tenant, clock: Clock) -> None:
    misfit = [JobSpec(type="pack.v1", payload={})]
    await serves(db.database, "w1", {"pack.v1": pack})
    with pytest.raises(Invalid):
        await jobs.submit(db, misfit)
    clock.move(timedelta(minutes=1))
    db.known_types.woken(TOPIC)  # it would be read again within seconds
    assert await jobs.submit(db, misfit)


async def test_other_orgs_are_checked_too_and_other_processes_are_notified_of_a_new_worker(
    db: Tenant, other_db: Tenant
) -> None:
    misfit = [JobSpec(type="pack.v1", payload={})]
    acme = other_db.database.tenant("acme", isolated=False)
    assert await jobs.submit(acme, misfit)
    learned = asyncio.Event()

    def listen(topic: str) -> None:
        if topic in (TOPIC, ""):  # empty: it begins to listen only now, and has missed the notification
            learned.set()

    with other_db.subscribe(listen):
        await serves(db.database, "w1", {"pack.v1": pack})
        async with asyncio.timeout(30):
            await learned.wait()
    with pytest.raises(Invalid):
        await jobs.submit(acme, misfit)


async def test_submits_use_the_cached_schemas(db: Tenant, conn: Conn) -> None:
    await serves(db.database, "w1", {"pack.v1": pack})
    await jobs.submit(db, [JobSpec(type="pack.v1", payload={"items": []})])
    await conn.execute("update windlass.worker set digests = null")
    db.known_types.read_at = time.monotonic()  # the machine may be slow, and the notifier may have connected meanwhile
    with pytest.raises(Invalid):
        await jobs.submit(db, [JobSpec(type="pack.v1", payload={})])


async def test_a_submit_in_a_transaction_of_the_caller_uses_the_cached_schemas(app: Windlass, conn: Conn) -> None:
    db = await app.open()
    await serves(db.database, "w1", {"pack.v1": pack})
    await app.submit("pack.v1", {"items": []})
    async with conn.transaction():
        with pytest.raises(Invalid):
            await app.submit("pack.v1", {}, connection=conn)
        await app.submit("pack.v1", {"items": []}, connection=conn)
    assert await jobs_of(conn) == 2


async def test_a_check_that_exceeds_its_deadline_does_not_block_a_submit(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    db = await app.open()
    await serves(db.database, "w1", {"pack.v1": pack})
    db.schema_validator = SchemaValidator(deadline=1e-9)
    db.schema_validator._process = await db.schema_validator._start()  # it is not new: its start has its own deadline
    try:
        await app.submit("pack.v1", {})
    finally:
        await db.schema_validator.close()
    assert "payloads of pack.v1 are not validated at submission: TooSlow: " in caplog.text


BROKEN = {
    "ends at once": "",
    "ends after the request": "input()",
    "kills itself": "import os; input(); os.kill(os.getpid(), 9)",
    "response is not JSON": "while True: input(); print('Traceback', flush=True)",
    "response is another object": "while True: input(); print('{\"a\": 1}', flush=True)",
    "response has an unknown index": "while True: input(); print('[7]', flush=True)",
    "response does not end": "print('x' * 2_000_000, flush=True); input()",
}


@pytest.mark.parametrize("program", BROKEN.values(), ids=BROKEN)
async def test_jobs_are_accepted_while_the_validator_is_broken_and_checked_by_their_worker(
    app: Windlass, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str
) -> None:
    script = tmp_path / "broken.py"
    script.write_text(program)
    await serves((await app.open()).database, "w1", {"pack.v1": pack, "whole.v1": whole})
    with monkeypatch.context() as broken:
        broken.setattr(schema_validator, "PROGRAM", script)
        bad = await app.submit("pack.v1", {"items": [{"count": 1}]})
        await app.submit_many([{"type": "pack.v1", "payload": {}}, {"type": "whole.v1", "payload": {}}])
        good = await app.submit("pack.v1", {"items": [{"sku": "s"}]})
        await (await app.open()).schema_validator.close()
    warned = [line for line in caplog.messages if "not validated at submission" in line]
    assert [line.split(" are ")[0] for line in warned] == ["payloads of pack.v1", "payloads of whole.v1"]
    app.job("pack.v1")(pack)
    await run_until_idle(app)
    job = await app.get(bad)
    assert (job.status, job.errors[-1]["field"]) == ("failed", "items.0.sku")
    assert (await app.get(good)).status == "succeeded"


async def test_a_validator_that_was_killed_is_replaced(app: Windlass) -> None:
    db = await app.open()
    await serves(db.database, "w1", {"pack.v1": pack})
    await app.submit("pack.v1", {"items": []})
    process = db.schema_validator._process
    assert process is not None
    process.kill()
    await process.wait()
    await app.submit("pack.v1", {})
    with pytest.raises(Invalid):
        await app.submit("pack.v1", {})


def test_a_type_that_cannot_be_checked_is_logged_at_most_once_a_minute() -> None:
    known = KnownTypes()
    assert [known.may_warn("a.v1", now) for now in (0.0, 1.0, 59.9, 60.0, 61.0)] == [True, False, False, True, False]
    assert known.may_warn("b.v1", 61.0)
    assert known.may_warn("c.v1", 1000.0)
    assert known.warned.keys() == {"c.v1"}


async def test_the_schema_maps_the_items_of_an_array_to_parameters() -> None:
    typed = Handler.of("summed.v1", summed).payload_type
    assert typed is not None
    assert typed.schema[POSITIONAL] == ["first", MORE]


# With a worker


async def test_a_worker_publishes_its_schemas_and_fails_invalid_jobs_that_were_not_checked(
    database: str, conn: Conn
) -> None:
    async with Windlass(database, settings=Settings(code_version="7")) as app:
        app.job("orders.pack.v1")(pack)
        app.job("orders.%")(lambda: None)
        app.job("plain.v1")(untyped)
        bad: UUID = await conn.fetchval(
            "insert into workflow.workflow_run (id, type, payload, max_attempts)"
            " values (gen_random_uuid(), 'orders.pack.v1', $1, 5) returning id",
            json.dumps({"items": [{"count": 1}]}),
        )
        good = await app.submit("orders.pack.v1", {"items": [{"sku": "s", "count": 3}]})
        await run_until_idle(app)
        job = await app.get(bad)
        assert (job.status, job.attempt, job.errors[-1]["field"]) == ("failed", 1, "items.0.sku")
        assert job.errors[-1]["message"].startswith("items.0.sku: ")
        assert (await app.get(good)).result == 3
        db = await app.open()
        assert {type_.type: type_.schema is not None for type_ in (await types.list_(db)).items} == {
            "orders.pack.v1": True,
            "plain.v1": False,
        }
        [version] = (await types.get(db, "orders.pack.v1")).history
        assert (version.code_version, version.workers) == ("7", 0)  # it has stopped


async def test_a_type_that_the_registry_assigns_to_another_runtime_is_not_published(app: Windlass, conn: Conn) -> None:
    app.job("orders.pack.v1")(pack)
    app.job("orders.send.v1")(whole)
    await app.submit("orders.send.v1", {"sku": "s"})
    await conn.execute(
        "insert into workflow.workflow_registry (workflow_name, runtime) values ('orders.pack.v1', 'go')"
    )
    await run_until_idle(app)
    assert [type_.type for type_ in (await types.list_(await app.open())).items] == ["orders.send.v1"]


async def test_the_examples_in_the_guide_to_typed_handlers_work(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/type-your-handlers.md").read_text("utf-8")
    blocks = dict(re.findall(r"^```(python|console)\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    module = ModuleType("typed_guide")
    monkeypatch.setitem(sys.modules, "typed_guide", module)
    exec(blocks["python"], vars(module))
    payload = json.loads(blocks["console"].split("'")[1])
    async with Windlass(database, settings=Settings()) as app:
        await serves((await app.open()).database, "w1", {"shop.pack.v1": module.pack})
        with pytest.raises(Invalid) as refusal:
            await app.submit("shop.pack.v1", payload)
    assert f"error: {refusal.value}\n" in blocks["console"]


async def test_the_doctor_reports_workers_with_different_schemas(db: Tenant) -> None:
    await serves(db.database, "old", {"pack.v1": pack})
    await serves(db.database, "new", {"pack.v1": pack_later})
    [finding] = [finding for finding in await examine(db.database) if "several schemas of pack.v1" in finding.message]
    assert finding.level is Level.WARNING
    assert "on old" in finding.message
    assert "on new" in finding.message
