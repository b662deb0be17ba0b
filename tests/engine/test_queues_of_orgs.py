"""Queues of orgs: the same name in two orgs is two queues, and Python workers serve both."""

from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs import queues
from windlass.engine.workers import registry, remote, turn
from windlass.engine.workers.remote import Fetch
from windlass.engine.workers.turn import OrgPages
from windlass.errors import NotFound


@pytest.fixture
async def acme(db: Tenant) -> Tenant:
    return db.tenant("acme", actor="acme's program")


async def add(db: Tenant, count: int = 1, **options: Any) -> list[Any]:
    return await jobs.submit(
        db, [JobSpec(type="mail.send.v1", payload={"org": db.org}, **options) for _ in range(count)]
    )


def fetch(queue: str = "default", worker: str = "w", count: int = 10) -> list[Fetch]:
    return [Fetch(queues=[queue], count=count, worker=worker)]


async def test_a_fetch_returns_only_jobs_of_its_own_org(db: Tenant, acme: Tenant) -> None:
    await add(db)
    await add(acme, 2)
    assert [job.payload["org"] for job in (await remote.fetch(acme, fetch()))[0]] == ["acme", "acme"]
    assert [job.payload["org"] for job in (await remote.fetch(db, fetch()))[0]] == ["default"]


async def test_jobs_and_queues_are_shown_with_the_names_that_their_org_uses(db: Tenant, acme: Tenant) -> None:
    [id_] = await add(acme, queue="mail")
    await remote.fetch(acme, fetch("mail", worker="w1"))
    job = await jobs.get(acme, id_)
    assert (job.queue, job.leased_by) == ("mail", "w1")
    assert [queue.row.name for queue in (await queues.list_(acme)).queues] == ["mail"]
    assert (await queues.list_(db)).queues == []
    assert [job.id for job in (await jobs.list_(acme, queue="mail")).jobs] == [id_]


async def test_a_pause_stops_the_queue_of_one_org(db: Tenant, acme: Tenant) -> None:
    await add(db)
    await add(acme)
    await queues.pause(acme, "default")
    assert (await remote.fetch(acme, fetch()))[0] == []
    assert len((await remote.fetch(db, fetch()))[0]) == 1
    assert (await queues.get(acme, "default")).row.paused
    assert not (await queues.get(db, "default")).row.paused


async def test_depths_and_limits_are_counted_for_each_org(db: Tenant, acme: Tenant) -> None:
    await add(db, 3)
    await add(acme, 2)
    await add(acme, delay=timedelta(hours=1))
    assert await queues.depth(acme, "default", cap=100) == 3
    assert await queues.depth(db, "default", cap=100) == 3
    await queues.set_depth_limit(acme, "default", max_depth=5, config={})
    assert list(await queues.depth_limits(acme)) == ["default"]
    assert await queues.depth_limits(db) == {}
    row = (await queues.get(acme, "default")).row
    assert (row.due, row.scheduled) == (2, 1)


async def test_the_same_worker_id_in_two_orgs_is_two_workers(db: Tenant, acme: Tenant) -> None:
    [ours], [theirs] = await add(db), await add(acme)
    await remote.fetch(db, fetch())
    await remote.fetch(acme, fetch())
    for tenant in (db, acme):
        await remote.heartbeat(tenant, "w", [ours, theirs])
    assert [worker.id for worker in await registry.list_(acme)] == ["w"]
    assert [job.id for job in (await registry.get(acme, "w"))[1]] == [theirs]
    await registry.direct(acme, "w", "quiet")
    assert (await remote.heartbeat(db, "w", [])).directive is None
    answer = await remote.heartbeat(acme, "w", [ours, theirs])
    assert (answer.directive, answer.extended) == ("quiet", [theirs])
    with pytest.raises(NotFound):
        await registry.get(db.tenant("other"), "w")


async def test_python_workers_visit_the_queues_of_all_orgs_in_turn(db: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    """With more orgs than one query visits, the next query continues where the last one ended."""
    names = [f"org-{n:03}" for n in range(600)]
    await conn.execute("insert into windlass.org (name) select unnest($1::text[])", names)
    await conn.execute(
        "insert into workflow.workflow_run (type, payload, queue, org) select 'a.b.v1', '{}', 'default', o"
        " from unnest($1::text[]) as o",
        names,
    )
    await conn.execute("update windlass.org set disabled_at = now() where name = 'org-007'")
    assert (await turn.registry(db)).several_orgs
    pages = OrgPages()
    pages.several = True
    seen: list[str] = []
    for _ in range(3):
        seen += [lane.queue for lane in await turn.look(db, ["default"], pages=pages)]
    assert set(seen) == {f"{name}/default" for name in names if name != "org-007"}
    assert await turn.look(db, ["other"], pages=pages) == []


async def test_plain_sql_uses_the_queue_names_of_its_org(
    db: Tenant, acme: Tenant, conn: "asyncpg.Connection[Any]"
) -> None:
    await conn.execute("insert into workflow.workflow_run (type, payload, org) values ('a.b.v1', '{}', 'acme')")
    await conn.execute("select windlass.submit('a.b.v1', '{}', org => 'acme', queue => 'mail')")
    assert sorted(queue.row.name for queue in (await queues.list_(acme)).queues) == ["mail", "sql"]
    with pytest.raises(asyncpg.CheckViolationError):
        await conn.execute("update workflow.workflow_run set queue = 'mail' where org = 'acme'")
