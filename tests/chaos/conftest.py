"""A database with a table for effects."""

import pytest

from tests.chaos.harness import Inbox


@pytest.fixture
async def inbox(database: str) -> Inbox:
    opened = Inbox(database)
    await opened.prepare()
    return opened
