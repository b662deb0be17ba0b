"""Fresh databases: plans depend on statistics and dead rows, which a recycled database keeps."""

from collections.abc import AsyncIterator

import pytest

from windlass.testing import Databases


@pytest.fixture
async def database(databases: Databases) -> AsyncIterator[str]:
    """The URL of a fresh, migrated database."""
    async with databases.fresh() as url:
        yield url
