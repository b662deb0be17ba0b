"""A database of the version before organisations keeps all data when it is upgraded."""

from collections.abc import AsyncIterator
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from windlass.engine.database import Tenant, prepare
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import queues
from windlass.engine.orgs import control as orgs
from windlass.engine.workers import remote
from windlass.engine.workers.remote import Fetch
from windlass.store.postgres import migrate
from windlass.store.postgres.pool import DatabaseOptions

BEFORE = 17  # the last migration of that version
OLD_ROWS = """
insert into workflow.workflow_run (type, payload, idempotency_key)
select 'a.b.v1', '{}', 'k' || n from generate_series(1, 500) as n;
insert into workflow.workflow_run (type, payload, queue) values ('a.b.v1', '{}', 'team/mail');
insert into workflow.workflow_run (type, payload, org, queue) values ('a.b.v1', '{}', 'acme', 'mail');
update workflow.workflow_run set status = 'leased', leased_by = 'w', lease_until = now() + interval '1 hour'
 where idempotency_key = 'k1';
update workflow.workflow_run set status = 'succeeded' where idempotency_key in ('k2', 'k3');
insert into windlass.queue (name, paused, paused_at) values ('sql', true, now());
insert into windlass.worker (id, host, pid, queues, types, concurrency, state)
values ('w', 'h', 1, '{sql}', '{}', 1, 'running');
insert into workflow.workflow_schedule (type, schedule, next_run_at)
values ('a.b.v1', '0 0 * * *', now() + interval '1 day');
insert into windlass.quarantine (kind, key, error_type, reason) values ('duty', 'x', 'E', 'why');
insert into windlass.subscription (id, org, url, events, secret)
values (gen_random_uuid(), 'default', 'https://x.example', '{}', 'secret-of-old');
"""


@pytest.fixture
async def old(server: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The URL of a database of the version before, with rows in it."""
    admin, name = await asyncpg.connect(server), f"windlass_old_{uuid4().hex[:12]}"
    await admin.execute(f"create database {name}")
    url = urlsplit(server)._replace(path=f"/{name}").geturl()
    conn = await asyncpg.connect(url)
    every = migrate.migrations()
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "migrations", lambda: [one for one in every if one.version <= BEFORE])
        await migrate.migrate(conn)
    await conn.execute(OLD_ROWS)
    await conn.close()
    yield url
    await admin.execute(f"drop database {name} with (force)")
    await admin.close()


async def rows(url: str) -> dict[tuple[str, str], int]:
    conn = await asyncpg.connect(url)
    counted = "select org, status, count(*) from workflow.workflow_run group by 1, 2 order by 1, 2"
    result = {(row[0], row[1]): row[2] for row in await conn.fetch(counted)}
    await conn.close()
    return result


async def test_an_upgrade_keeps_every_row_in_its_org(old: str) -> None:
    before = await rows(old)
    assert await prepare(DatabaseOptions(url=old))
    assert await rows(old) == before
    db = await Tenant.open(DatabaseOptions(url=old))
    try:
        assert [org.name for org in (await orgs.list_(db)).items] == ["acme", "default"]
        names = {queue.row.name: queue.row for queue in (await queues.list_(db)).queues}
        assert (names["sql"].due, names["sql"].leased, names["sql"].paused) == (497, 1, True)
        await queues.resume(db, "sql")
        [[job]] = await remote.fetch(db, [Fetch(queues=["sql"], count=1, worker="new")])
        assert (await jobs.get(db, job.id)).leased_by == "new"
        acme = db.tenant("acme")
        [[theirs]] = await remote.fetch(acme, [Fetch(queues=["mail"], count=1, worker="w")])
        assert theirs.queue == "mail"
    finally:
        await db.close()


async def test_jobs_of_a_queue_whose_name_has_a_slash_still_run(old: str) -> None:
    await prepare(DatabaseOptions(url=old))
    db = await Tenant.open(DatabaseOptions(url=old))
    try:
        [[job]] = await remote.fetch(db, [Fetch(queues=["team/mail"], count=1, worker="w")])
        assert job.queue == "team/mail"
    finally:
        await db.close()
