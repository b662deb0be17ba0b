"""Fixtures: a fresh database with a table for the effects of handlers."""

from collections.abc import AsyncIterator

import pytest

from tests.chaos.harness import Inbox
from tests.chaos.runs import Runs
from windlass.testing import Databases


@pytest.fixture
async def database(databases: Databases) -> AsyncIterator[str]:
    """Yield the URL of a fresh database: the table prevents recycling, and some tests count the connections."""
    async with databases.fresh() as url:
        yield url


@pytest.fixture
async def inbox(database: str) -> AsyncIterator[Inbox]:
    async with Inbox.open(database) as opened:
        await opened.prepare()
        yield opened


@pytest.fixture
async def runs(database: str) -> AsyncIterator[Runs]:
    async with Runs.open(database) as opened:
        await opened.prepare()
        yield opened
