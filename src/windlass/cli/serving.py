"""HTTP for the commands that serve. The web is imported when one of them runs: all others start a third sooner."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from windlass.app import Windlass

if TYPE_CHECKING:
    from windlass.web.server import Listener


def listen(host: str, port: int, **options: Any) -> "Listener":
    """Bind before anything else is started."""
    from windlass.web import server

    return server.listen(host, port, **options)


@contextlib.asynccontextmanager
async def serving(app: Windlass, listener: "Listener", stop: asyncio.Event, *, public: str = "") -> AsyncIterator[None]:
    """Serve for as long as the block lasts. `public` is where the outside world finds it."""
    from windlass.web import server
    from windlass.web.middleware.guard import GuardOptions

    guard = GuardOptions(host=listener.host, keys=app.settings.api_keys, public_host=urlsplit(public).hostname)
    async with server.serving(server.build(app, guard, stopping=stop), listener):
        yield
