"""A server of the Open Job Spec whose clock stands still until it is moved: one a module, empty for each test."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest_asyncio

from tests.conformance.ojs_client import OjsClient, ojs_client
from windlass.testing import Clock, Databases

STARTED = timedelta(seconds=10)  # since when the Postgres runs: it releases no lease in its first seconds


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(databases: Databases) -> AsyncIterator[OjsClient]:
    async with databases.fresh() as url, ojs_client(url, Clock(), test_mode=True) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def ojs(served: OjsClient) -> OjsClient:
    assert served.clock is not None
    served.clock.set(datetime.now(UTC) + STARTED)
    await served.ask("POST", "/admin/reset", {})
    return served
