"""Row-level security, the second barrier between orgs: a transaction for a caller reads and changes only the rows of
its org, even if a statement lacks the predicate."""

import contextlib
from typing import Any

import asyncpg
import pytest

from tests.engine.canary import CANARY, plant
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs

PROTECTED = """
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p') and not c.relispartition and c.relrowsecurity
   and n.nspname in ('windlass', 'workflow') order by 1
"""
EVERY = PROTECTED.replace("and c.relrowsecurity", "")
# Tables of the installation: they hold nothing of an org, or are read by the engine only.
SHARED = {
    "windlass.bookmark", "windlass.identity", "windlass.migration", "windlass.plan", "windlass.pool",
    "windlass.public_url", "windlass.server_key", "windlass.session", "windlass.sql_role", "windlass.term",
    "windlass.worker_lease", "workflow.workflow_registry",
}  # fmt: skip
Conn = Any


@pytest.fixture
async def rival(db: Tenant) -> Tenant:
    """A caller of another org than the one that has the canaries."""
    await orgs.create(db, "acme")
    await orgs.create(db, "rival")
    await plant(db.tenant("acme"))
    return db.tenant("rival", isolated=True)


async def names(conn: Conn, query: str) -> list[str]:
    return [row["name"] for row in await conn.fetch(query)]


async def test_every_table_with_data_of_orgs_is_protected(conn: Conn) -> None:
    assert set(await names(conn, EVERY)) - set(await names(conn, PROTECTED)) == SHARED


async def test_no_row_of_another_org_is_visible(rival: Tenant, conn: Conn) -> None:
    planted = {}
    for table in await names(conn, EVERY):
        planted[table] = await conn.fetchval(f"select count(*) from {table} t where t::text like $1", f"%{CANARY}%")
    async with rival.begin() as as_rival:
        for table in await names(conn, PROTECTED):
            seen = [row[0] for row in await as_rival.fetch(f"select t::text from {table} t")]
            assert not [row for row in seen if CANARY in row or "acme" in row], table
    has_canary = {table for table, count in planted.items() if count}
    assert {"workflow.workflow_run", "windlass.run", "windlass.version", "windlass.job_log"} <= has_canary
    assert {"windlass.message", "windlass.waiter", "windlass.start_request"} <= has_canary


@pytest.mark.parametrize("statement", ["update {0} set {1} = {1}", "delete from {0}"])
async def test_no_row_of_another_org_is_changed(rival: Tenant, conn: Conn, statement: str) -> None:
    tables = await names(conn, PROTECTED)
    before = {table: await checksum(conn, table) for table in tables}
    for table in tables:
        column = await conn.fetchval(
            "select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 and attgenerated = ''"
            " order by attnum limit 1",
            table,
        )
        with contextlib.suppress(asyncpg.PostgresError):  # triggers may protect rows of its own
            async with rival.begin() as as_rival:
                await as_rival.execute(statement.format(table, column))
    assert {table: await checksum(conn, table) for table in tables} == before


async def checksum(conn: Conn, table: str) -> Any:
    return await conn.fetchval(f"select md5(string_agg(t::text, ' ' order by t::text)) from {table} t")


async def test_a_row_for_another_org_is_not_inserted(rival: Tenant) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        async with rival.begin() as conn:
            await conn.execute(
                "insert into windlass.label (org, key, value, run_id) values ('acme', 'a', 'b', gen_random_uuid())"
            )


async def test_a_transaction_without_an_org_reads_no_rows(db: Tenant, rival: Tenant, conn: Conn) -> None:
    async with conn.transaction():
        await conn.execute("set local role windlass_api")
        assert await conn.fetchval("select count(*) from windlass.run") == 0


async def test_an_isolated_caller_can_use_the_jobs_of_its_own_org(rival: Tenant) -> None:
    [id_] = await jobs.submit(rival, [JobSpec(type="a.b.v1", payload={}, idempotency_key="k")])
    assert await jobs.submit(rival, [JobSpec(type="a.b.v1", payload={}, idempotency_key="k")]) == [id_]
    assert [job.id for job in (await jobs.list_(rival)).jobs] == [id_]
    await jobs.cancel(rival, id_)
    assert [event.event_type for event in await jobs.events(rival, id_)] == ["created", "cancelled"]
