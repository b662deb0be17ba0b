"""A fixture that serves the example shop on a free port."""

from collections.abc import AsyncIterator
from ipaddress import ip_network

import pytest
from examples.shop import Shop, serving

LOOPBACK = (ip_network("127.0.0.1/32"),)  # the allow list with which HTTP steps reach it


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with serving() as opened:
        yield opened
