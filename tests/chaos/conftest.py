"""A database with a table for effects."""

import pytest

from tests.chaos.harness import Inbox
from tests.chaos.runs import Runs


@pytest.fixture
async def inbox(database: str) -> Inbox:
    opened = Inbox(database)
    await opened.prepare()
    return opened


@pytest.fixture
async def runs(database: str) -> Runs:
    opened = Runs(database)
    await opened.prepare()
    return opened
