"""A process caches the live version of a workflow and starts runs on it with one statement, which starts nothing if
that version is no longer live: for example because another process has published one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.engine.harness import node, publish, state
from windlass.engine import workflows
from windlass.engine.database import Tenant
from windlass.engine.runs import control as runs
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.errors import Conflict, Invalid, NotFound
from windlass.store.postgres.pool import DatabaseOptions

Connection = Any
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
async def other(database: str) -> AsyncIterator[Tenant]:
    """The same database in another process, which does not share the cache of this one."""
    db = await Tenant.open(DatabaseOptions(url=database))
    yield db
    await db.close()


async def version_of(db: Tenant, run: UUID) -> int:
    return (await runs.get(db, run)).version


async def started(db: Tenant, **options: Any) -> UUID:
    [run] = await start.start(db, "w", [RunSpec(**options)])
    return run


async def test_a_start_after_the_first_uses_the_cached_version(db: Tenant) -> None:
    await publish(db, node("a"))
    await started(db)
    statements: list[str] = []
    async with db.pool.acquire() as conn:
        conn.add_query_logger(lambda query: statements.append(query.query))
    await started(db)
    await asyncio.sleep(0)  # the driver logs in the next iteration of the event loop
    assert len(statements) == 1
    assert "insert into windlass.run" in statements[0]


async def test_a_run_starts_on_the_version_that_another_process_has_published(db: Tenant, other: Tenant) -> None:
    await publish(db, node("a"))
    assert await version_of(db, await started(db)) == 1
    await publish(other, node("a"), node("b"))
    assert await version_of(db, await started(db)) == 2
    assert await version_of(db, await started(db)) == 2


async def test_no_run_starts_while_the_workflow_is_disabled_by_another_process(
    db: Tenant, other: Tenant, conn: Connection
) -> None:
    await publish(db, node("a"))
    await started(db)
    await workflows.enable(other, "w", False)
    with pytest.raises(Conflict, match="disabled"):
        await started(db)
    assert await conn.fetchval("select count(*) from windlass.run") == 1
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 1
    await workflows.enable(other, "w")
    assert await state(db, await started(db)) == "running"


async def test_a_run_starts_on_a_workflow_that_another_process_deleted_and_recreated(db: Tenant, other: Tenant) -> None:
    await publish(db, node("a"))
    old = await started(db)
    await workflows.delete(other, "w")
    with pytest.raises(NotFound):
        await started(db)
    await publish(other, node("b"))
    new = await started(db)
    assert (await runs.get(db, old)).workflow_id != (await runs.get(db, new)).workflow_id


async def test_a_batch_starts_on_one_version(db: Tenant, other: Tenant) -> None:
    await publish(db, node("a"))
    await started(db)
    await publish(other, node("b"))
    ids = await start.start(db, "w", [RunSpec(input={"n": n}) for n in range(5)])
    assert {await version_of(db, run) for run in ids} == {2}


async def test_an_input_that_only_the_cached_version_accepts_is_refused(
    db: Tenant, other: Tenant, conn: Connection
) -> None:
    await publish(db, node("a"))
    await started(db, input={})
    await publish(other, node("a"), input=NUMBER)
    with pytest.raises(Invalid, match="n"):
        await started(db, input={})
    assert await conn.fetchval("select count(*) from windlass.run") == 1
    assert await version_of(db, await started(db, input={"n": 1})) == 2


async def test_an_input_that_only_the_live_version_accepts_is_accepted(db: Tenant, other: Tenant) -> None:
    await publish(db, node("a"), input=NUMBER)
    await started(db, input={"n": 1})
    await publish(other, node("a"))
    assert await version_of(db, await started(db, input={})) == 2
