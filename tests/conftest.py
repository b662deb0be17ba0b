"""Fixtures of all tests: one embedded server for the session, an empty database for each test."""

import asyncio
import functools
import gc
import os
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import httpx._transports.default as transports
import pytest
from hypothesis import HealthCheck, settings

from tests.keys import KEYS
from tests.warm_pools import WarmPools
from windlass import Windlass
from windlass.engine import database as database_module
from windlass.engine import upkeep
from windlass.engine.database import Tenant
from windlass.settings import Settings
from windlass.store.postgres.pool import DatabaseOptions
from windlass.testing import Clock, Databases, embedded_server

# A shell that starts the tests in the background (`nohup make test &`) ignores SIGINT, and so would every process that
# the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each httpx client would read the certificates of all authorities again, which takes 30 ms.
transports.create_ssl_context = functools.cache(transports.create_ssl_context)  # type: ignore[attr-defined]

# Thousands of collected tests stay in memory. The garbage collector would search them again and again.
gc.set_threshold(100_000, 50, 100)

# No deadlines: durations of examples depend on the machine, not on the code.
settings.register_profile(
    "windlass",
    deadline=None,
    max_examples=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.register_profile("soak", settings.get_profile("windlass"), max_examples=1000)
settings.register_profile("brief", settings.get_profile("windlass"), max_examples=5, derandomize=True)
# CI tries the same examples each time, so that a failure is due to the change. Local runs try new examples.
settings.register_profile("ci", settings.get_profile("windlass"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "windlass")


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Yield the URL of a Postgres server: WINDLASS_TEST_DATABASE_URL, or a temporary embedded server."""
    if given := os.environ.get("WINDLASS_TEST_DATABASE_URL"):
        yield given
        return
    with embedded_server() as url:
        yield url


@pytest.fixture(scope="session")
def databases(server: str) -> Iterator[Databases]:
    made = Databases(server)
    yield made
    asyncio.run(made.close())


@pytest.fixture(scope="session")
async def warm_pools() -> AsyncIterator[WarmPools]:
    """Keep the pools that tests open and close: see warm_pools.py."""
    pools = WarmPools(asyncio.get_running_loop())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database_module, "open_pool", pools.open)
        patch.setattr(database_module, "close_pool", pools.close)
        yield pools
    pools.terminate()


@pytest.fixture
async def database(databases: Databases, warm_pools: WarmPools) -> AsyncIterator[str]:
    """Yield the URL of an empty, migrated database."""
    async with databases.recycled() as url:
        warm_pools.recycled.add(url)
        yield url


@pytest.fixture(autouse=True)
async def tasks_end() -> AsyncIterator[None]:
    """Cancel the tasks that a test leaves behind: the next test has the same event loop."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def db(database: str, clock: Clock) -> AsyncIterator[Tenant]:
    opened = await Tenant.open(DatabaseOptions(url=database, clock=clock.now), keys=KEYS)
    yield opened
    await opened.close()


@pytest.fixture
async def other_org(database: str) -> AsyncIterator[Tenant]:
    opened = await Tenant.open(DatabaseOptions(url=database), org="acme", keys=KEYS)
    yield opened
    await opened.close()


@pytest.fixture
async def other_db(database: str, clock: Clock) -> AsyncIterator[Tenant]:
    """Yield a second connection pool for the same database, as another process has it."""
    opened = await Tenant.open(DatabaseOptions(url=database, clock=clock.now), keys=KEYS)
    yield opened
    await opened.close()


@pytest.fixture
async def app(database: str) -> AsyncIterator[Windlass]:
    async with Windlass(database, settings=Settings(master_keys=KEYS)) as opened:
        yield opened


@pytest.fixture
async def this_week(db: Tenant, conn: "asyncpg.Connection[Any]") -> None:
    """Recreate the partitions of the trail from this week on: the template may have been created last week."""
    for (partition,) in await conn.fetch(
        "select inhrelid::regclass::text from pg_inherits where inhparent = 'workflow.workflow_event'::regclass"
        " and inhrelid <> 'workflow.workflow_event_default'::regclass"
    ):
        await conn.execute(f"drop table {partition}")
    await upkeep.tend(db, age=timedelta(days=3650))


@pytest.fixture
async def conn(database: str) -> AsyncIterator["asyncpg.Connection[Any]"]:
    """Yield a plain connection, as a client in any language has it."""
    connection = await asyncpg.connect(database)
    yield connection
    await connection.close()
