"""Keys and ids of archived jobs and runs stay taken; an archive is dropped when its retention is over."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from tests.engine.archive_harness import AT_ONCE, archive, counts, finish
from tests.engine.harness import ManualWorker, begin, node
from tests.engine.job_harness import SPEC, submit, take
from tests.engine.upkeep_harness import by_sql, record
from windlass.core.jobs.job import Success
from windlass.core.workflows.step import Foreach
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.errors import NotFound
from windlass.testing import Clock

pytestmark = pytest.mark.usefixtures("an_hour_later")

Connection = Any
MONTH = timedelta(days=30)


# Keys and ids stay taken


async def test_the_key_of_an_archived_job_is_still_taken(db: Tenant, conn: Connection) -> None:
    id_ = await submit(db, idempotency_key="k")
    await finish(db)
    await archive(db)
    assert await submit(db, idempotency_key="k") == id_
    assert await conn.fetchval("select count(*) from workflow.workflow_run") == 1


async def test_the_key_of_an_archived_job_inserted_by_plain_sql_is_still_taken(db: Tenant, conn: Connection) -> None:
    id_ = await by_sql(conn, idempotency_key="raw")
    await conn.execute("update workflow.workflow_run set status = 'succeeded' where id = $1", id_)
    await upkeep.log_created(db)
    await archive(db)
    insert = "insert into workflow.workflow_run (type, payload, idempotency_key) values ('a.b.v1', '{}', 'raw')"
    assert await conn.fetchval(f"{insert} on conflict (idempotency_key) do nothing returning id") is None
    with pytest.raises(asyncpg.UniqueViolationError):
        await conn.execute(insert)
    assert await conn.fetchval("select id from workflow.workflow_run where idempotency_key = 'raw'") == id_


async def test_the_id_of_an_archived_job_is_still_taken(db: Tenant, conn: Connection) -> None:
    id_ = await by_sql(conn, id=uuid4())
    await conn.execute("update workflow.workflow_run set status = 'succeeded' where id = $1", id_)
    await upkeep.log_created(db)
    await archive(db)
    with pytest.raises(asyncpg.UniqueViolationError):
        await by_sql(conn, id=id_)


async def test_the_key_of_an_archived_run_is_still_taken(db: Tenant, worker: ManualWorker, conn: Connection) -> None:
    run = await begin(db, node("a"), idempotency_key="k", labels={"team": "a"})
    await worker.play()
    await archive(db)
    assert await begin(db, idempotency_key="k") == run
    assert await conn.fetchval("select count(*) from windlass.label") == 1


async def test_an_insert_by_plain_sql_checks_its_key_without_a_scan_of_the_inbox(conn: Connection) -> None:
    """A session plans the query while the inbox is empty, and keeps the plan as the inbox fills."""
    insert = "insert into workflow.workflow_run (type, payload, idempotency_key) select 'a.b.v1', '{}', $1 || n"
    async with conn.transaction():
        for batch in ("one", "two"):
            await conn.execute(f"{insert} from generate_series(1, 100) n", batch)
        read = "select seq_tup_read from pg_stat_xact_user_tables where relid = 'workflow.workflow_run'::regclass"
        assert await conn.fetchval(read) == 0


# Isolation of orgs


async def test_an_org_can_read_only_its_own_archive(db: Tenant, other_org: Tenant) -> None:
    mine = await submit(db)
    theirs = await submit(other_org)
    for org in (db, other_org):
        [job] = await take(org)
        await record(org, Success(job, "1"))
    await archive(db)
    assert [job.id for job in (await jobs.list_(other_org)).jobs] == [theirs]
    assert [job.id for job in (await jobs.list_(db)).jobs] == [mine]
    with pytest.raises(NotFound):
        await jobs.get(other_org, mine)


# Retention


async def weeks(conn: Connection) -> set[str]:
    children = "select right(inhrelid::regclass::text, 8) from pg_inherits where inhparent = 'windlass.run'::regclass"
    return {row[0] for row in await conn.fetch(children)}


async def test_an_archived_week_past_its_retention_is_dropped_with_all_its_rows(
    db: Tenant, clock: Clock, worker: ManualWorker, conn: Connection
) -> None:
    await begin(db, node("a", fan_out=Foreach("input")), node("b", "a"), name="old", input=[1, 2], labels={"team": "a"})
    await worker.play()
    await jobs.submit(db, [SPEC])
    await finish(db)
    [old] = await conn.fetchrow("select windlass.archive_week(updated_at) from workflow.workflow_run")
    clock.move(MONTH)
    await begin(db, node("a"), name="young", labels={"team": "b"})
    await worker.play()
    await archive(db)
    archived = await weeks(conn)
    while await upkeep.drop_archives(db, age=MONTH, batches=1):
        pass
    assert await weeks(conn) == archived  # the week has not been over for a month
    clock.move(timedelta(days=7))
    while await upkeep.drop_archives(db, age=MONTH, batches=1):
        pass
    assert archived - await weeks(conn) == {old}
    assert await counts(conn) == (0, 1, 0, 1)
    for table in ("label", "event", "item", "bookmark"):
        rows = await conn.fetch(f"select * from windlass.{table}")
        assert all("old" not in str(row) and "archive/" not in str(row) for row in rows)
    assert await conn.fetchval("select count(distinct run_id) from windlass.event") == 1
    assert await conn.fetchval("select count(*) from windlass.item") == 0
    assert await conn.fetchval("select count(*) from windlass.label") == 1


async def test_creating_an_archive_is_postponed_while_the_table_is_locked(
    db: Tenant, clock: Clock, conn: Connection
) -> None:
    clock.move(2 * MONTH)  # no archive has been made for that time
    await submit(db)
    await finish(db)
    async with conn.transaction():
        await conn.execute("lock table workflow.workflow_run in share update exclusive mode")  # as a vacuum does
        await upkeep.archive(db, age=AT_ONCE)
        assert (await counts(conn))[:2] == (1, 1)
    for _ in range(2):  # the end of this round, and the next one
        await archive(db)
    assert (await counts(conn))[:2] == (0, 1)
