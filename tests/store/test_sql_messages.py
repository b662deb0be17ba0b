"""Signals, events and starts with plain SQL: in the transaction of the client, for its org only."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.engine.harness import letters, state, tick
from tests.store.test_sql_roles import client_of
from windlass.core.definition.parser import parse
from windlass.core.events.message import MOST_SIGNALS
from windlass.effects.documents import load_yaml
from windlass.engine import messages, quarantine, workflows
from windlass.engine.database import Tenant
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import sql_roles
from windlass.engine.runs import control as runs
from windlass.engine.runs import requests, start
from windlass.engine.runs.start import RunSpec

Client = Any
ORDER = {"name": "order", "tasks": {"paid": {"wait_for_event": {"name": "paid", "key": "{{input.id}}"}}}}
APPROVAL = {"name": "approval", "tasks": {"ok": {"wait_for_event": "ok"}}}


@pytest.fixture
async def acme(db: Tenant) -> Tenant:
    await orgs.create(db, "acme")
    await orgs.create(db, "rival")
    tenant = db.tenant("acme")
    for owner in (db, tenant, db.tenant("rival")):
        for document in (ORDER, APPROVAL):
            await workflows.publish(owner, parse(document))
    return tenant


@pytest.fixture
async def client(db: Tenant, acme: Tenant, database: str) -> AsyncIterator[Client]:
    async for each in client_of(db, database, "acme", is_worker=False):
        yield each


async def begun(db: Tenant, workflow: str, **input_: Any) -> UUID:
    return (await start.start(db, workflow, [RunSpec(input=input_)]))[0]


async def test_a_client_publishes_to_its_own_org_in_its_own_transaction(
    db: Tenant, acme: Tenant, client: Client
) -> None:
    ours, theirs = await begun(acme, "order", id="42"), await begun(db, "order", id="42")
    await client.execute("begin")
    assert await client.fetchval("select windlass.publish('paid', '42')")
    await client.execute("rollback")
    await tick(db)
    assert await letters(acme, ours) == "a"
    publish = """select windlass.publish(name => 'paid', key => '42', payload => '{"cents": 995}', id => 'p1')"""
    assert [await client.fetchval(publish) for _ in range(2)] == [True, False]
    await tick(db)
    assert (await letters(acme, ours), await letters(db, theirs)) == ("s", "a")
    assert await runs.output(acme, ours) == {"cents": 995}


async def test_a_client_signals_runs_of_its_own_org_only(db: Tenant, acme: Tenant, client: Client) -> None:
    ours, theirs = await begun(acme, "approval"), await begun(db.tenant("rival"), "approval")
    for unknown in (theirs, uuid4()):
        with pytest.raises(asyncpg.NoDataFoundError, match=f"no run {unknown}"):
            await client.execute("select windlass.signal($1, 'ok')", unknown)
    assert await client.fetchval("select windlass.signal($1, 'ok', '[1]')", ours)
    await tick(db)
    assert await runs.output(acme, ours) == [1]
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="has ended"):
        await client.execute("select windlass.signal($1, 'ok')", ours)
    assert await letters(db.tenant("rival"), theirs) == "a"


async def test_a_client_starts_runs_of_its_own_org_that_begin_after_its_commit(
    db: Tenant, acme: Tenant, client: Client
) -> None:
    async with client.transaction():
        run = await client.fetchval("""select windlass.start('order', '{"id": "42"}')""")
        await tick(db)
        assert (await runs_of(db), await runs_of(acme)) == ([], [])
    await requests.serve(db)
    assert (await runs_of(db), await runs_of(acme)) == ([], [run])
    assert (await state(acme, run), (await runs.get(acme, run)).input) == ("running", {"id": "42"})


async def runs_of(db: Tenant) -> list[UUID]:
    async with db.once() as conn:
        return [row[0] for row in await conn.fetch("select id from windlass.run where org = $1", db.org)]


async def test_a_known_idempotency_key_returns_its_run(db: Tenant, acme: Tenant, client: Client) -> None:
    starts = "select windlass.start('order', idempotency_key => 'order-1')"
    first = await client.fetchval(starts)
    assert await client.fetchval(starts) == first
    await requests.serve(db)
    assert await client.fetchval(starts) == first
    assert await requests.serve(db) == 0
    [begun_] = await start.start(acme, "order", [RunSpec(idempotency_key="order-1")])
    assert begun_ == first
    [known] = await start.start(acme, "order", [RunSpec(idempotency_key="order-2")])
    assert await client.fetchval("select windlass.start('order', idempotency_key => 'order-2')") == known


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("windlass.start('unknown')", asyncpg.NoDataFoundError, "no workflow 'unknown'"),
        ("windlass.start('order', idempotency_key => 'event/1')", asyncpg.CheckViolationError, "use another key"),
        ("windlass.publish('')", asyncpg.CheckViolationError, "name is empty"),
        ("windlass.publish('windlass.run')", asyncpg.CheckViolationError, "windlass. is reserved"),
        ("windlass.publish('x', repeat('k', 401))", asyncpg.CheckViolationError, "key is 401 characters long"),
        ("windlass.publish('x', id => '')", asyncpg.CheckViolationError, "id is empty"),
        ("windlass.publish('x', payload => to_jsonb(repeat('x', 1048577)))", asyncpg.CheckViolationError, "payload is"),
    ],
)
async def test_an_invalid_call_is_rejected_and_has_no_effect(
    db: Tenant, client: Client, call: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await client.execute(f"select {call}")
    assert (await messages.route(db), await requests.serve(db)) == (0, 0)


async def test_a_disabled_workflow_cannot_be_started(acme: Tenant, client: Client) -> None:
    await workflows.enable(acme, "order", False)
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="windlass workflows enable order"):
        await client.execute("select windlass.start('order')")


async def test_only_the_start_request_that_cannot_be_served_is_set_aside_and_it_can_be_retried(
    db: Tenant, acme: Tenant, client: Client
) -> None:
    late, other = [await client.fetchval(f"select windlass.start('{name}')") for name in ("order", "approval")]
    await workflows.enable(acme, "order", False)
    await requests.serve(db)
    assert await runs_of(acme) == [other]
    [entry] = await quarantine.list_(acme)
    assert (entry.kind, entry.key) == ("start", str(late))
    await workflows.enable(acme, "order", True)
    assert await requests.retry(db, late)
    assert set(await runs_of(acme)) == {late, other}


async def test_concurrent_loops_start_each_run_once(db: Tenant, other_db: Tenant, acme: Tenant, client: Client) -> None:
    ids = {await client.fetchval("select windlass.start('approval')") for _ in range(20)}
    await asyncio.gather(*(requests.serve(each) for each in (db, other_db) for _ in range(3)))
    await requests.serve(db)
    assert set(await runs_of(acme)) == ids


async def test_a_client_has_access_only_through_the_functions(acme: Tenant, client: Client) -> None:
    for table in ("message", "waiter", "start_request"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await client.execute(f"select * from windlass.{table}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await client.execute("select windlass.send('rival', 'paid', '', false, 'null', null, 'me')")
    await client.execute("set windlass.org = 'rival'")
    assert await client.fetchval("select windlass.calling_org()") == "acme"


async def test_a_revoked_role_may_not_call_the_functions(db: Tenant, client: Client) -> None:
    role = await client.fetchval("select session_user::text")
    await sql_roles.revoke(db, role)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await client.execute("select windlass.publish('paid')")


async def test_the_owner_of_the_database_acts_for_the_org_in_a_setting(acme: Tenant, conn: Client) -> None:
    run = await begun(acme, "approval")
    with pytest.raises(asyncpg.NoDataFoundError):
        await conn.execute("select windlass.signal($1, 'ok')", run)
    async with conn.transaction():
        await conn.execute("set local windlass.org = 'acme'")
        assert await conn.fetchval("select windlass.signal($1, 'ok')", run)


async def test_sql_has_the_same_limit_of_signals_as_python(conn: Client) -> None:
    assert f"session_user, {MOST_SIGNALS})" in await conn.fetchval(
        "select pg_get_functiondef('windlass.signal'::regproc)"
    )


# The guide


async def test_the_trigger_of_the_guide_publishes_inserted_rows(
    db: Tenant, acme: Tenant, conn: Client, database: str
) -> None:
    trigger, grants = blocks("sql")
    role = f"shop_{uuid4().hex[:12]}"
    await conn.execute("create schema shop; create table shop.payment (id int primary key, order_id int)")
    await conn.execute(trigger)
    await conn.execute(
        f"create role {role}; grant usage on schema shop to {role}; grant insert on shop.payment to {role}"
    )
    await conn.execute(grants.replace("to shop;", f"to {role};"))
    run = await begun(db, "order", id=42)
    shop = await asyncpg.connect(database)
    try:
        await shop.execute(f"set session authorization {role}")
        await shop.execute("insert into shop.payment values (7, 42)")
        assert not await shop.fetchval("select windlass.publish('paid', '42', id => 'payment-7')")
    finally:
        await shop.close()
        await conn.execute(f"drop owned by {role}; drop role {role}; drop schema shop cascade")
    await tick(db)
    assert await runs.output(db, run) == {"id": 7, "order_id": 42}


def test_the_workflows_of_the_guide_are_valid() -> None:
    documents = [document for text in blocks("yaml") for document in load_yaml(text)]
    assert [parse(document).name for document in documents] == ["order", "welcome"]


def blocks(language: str) -> list[str]:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "send-events-and-signals.md"
    return re.findall(rf"```{language}\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
