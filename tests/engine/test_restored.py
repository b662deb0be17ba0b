"""A dump restored into another cluster, where transaction ids start over: no event is read again and again, none is
lost."""

from typing import Any

import pytest

from tests.runtime.shop import app_for
from windlass import Context, Windlass
from windlass.core.events.cursor import Cursor, Snapshot
from windlass.engine.database import Tenant, prepare
from windlass.engine.events import stream, subscriptions
from windlass.store.postgres import migrate
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import run_until_idle

Connection = Any
DELIVERIES = "select count(*) from workflow.workflow_run where queue = 'windlass'"
AHEAD = 1_000_000_000  # by so much the counter of the old cluster was further on
TABLES = ("windlass.event", "workflow.workflow_event", "windlass.cron_event", "windlass.job_log", "windlass.checkpoint")


async def come_from_another_cluster(conn: Connection) -> None:
    """What a restored dump looks like: every number that a transaction left is beyond this cluster's."""
    for table in TABLES:
        await conn.execute(f"update {table} set xid = (xid::text::bigint + {AHEAD})::text::xid8")
    # The other bookmarks are ids of rows, which a restore keeps.
    positions = "select reader, place from windlass.bookmark where reader in ('subscriptions', 'usage')"
    for reader, place in await conn.fetch(positions):
        had = Cursor.parse(place).upto
        moved = Snapshot(had.xmax + AHEAD, frozenset(xid + AHEAD for xid in had.under_way))
        await conn.execute("update windlass.bookmark set place = $2 where reader = $1", reader, str(Cursor(moved)))


async def test_readers_of_a_restored_trail_find_nothing_new_and_do_not_ask_for_more(
    app: Windlass, conn: Connection
) -> None:
    await app.submit_many([{"type": "a.b.v1"}] * 20)
    db = await app.open()
    await come_from_another_cluster(conn)
    batch = await stream.since(db, await stream.here(db), limit=5)  # a process that was not restarted
    assert (batch.entries, batch.more) == ([], False)
    await app.submit("a.b.v1")
    assert len((await stream.since(db, batch.next, limit=5)).entries) == 1


async def feed_until(db: Tenant, conn: Connection, deliveries: int) -> None:
    """Feed until there are so many: a worker that ran may have fed too, and what was committed is not read before every
    older transaction of the server has ended."""
    while await conn.fetchval(DELIVERIES) < deliveries:
        await subscriptions.feed(db)


async def test_subscribers_of_a_restored_database_are_told_of_what_they_had_not_heard(
    database: str, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    async with app_for(database) as app:

        @app.job("order.ship.v1")
        async def ship(ctx: Context) -> None:
            await ctx.step("once", lambda: 1)

        db = await app.open()
        await subscriptions.create(db, {"url": "http://127.0.0.1:9/hook", "events": ["job.completed"]})
        await app.submit("order.ship.v1")
        await run_until_idle(app)
        await feed_until(db, conn, deliveries=1)
        await app.submit("order.ship.v1")
        await run_until_idle(app)
        await come_from_another_cluster(conn)

        await prepare(DatabaseOptions(url=database))

        assert "restored from another cluster" in caplog.text
        await feed_until(db, conn, deliveries=2)
        fed = await subscriptions.feed(db)
        assert (fed.deliveries, fed.more) == (0, False)
        assert await conn.fetchval(DELIVERIES) == 2
        assert not await migrate.renumber_restored(conn)
        newest = await conn.fetchval("select max(xid::text::bigint) from workflow.workflow_event")
        assert newest < AHEAD
        await app.submit("order.ship.v1")
        latest = "select event_type from workflow.workflow_event order by xid desc, id desc limit 1"
        assert await conn.fetchval(latest) == "created"


async def test_saved_steps_of_a_restored_database_count_as_they_did(app: Windlass, conn: Connection) -> None:
    done, failed = await app.submit("a.b.v1"), await app.submit("a.b.v1")
    for job in (done, failed):
        await conn.execute(
            "insert into windlass.checkpoint (job_id, name, state, input)"
            " select id, 'charge', '1', md5(payload::text) from workflow.workflow_run where id = $1",
            job,
        )
    for job, word in ((done, "succeeded"), (failed, "failed")):
        await conn.execute("insert into workflow.workflow_event (workflow_id, event_type) values ($1, $2)", job, word)
    await come_from_another_cluster(conn)
    assert await migrate.renumber_restored(conn)
    counting = """select c.job_id from windlass.checkpoint c where not exists (
      select from workflow.workflow_event e
       where e.workflow_id = c.job_id and e.event_type = 'succeeded' and e.xid > c.xid)"""
    assert [row[0] for row in await conn.fetch(counting)] == [failed]
