"""A server of the Open Job Spec with a manual clock: one per module, reset for each test."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest_asyncio

from tests.conformance.ojs_client import OjsClient, ojs_client
from windlass.testing import Clock, Databases

STARTED = timedelta(seconds=10)  # time since the start of Postgres: in its first seconds no lease is released


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
