from collections.abc import Iterator

import pytest

from windlass.effects.handlers import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    """Yield the thread pool of sync handlers."""
    pool = Threads(2)
    yield pool
    pool.close()
