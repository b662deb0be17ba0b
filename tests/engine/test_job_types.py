"""The schemas that workers publish for their handlers: which workers serve a type, and whether their schemas agree."""

import json
from datetime import timedelta

from windlass.engine import upkeep
from windlass.engine.database import Database, Tenant
from windlass.engine.jobs import types
from windlass.engine.jobs.types import HandlerSchema
from windlass.engine.workers import turn
from windlass.testing import Clock

ORDER = {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}, "required": ["sku"]}
LATER = ORDER | {"required": ["sku", "n"]}


async def registered(db: Database, worker: str, *schemas: HandlerSchema, version: str | None = None) -> None:
    await turn.register(db, id_=worker, host="here", pid=1, queues=["default"], types=["a.b.v1"], concurrency=1)
    await types.publish(db, worker, schemas, version=version)


def served(digest: str, schema: object = ORDER, type_: str = "orders.pack.v1") -> HandlerSchema:
    return HandlerSchema(type_, digest, None if schema is None else json.dumps(schema))


async def test_a_type_is_listed_with_its_schema_in_the_order_of_the_fields(db: Tenant) -> None:
    await registered(db, "w1", served("d1"), served("d2", None, "mail.send.v1"), version="7")
    mail, orders = (await types.list_(db)).items
    assert (mail.type, mail.schema, mail.workers) == ("mail.send.v1", None, 1)
    assert (orders.type, orders.digest, orders.drift, orders.versions) == ("orders.pack.v1", "d1", False, 1)
    assert orders.schema == ORDER
    assert list(orders.schema["properties"]) == ["sku", "n"]


async def test_types_are_listed_in_pages(db: Tenant) -> None:
    await registered(db, "w1", *(served("d", ORDER, f"t{n}") for n in range(3)))
    first = await types.list_(db, limit=2)
    assert [type_.type for type_ in first.items] == ["t0", "t1"]
    assert [type_.type for type_ in (await types.list_(db, after=first.next or "", limit=2)).items] == ["t2"]


async def test_live_workers_with_different_schemas_are_reported_as_drift_until_one_stops(
    db: Tenant, clock: Clock
) -> None:
    await registered(db, "old", served("d1"), version="1")
    clock.move(timedelta(seconds=10))
    await registered(db, "new", served("d2", LATER), version="2")
    detail = await types.get(db, "orders.pack.v1")
    assert (detail.drift, detail.workers, detail.digest, detail.schema) == (True, 2, "d2", LATER)
    assert {(one.digest, one.code_version, *one.worker_ids) for one in detail.history} == {
        ("d1", "1", "old"),
        ("d2", "2", "new"),
    }
    await turn.seen(db, id_="old", state="stopped", active=0)
    detail = await types.get(db, "orders.pack.v1")
    assert (detail.drift, detail.workers, detail.versions) == (False, 1, 2)
    assert [(one.digest, one.workers) for one in detail.history] == [("d2", 1), ("d1", 0)]


async def test_a_restarted_worker_serves_only_the_schemas_it_publishes_now(db: Tenant) -> None:
    await registered(db, "w1", served("d1"))
    await registered(db, "w1", served("d2", LATER))
    detail = await types.get(db, "orders.pack.v1")
    assert (detail.drift, detail.digest, detail.versions) == (False, "d2", 2)


async def test_a_type_that_no_live_worker_serves_is_still_known(db: Tenant, clock: Clock) -> None:
    await registered(db, "w1", served("d1"))
    clock.move(timedelta(days=2))
    await upkeep.tend(db, age=timedelta(days=3650))  # deletes the worker
    detail = await types.get(db, "orders.pack.v1")
    assert (detail.workers, detail.drift, detail.schema) == (0, False, ORDER)


async def test_other_orgs_see_the_types_but_not_the_ids_of_the_workers(db: Tenant) -> None:
    await registered(db, "w1", served("d1"))
    acme = db.database.tenant("acme", isolated=True)
    detail = await types.get(acme, "orders.pack.v1")
    assert (detail.workers, detail.history[0].workers, detail.history[0].worker_ids) == (1, 1, [])


async def test_the_history_of_a_type_is_bounded(db: Tenant, clock: Clock) -> None:
    for n in range(upkeep.MOST_SCHEMAS_OF_TYPE + 2):
        await registered(db, "w1", served(f"d{n}"))
        clock.move(timedelta(seconds=1))
    await upkeep.tend(db, age=timedelta(days=3650))
    digests = {one.digest for one in (await types.get(db, "orders.pack.v1")).history}
    assert len(digests) == upkeep.MOST_SCHEMAS_OF_TYPE
    assert not digests & {"d0", "d1"}
