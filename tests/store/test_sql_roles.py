"""Roles of SQL clients that belong to an org: the statements of the contract work unchanged, in that org only."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from tests.store.contract_harness import CANCEL, CLAIM, CREATE, HEARTBEAT, LEASE, LOG, execute
from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import control as orgs
from windlass.engine.orgs import sql_roles
from windlass.errors import Conflict, Invalid, NotFound
from windlass.schemas.orgs import SqlRole

Client = Any
DENIED = asyncpg.InsufficientPrivilegeError


@pytest.fixture
async def acme(db: Tenant) -> Tenant:
    await orgs.create(db, "acme")
    await orgs.create(db, "rival")
    return db.tenant("acme")


async def client_of(db: Tenant, database: str, org: str, *, is_worker: bool) -> AsyncIterator[Client]:
    role = f"client_{uuid4().hex[:12]}"
    await sql_roles.grant(db, org, role, is_worker=is_worker)
    client = await asyncpg.connect(database)
    await client.execute(f"set session authorization {role}")
    try:
        yield client
    finally:
        await client.close()
        owner = await asyncpg.connect(database)
        await owner.execute(f"drop owned by {role}; drop role {role}")
        await owner.close()


@pytest.fixture
async def producer(db: Tenant, acme: Tenant, database: str) -> AsyncIterator[Client]:
    async for client in client_of(db, database, "acme", is_worker=False):
        yield client


@pytest.fixture
async def worker(db: Tenant, acme: Tenant, database: str) -> AsyncIterator[Client]:
    async for client in client_of(db, database, "acme", is_worker=True):
        yield client


@pytest.fixture
async def strange(db: Tenant, acme: Tenant) -> UUID:
    """A job of another org."""
    return (await jobs.submit(db.tenant("rival"), [JobSpec(type="billing.pay.v1", payload={}, queue="sql")]))[0]


async def test_a_job_of_a_producer_belongs_to_its_org(producer: Client, acme: Tenant, db: Tenant) -> None:
    id_ = await producer.fetchval(CREATE)
    job = await jobs.get(acme, id_)
    assert (job.queue, job.idempotency_key) == ("sql", "acme/content:c_123:thumbnail:300x300")
    assert (await jobs.list_(db)).jobs == []
    assert await producer.fetchval(CREATE) is None
    await execute(producer, LOG, run_id=id_)
    await execute(producer, CANCEL, run_id=id_)
    assert [event.event_type for event in await jobs.events(acme, id_)] == ["created", "heartbeat", "cancelled"]


async def test_the_same_key_in_two_orgs_is_two_jobs(producer: Client, conn: Client) -> None:
    assert await conn.fetchval(CREATE) != await producer.fetchval(CREATE)


async def test_a_worker_claims_and_ends_jobs_of_its_org_only(worker: Client, acme: Tenant, strange: UUID) -> None:
    [ours] = await jobs.submit(acme, [JobSpec(type="billing.pay.v1", payload={})])
    async with worker.transaction():
        claimed = await worker.fetch(CLAIM)
        assert [row["id"] for row in claimed] == [ours]
        await execute(worker, LEASE, run_id=ours, worker_id="w")
    await execute(worker, HEARTBEAT, run_id=ours)
    done = "update workflow.workflow_run set status = 'succeeded', result = '1' where id = $1"
    assert await worker.execute(done, ours) == "UPDATE 1"
    assert (await jobs.get(acme, ours)).result == 1


async def test_another_org_is_neither_seen_nor_changed(worker: Client, db: Tenant, strange: UUID, conn: Client) -> None:
    row = "select t::text from workflow.workflow_run t where id = $1"
    before = await conn.fetchval(row, strange)
    assert await worker.fetch("select id from workflow.workflow_run") == []
    assert await worker.fetch("select id from workflow.workflow_event") == []
    for change in ("status = 'cancelled'", "status = 'leased', leased_by = 'me'", "result = '1'", "deleted_at = now()"):
        assert await worker.execute(f"update workflow.workflow_run set {change} where id = $1", strange) == "UPDATE 0"
    with pytest.raises(DENIED, match="row-level security"):
        await execute(worker, LOG, run_id=strange)
    assert await conn.fetchval(row, strange) == before


@pytest.mark.parametrize("setting", ["windlass.org", "windlass.writes_events"])
async def test_settings_give_a_client_no_access_to_another_org(worker: Client, strange: UUID, setting: str) -> None:
    await worker.execute(f"select set_config('{setting}', 'rival', false)")
    assert await worker.fetch("select id from workflow.workflow_run") == []


@pytest.mark.parametrize(
    "statement",
    [
        "set role windlass_api",
        "insert into workflow.workflow_run (type, payload, org) values ('a.b.v1', '{}', 'rival')",
        "insert into workflow.workflow_run (type, payload, queue) values ('a.b.v1', '{}', 'rival/sql')",
        "select * from windlass.secret",
        "select windlass.send('rival', 'paid', '', false, 'null', null, 'me')",
    ],
)
async def test_statements_beyond_the_rights_of_a_client_are_denied(worker: Client, statement: str) -> None:
    with pytest.raises(DENIED):
        await worker.execute(statement)


@pytest.mark.parametrize("type_", ["windlass.http.v1", "windlass.webhook.v1"])
async def test_reserved_types_are_rejected(producer: Client, type_: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="reserved"):
        await producer.execute("insert into workflow.workflow_run (type, payload) values ($1, '{}')", type_)


async def test_a_role_belongs_to_one_org(db: Tenant, acme: Tenant, conn: Client) -> None:
    role = f"client_{uuid4().hex[:12]}"
    try:
        await sql_roles.grant(db, "acme", role)
        await sql_roles.grant(db, "acme", role, is_worker=True)
        with pytest.raises(Conflict, match="belongs to org acme"):
            await sql_roles.grant(db, "rival", role)
        assert await sql_roles.list_(db) == [SqlRole(role=role, org="acme")]
        await sql_roles.revoke(db, role)
        assert not await conn.fetchval("select has_schema_privilege($1, 'workflow', 'USAGE')", role)
        with pytest.raises(NotFound):
            await sql_roles.revoke(db, role)
    finally:
        await conn.execute(f"drop owned by {role}; drop role {role}")


@pytest.mark.parametrize("role", ["Robert'); drop table", "", "a-b"])
async def test_a_name_that_needs_quotes_is_refused(db: Tenant, acme: Tenant, role: str) -> None:
    with pytest.raises(Invalid) as refused:
        await sql_roles.grant(db, "acme", role)
    assert refused.value.field == "role"


async def test_a_superuser_cannot_belong_to_an_org(db: Tenant, acme: Tenant, conn: Client) -> None:
    name = await conn.fetchval("select current_user")
    with pytest.raises(Conflict, match="acts for all orgs"):
        await sql_roles.grant(db, "acme", name)


async def test_a_client_does_not_learn_the_org_of_an_id(db: Tenant, producer: Client) -> None:
    [other] = await jobs.submit(db.tenant("rival"), [JobSpec(type="a.b.v1", payload={})])
    assert await producer.fetchval("select windlass.job_org($1)", other) == ""
