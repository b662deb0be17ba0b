"""The example shop for tests: open on a free port while a test runs."""

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from examples.shop import Shop, serving

LOOPBACK = (ip_network("127.0.0.1/32"),)  # what HTTP steps must be allowed to reach it


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with serving() as opened:
        yield opened
