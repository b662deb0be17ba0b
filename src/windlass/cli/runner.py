"""How a command's coroutine is run, and how a process with work in it ends."""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from windlass import settings
from windlass.app import Windlass
from windlass.cli import local_key
from windlass.cli.backend.direct import Direct
from windlass.cli.backend.interface import Backend
from windlass.cli.commands import logs
from windlass.errors import Unavailable, WindlassError
from windlass.runtime.worker.worker import Worker

try:
    import uvloop
except ImportError:  # an optional extra
    uvloop = None  # type: ignore[assignment]  # a module or nothing

T = TypeVar("T")
JOBS_LEFT = 5  # exit code of a worker that could not hand back or report all its jobs
_log = logging.getLogger("windlass.cli")


def backend(action: Callable[[Backend], Awaitable[T]]) -> T:
    """Do one thing with Windlass: through the server that --url or WINDLASS_URL names, or else on the database."""
    chosen = settings.read()
    if chosen.url is None:
        return use(lambda app: action(Direct(app)))
    logs.configure(chosen, brief=True)
    key = chosen.api_keys[0] if chosen.api_keys else local_key.find(chosen.home, chosen.url)
    return asyncio.run(_remotely(action, chosen.url, key))


async def _remotely(action: Callable[[Backend], Awaitable[T]], url: str, key: str | None) -> T:
    from windlass.cli.backend.remote import remote  # only those who go through a server pay for the import

    async with remote(url, key) as found:
        return await action(found)


def through(url: str) -> None:
    """--url is WINDLASS_URL, said on the command line."""
    os.environ["WINDLASS_URL"] = url


def use(action: Callable[[Windlass], Awaitable[T]]) -> T:
    """Open Windlass on its database, do one thing with it, close it again."""
    chosen = settings.read()
    logs.configure(chosen, brief=True)

    async def inside() -> T:
        app = Windlass(settings=chosen)
        try:
            return await action(app)
        finally:
            await app.close()

    return asyncio.run(inside())


def run(main: Coroutine[Any, Any, T]) -> T:
    """For processes that stay: on uvloop if it is installed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        return runner.run(main)


def sentence(error: Exception) -> str | None:
    """What to say about an error that is not a defect of ours; None: it is one.

    Ours, and what a server says about itself (wrong password, no such database, no rights), which has a SQLSTATE.
    """
    if isinstance(error, Unavailable) and error.__cause__ is not None and str(error.__cause__):
        return f"{error} ({error.__cause__})"  # the driver's words name the address, which is no secret here
    if isinstance(error, WindlassError):
        return str(error).strip()
    return f"the database refused: {error}" if getattr(error, "sqlstate", None) else None


def leave(worker: Worker | None, code: int) -> None:
    """End the process. Threads that ignore their cancellation would keep it alive for ever."""
    if worker is not None and worker.left and code == 0:
        code = JOBS_LEFT
    if worker is not None and worker.stuck:
        _log.warning("%d thread(s) did not stop when told: ending without them", worker.stuck)
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)
