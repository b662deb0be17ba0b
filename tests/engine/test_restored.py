"""A dump restored into another cluster, where transaction ids start over: no event is read twice, and none is
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
AHEAD = 1_000_000_000  # how far the transaction ids of the old cluster were ahead
TABLES = ("windlass.event", "workflow.workflow_event", "windlass.cron_event", "windlass.job_log", "windlass.checkpoint")


async def simulate_restore(conn: Connection) -> None:
    """Simulate a restored dump: make every stored transaction id larger than those of this cluster."""
    for table in TABLES:
        await conn.execute(f"update {table} set xid = (xid::text::bigint + {AHEAD})::text::xid8")
    # The other bookmarks are ids of rows, which a restore keeps.
    positions = "select reader, place from windlass.bookmark where reader in ('subscriptions', 'usage')"
    for reader, place in await conn.fetch(positions):
        had = Cursor.parse(place).upto
        moved = Snapshot(had.xmax + AHEAD, frozenset(xid + AHEAD for xid in had.under_way))
        await conn.execute("update windlass.bookmark set place = $2 where reader = $1", reader, str(Cursor(moved)))


async def test_readers_of_a_restored_trail_do_not_read_old_events_again(app: Windlass, conn: Connection) -> None:
    await app.submit_many([{"type": "a.b.v1"}] * 20)
    db = await app.open()
    await simulate_restore(conn)
    batch = await stream.since(db, await stream.here(db), limit=5)  # a process that was not restarted
    assert (batch.entries, batch.more) == ([], False)
    await app.submit("a.b.v1")
    assert len((await stream.since(db, batch.next, limit=5)).entries) == 1


async def feed_until(db: Tenant, conn: Connection, deliveries: int) -> None:
    """Feed until this many deliveries exist: a worker may have fed too, and a commit is not read before every
    older transaction of the server has ended."""
    while await conn.fetchval(DELIVERIES) < deliveries:
        await subscriptions.feed(db)


async def test_subscribers_of_a_restored_database_receive_the_undelivered_events(
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
        await simulate_restore(conn)

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


async def test_recorded_steps_of_a_restored_database_stay_valid(app: Windlass, conn: Connection) -> None:
    done, failed = await app.submit("a.b.v1"), await app.submit("a.b.v1")
    for job in (done, failed):
        await conn.execute(
            "insert into windlass.checkpoint (job_id, name, state, input)"
            " select id, 'charge', '1', md5(payload::text) from workflow.workflow_run where id = $1",
            job,
        )
    for job, word in ((done, "succeeded"), (failed, "failed")):
        await conn.execute("insert into workflow.workflow_event (workflow_id, event_type) values ($1, $2)", job, word)
    await simulate_restore(conn)
    assert await migrate.renumber_restored(conn)
    counting = """select c.job_id from windlass.checkpoint c where not exists (
      select from workflow.workflow_event e
       where e.workflow_id = c.job_id and e.event_type = 'succeeded' and e.xid > c.xid)"""
    assert [row[0] for row in await conn.fetch(counting)] == [failed]
