"""Databases and clients of the store's tests."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.store.roles import acting
from windlass.testing import Databases


@pytest.fixture
async def database(databases: Databases, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """The URL of an empty, migrated database: a fresh one for plans, which depend on statistics and dead rows."""
    make = databases.fresh if request.path.stem.endswith("plans") else databases.recycled
    async with make() as url:
        yield url


@pytest.fixture(params=["owner", "billing_worker", "wide"])
async def client(request: pytest.FixtureRequest, database: str, conn: Any) -> AsyncIterator[Any]:
    """A client of the SQL contract: only `workflow` on the path, and perhaps only the rights that it needs."""
    if request.param == "owner":
        client = await asyncpg.connect(database)
        await client.execute("SET search_path TO workflow")
        yield client
        await client.close()
        return
    async with acting(database, request.param) as client:
        await client.execute("SET search_path TO workflow")
        name = await client.fetchval("select session_user")
        await conn.execute(f"grant insert, update on workflow.workflow_schedule, workflow.workflow_registry to {name}")
        yield client
