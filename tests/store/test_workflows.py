"""The tables of workflows: live names are unique, versions are immutable, and every lookup uses an index."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from windlass.store import workflows
from windlass.store.postgres.pool import BEGIN_POOLED
from windlass.store.postgres.queries import sql
from windlass.store.workflows import NewVersion

Connection = Any
DOCUMENT = json.dumps({"name": "etl", "tasks": [{"name": "a", "sleep": "1s"}]})
ORG = "default"


async def publish(conn: Connection, name: str, fingerprint: str) -> set[int]:
    await workflows.hold(conn, [uuid4()], [name], org=ORG)
    return await workflows.publish(conn, [NewVersion(name, DOCUMENT, fingerprint, None)], org=ORG)


@pytest.fixture
async def other(database: str) -> AsyncIterator[Connection]:
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()


async def test_a_publisher_of_a_held_name_waits_and_then_sees_the_published_version(
    conn: Connection, other: Connection
) -> None:
    async with conn.transaction():
        assert len(await publish(conn, "etl", "one")) == 1
        waiting = asyncio.create_task(publish(other, "etl", "one"))
        await blocked(conn)
        assert not waiting.done()
    assert await waiting == set()
    assert (await workflows.live(conn, ["etl"], org=ORG))["etl"].number == 1


async def test_a_publisher_that_rolls_back_leaves_the_name_to_the_next(conn: Connection, other: Connection) -> None:
    transaction = conn.transaction()
    await transaction.start()
    await publish(conn, "etl", "one")
    waiting = asyncio.create_task(publish(other, "etl", "two"))
    await blocked(conn)
    await transaction.rollback()
    [version_id] = await waiting
    live = (await workflows.live(conn, ["etl"], org=ORG))["etl"]
    assert (live.version_id, live.number, live.fingerprint) == (version_id, 1, "two")


async def test_a_publisher_that_waits_for_a_deleted_name_creates_a_new_workflow(
    conn: Connection, other: Connection
) -> None:
    await publish(conn, "etl", "one")
    old = (await workflows.live(conn, ["etl"], org=ORG))["etl"]
    async with conn.transaction():
        assert await workflows.soft_delete(conn, "etl", org=ORG)
        waiting = asyncio.create_task(publish(other, "etl", "two"))
        await blocked(conn)
    await waiting
    live = (await workflows.live(conn, ["etl"], org=ORG))["etl"]
    assert (live.number, live.fingerprint) == (1, "two")
    assert live.workflow_id != old.workflow_id
    assert isinstance(old.workflow_id, UUID)


async def blocked(conn: Connection) -> None:
    """Wait until a session waits for a lock."""
    async with asyncio.timeout(20):
        while not await conn.fetchval("select count(*) from pg_locks where not granted"):
            await asyncio.sleep(0)


async def test_a_published_version_cannot_be_changed(conn: Connection) -> None:
    await publish(conn, "etl", "one")
    with pytest.raises(asyncpg.CheckViolationError, match="a published version never changes: publish another"):
        await conn.execute("update windlass.version set document = '{}'")


async def test_a_name_is_unique_among_live_workflows_and_reusable_after_deletion(conn: Connection) -> None:
    for fingerprint in ("one", "two", "three"):
        await publish(conn, "etl", fingerprint)
        assert await workflows.soft_delete(conn, "etl", org=ORG)
        assert not await workflows.soft_delete(conn, "etl", org=ORG)
    insert = "insert into windlass.workflow (id, org, name, live) values (gen_random_uuid(), 'default', 'etl', 1)"
    await conn.execute(insert)
    with pytest.raises(asyncpg.UniqueViolationError):
        await conn.execute(insert)


async def test_enabling_an_enabled_workflow_is_not_a_change(conn: Connection) -> None:
    await publish(conn, "etl", "one")
    changed = "select updated_at from windlass.workflow"
    before = await conn.fetchval(changed)
    assert await workflows.enable(conn, "etl", True, org=ORG)
    assert await conn.fetchval(changed) == before
    assert await workflows.enable(conn, "etl", False, org=ORG)
    assert await conn.fetchval(changed) > before
    assert not await workflows.enable(conn, "nobody", True, org=ORG)


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("live", (ORG, ["w17", "w4"])),
        ("documents", ([3, 4],)),
        ("get", (ORG, "w17", None)),
        ("list", (ORG, "w17", 10)),
        ("versions", (ORG, "w17", 100, 10)),
        ("enable", (ORG, "w17", True)),
        ("soft_delete", (ORG, "w17")),
        ("publish", (ORG, ["w17"], [DOCUMENT], ["new"], [None])),
    ],
)
async def test_the_cost_of_a_query_follows_its_result(conn: Connection, query: str, arguments: tuple[Any, ...]) -> None:
    names = [f"w{n}" for n in range(300)]
    for round_ in range(3):
        await workflows.hold(conn, [uuid4() for _ in names], names, org=ORG)
        await workflows.publish(conn, [NewVersion(name, DOCUMENT, str(round_), None) for name in names], org=ORG)
    await conn.execute(BEGIN_POOLED)
    text = await conn.fetchval(f"explain (analyze, format json) {sql('workflows', query)}", *arguments)
    scans = list(nodes(json.loads(text)[0]["Plan"]))
    assert [node["Node Type"] for node in scans if node["Node Type"] == "Seq Scan"] == []
    assert (
        max(node["Actual Rows"] * node["Actual Loops"] + node.get("Rows Removed by Filter", 0) for node in scans) < 40
    )


def nodes(plan: dict[str, Any]) -> Any:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)
