import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.cron.recorder import Ends, Recorder
from windlass.cron import Cron, FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
async def cron(clock: FakeClock) -> AsyncIterator[Cron]:
    """Yield a running scheduler. A failed test may leave jobs that never end: closing waits at most two seconds."""
    running = Cron(clock=clock)
    await running.__aenter__()
    yield running
    with suppress(TimeoutError):
        await asyncio.wait_for(running.aclose(), 2)
