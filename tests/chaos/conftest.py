"""A database with a table for effects."""

from collections.abc import AsyncIterator

import pytest

from tests.chaos.harness import Inbox
from tests.chaos.runs import Runs
from windlass.testing import Databases


@pytest.fixture
async def database(databases: Databases) -> AsyncIterator[str]:
    """A fresh one: with a table more it could not be recycled, and some tests count its connections."""
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
