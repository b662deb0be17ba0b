from datetime import timedelta

import pytest

from tests.engine.harness import ManualWorker
from windlass.engine.database import Tenant
from windlass.testing import Clock


@pytest.fixture
async def worker(db: Tenant) -> ManualWorker:
    return await ManualWorker.registered(db)


@pytest.fixture
async def an_hour_later(db: Tenant, clock: Clock) -> None:
    """Move the clock, so that the server has run for an hour and leases may expire."""
    clock.move(timedelta(hours=1))
