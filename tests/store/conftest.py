"""Fixtures of fresh databases: query plans depend on statistics and dead rows, which a recycled database keeps."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.store.roles import acting
from windlass.testing import Databases


@pytest.fixture
async def database(databases: Databases) -> AsyncIterator[str]:
    """Yield the URL of a fresh, migrated database."""
    async with databases.fresh() as url:
        yield url


@pytest.fixture(params=["owner", "billing_worker", "wide"])
async def client(request: pytest.FixtureRequest, database: str, conn: Any) -> AsyncIterator[Any]:
    """Yield a client of the SQL contract with `workflow` as search path: as the owner and as two restricted roles."""
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
