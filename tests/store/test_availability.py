"""An unavailable database is distinguished from an invalid statement."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest

from windlass import Windlass
from windlass.engine.database import Tenant
from windlass.engine.jobs import control as jobs
from windlass.errors import Invalid, Unavailable
from windlass.settings import Settings
from windlass.store.postgres.outage import Trouble, trouble
from windlass.store.postgres.pool import DatabaseOptions
from windlass.web import server
from windlass.web.middleware.guard import GuardOptions
from windlass.web.server import listen, serving

Connection = Any
# Raised by the server, so that the driver converts it into its own error class.
REFUSE = """
create or replace function workflow.refuse() returns trigger language plpgsql as $$
begin raise exception 'host=10.1.2.3 user=secret' using errcode = '{code}'; end $$;
create or replace trigger refuse before insert on workflow.workflow_run for each row
execute function workflow.refuse()"""
CODES = {
    "25006": Trouble.READ_ONLY,  # read_only_sql_transaction
    "53100": Trouble.EXHAUSTED,  # disk_full
    "53200": Trouble.EXHAUSTED,  # out_of_memory
    "53300": Trouble.GONE,  # too_many_connections
    "58030": Trouble.EXHAUSTED,  # io_error
    "57P03": Trouble.GONE,  # cannot_connect_now
    "57014": Trouble.BUSY,  # query_canceled, by a statement_timeout
    "40001": Trouble.BUSY,  # serialization_failure
    "40P01": Trouble.BUSY,  # deadlock_detected
    "55P03": Trouble.BUSY,  # lock_not_available
}


@pytest.fixture
async def http(app: Windlass) -> AsyncIterator[httpx.AsyncClient]:
    listener = listen("127.0.0.1", 0)
    web = server.build(app, GuardOptions(host=listener.host))
    async with serving(web, listener), httpx.AsyncClient(base_url=listener.url, timeout=30) as client:
        yield client


async def test_a_transient_error_of_the_database_is_unavailable_in_every_api(
    app: Windlass, http: httpx.AsyncClient, conn: Connection
) -> None:
    for code, expected in CODES.items():
        await conn.execute(REFUSE.format(code=code))
        with pytest.raises(Unavailable) as caught:
            await app.submit("a.b.v1")
        assert trouble(caught.value.__cause__) is expected, code
        api = await http.post("/api/v1/jobs", json={"type": "a.b.v1"})
        ojs = await http.post("/ojs/v1/jobs", json={"type": "a.b", "args": []})
        for answer in (api, ojs):
            assert (answer.status_code, answer.headers.get("retry-after")) == (503, "1"), code
        for text in (str(caught.value), api.text, ojs.text):
            assert "secret" not in text
            assert "10.1.2.3" not in text


async def test_an_invalid_value_is_not_treated_as_an_outage(conn: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError) as caught:
        await conn.execute("select 1/0")
    assert trouble(caught.value) is None


async def test_a_statement_with_the_wrong_number_of_arguments_is_not_treated_as_an_outage(conn: Connection) -> None:
    with pytest.raises(asyncpg.InterfaceError) as caught:
        await conn.fetch("select $1::int", 1, 2)
    assert trouble(caught.value) is None


async def test_a_refused_connection_is_reported_without_the_address() -> None:
    free = listen("127.0.0.1", 0)
    free.socket.close()
    app = Windlass(f"postgresql://somebody:secret@127.0.0.1:{free.port}/none", settings=Settings())
    with pytest.raises(Unavailable) as caught:
        await app.submit("a.b.v1")
    assert str(caught.value) == "the database did not answer: the connection was refused"


async def test_a_rejected_login_is_reported_without_the_user(database: str) -> None:
    wrong = database.replace("windlass@", "nobody_here@")
    with pytest.raises(Unavailable) as caught:
        await Windlass(wrong, settings=Settings()).submit("a.b.v1")
    assert "the database refused" in str(caught.value)
    assert "nobody_here" not in str(caught.value)


async def test_an_error_in_a_transaction_is_raised_even_if_the_connection_is_lost(db: Tenant) -> None:
    async def use_case() -> None:
        async with db.begin() as conn:
            pid = await conn.fetchval("select pg_backend_pid()")
            async with db.once() as other:
                await other.execute("select pg_terminate_backend($1, 5000)", pid)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await use_case()


async def test_sessions_are_read_committed_regardless_of_the_database_default(database: str, conn: Connection) -> None:
    name = await conn.fetchval("select current_database()")
    await conn.execute(f"alter database \"{name}\" set default_transaction_isolation = 'serializable'")
    for pooler in (False, True):
        db = await Tenant.open(DatabaseOptions(url=database, pooler=pooler))
        async with db.begin() as session:
            assert await session.fetchval("show transaction_isolation") == "read committed"
        await db.close()


async def test_a_statement_over_its_time_limit_is_unavailable_and_its_connection_is_closed(database: str) -> None:
    db = await Tenant.open(DatabaseOptions(url=database, command_timeout=0.2, size=1))
    pids = []

    async def use_case(statement: str) -> None:
        async with asyncio.timeout(30), db.once() as conn:
            pids.append(await conn.fetchval("select pg_backend_pid()"))
            await conn.execute(statement)

    with pytest.raises(Unavailable, match="in time"):
        await use_case("select pg_sleep(3600)")
    await use_case("select 1")
    assert len(set(pids)) == 2
    await db.close()


async def test_a_search_over_its_time_limit_is_stopped_with_an_error_that_suggests_filters(
    database: str, conn: Connection
) -> None:
    """A lock stands in for a large history: only the duration of the statement matters."""
    async with Windlass(database, settings=Settings(search_timeout=0.3)) as app, conn.transaction():
        await conn.execute("lock table workflow.workflow_run, windlass.run in access exclusive mode")
        with pytest.raises(Invalid, match=r"took longer than 0\.3 s and was stopped: filter by type and status"):
            await app.list(tag="rare")
        with pytest.raises(Invalid, match=r"filter by workflow, state, a label"):
            await app.runs(labels={"a": "rare"})
        waiting = (
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        )
        assert await conn.fetchval(waiting) == 0  # stopped on the server too


async def test_a_search_without_a_free_connection_raises_unavailable(database: str) -> None:
    db = await Tenant.open(DatabaseOptions(url=database, size=1, search_timeout=0.2))
    async with db.once():
        with pytest.raises(Unavailable, match="no connection was free"):
            await jobs.list_(db, tag="rare")
    await db.close()
