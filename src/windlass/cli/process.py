"""Shared functions of commands that run until Ctrl-C: the event loop, HTTP, the exit, and loading of MODULE:APP.

The web layer is imported only if HTTP is served, so that a worker or scheduler without a port starts faster.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import sys
import traceback
from collections.abc import AsyncIterator, Coroutine, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from windlass.app import Windlass
from windlass.effects.handlers import like
from windlass.errors import Invalid
from windlass.runtime.worker.worker import Worker

try:
    import uvloop
except ImportError:  # an optional extra
    uvloop = None  # type: ignore[assignment]  # a module or nothing

if TYPE_CHECKING:
    from windlass.web.server import Listener

T = TypeVar("T")
EXAMPLE = "for example windlass worker shop.jobs:app for `app = Windlass()` in shop/jobs.py"
JOBS_LEFT = 5  # exit code of a worker that could not report or return all its jobs
_log = logging.getLogger("windlass.cli")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, on uvloop if it is installed."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop if uvloop else None) as runner:
        return runner.run(main)


def listen(host: str, port: int, **options: Any) -> "Listener":
    """Bind the address. Called before anything else is started."""
    from windlass.web import server

    return server.listen(host, port, **options)


@contextlib.asynccontextmanager
async def serving(app: Windlass, listener: "Listener", stop: asyncio.Event, *, public: str = "") -> AsyncIterator[None]:
    """Serve HTTP while the block runs. `public` is the URL by which other machines reach this server."""
    from windlass.web import server
    from windlass.web.middleware.guard import GuardOptions

    url = urlsplit(public)
    guard = GuardOptions(
        host=listener.host,
        keys=app.settings.api_keys,
        public_host=url.hostname,
        public_origin=f"{url.scheme}://{url.netloc}".lower() if public else None,
    )
    async with server.serving(server.build(app, guard, stopping=stop), listener):
        yield


def leave(worker: Worker | None, code: int) -> None:
    """Exit without waiting for threads that ignored their cancellation and would keep the process alive."""
    if worker is not None and worker.left and code == 0:
        code = JOBS_LEFT
    if worker is not None and worker.stuck:
        _log.warning("%d thread(s) ignored their cancellation: exiting without them", worker.stuck)
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


# The app that MODULE:APP names


def load_app(target: str) -> Windlass:
    """Import the module with the current folder on the path, as `python -m` does, and return its app."""
    module_name, colon, name = target.partition(":")
    if not module_name or (colon and not name):
        raise Invalid(f"{target!r} is not MODULE:APP: {EXAMPLE}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = _import(module_name)
    app = _checked(module, name or "app")
    app.target = f"{module_name}:{name or 'app'}"
    return app


def check_prefixes(app: Windlass, prefixes: Iterable[str]) -> None:
    """Raise `Invalid` if a prefix matches no handler: the worker would never claim a job for it."""
    types = app.handlers.types()
    for prefix in prefixes:
        if not any("%" in type_ or like(prefix).fullmatch(type_) for type_ in types):
            raise Invalid(
                f"no handler matches --prefix {prefix!r}: it is a LIKE pattern such as 'billing.%', and the handlers "
                f"are {', '.join(types)}",
                field="prefix",
            )


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise Invalid(
                f"there is no module {name!r}: run this in the folder that contains it, or add that to PYTHONPATH"
            ) from None
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> Invalid:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{error.filename}, line {error.lineno}" if isinstance(error, SyntaxError) else ""
    where = where or f"{frame.filename}, line {frame.lineno}"
    message = error.msg if isinstance(error, SyntaxError) else error
    return Invalid(f"importing {name!r} failed: {type(error).__name__}: {message} ({where})")


def _checked(module: ModuleType, name: str) -> Windlass:
    value: object = module
    for part in name.split("."):
        if not hasattr(value, part):
            raise Invalid(f"module {module.__name__!r} has no {name!r}: {_candidates(module)}")
        value = getattr(value, part)
    if not isinstance(value, Windlass):
        kind = type(value).__name__
        raise Invalid(f"{module.__name__}:{name} is a {kind}, not a Windlass object: {_candidates(module)}")
    if not value.built and all(type_.startswith("windlass.") for type_ in value.handlers.types()):  # the built-in ones
        raise Invalid(
            f"{module.__name__}:{name} has no handlers: decorate functions with @{name}.job('content.thumbnail.v1'), "
            "or import the modules that contain them"
        )
    return value


def _candidates(module: ModuleType) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Windlass)]
    if not names:
        return f"it should have `app = Windlass()`; {EXAMPLE}"
    return f"did you mean {' or '.join(f'{module.__name__}:{name}' for name in names)}?"
