"""What commands that run until Ctrl-C share: the event loop, HTTP, and how the process ends.

The web layer is imported where HTTP is served: a worker or scheduler without a port starts sooner.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from windlass.app import Windlass
from windlass.runtime.worker.worker import Worker

try:
    import uvloop
except ImportError:  # an optional extra
    uvloop = None  # type: ignore[assignment]  # a module or nothing

if TYPE_CHECKING:
    from windlass.web.server import Listener

T = TypeVar("T")
JOBS_LEFT = 5  # exit code of a worker that could not report or return all its jobs
_log = logging.getLogger("windlass.cli")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, on uvloop if it is installed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        return runner.run(main)


def listen(host: str, port: int, **options: Any) -> "Listener":
    """Bind the address before anything else is started."""
    from windlass.web import server

    return server.listen(host, port, **options)


@contextlib.asynccontextmanager
async def serving(app: Windlass, listener: "Listener", stop: asyncio.Event, *, public: str = "") -> AsyncIterator[None]:
    """Serve HTTP while the block runs. `public` is the URL by which other machines reach this server."""
    from windlass.web import server
    from windlass.web.middleware.guard import GuardOptions

    guard = GuardOptions(host=listener.host, keys=app.settings.api_keys, public_host=urlsplit(public).hostname)
    async with server.serving(server.build(app, guard, stopping=stop), listener):
        yield


def leave(worker: Worker | None, code: int) -> None:
    """Exit; without waiting for threads that ignored their cancellation and would keep the process alive."""
    if worker is not None and worker.left and code == 0:
        code = JOBS_LEFT
    if worker is not None and worker.stuck:
        _log.warning("%d thread(s) ignored their cancellation: exiting without them", worker.stuck)
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
