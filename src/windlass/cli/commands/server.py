"""`windlass server`: HTTP and the loops, without a worker: for installations whose workers are elsewhere."""

import logging
import os
from typing import TYPE_CHECKING, Annotated

import typer

from windlass import __version__, settings
from windlass.app import Windlass
from windlass.cli.commands import logs
from windlass.cli.output import Json, say, show_json
from windlass.cli.runner import leave, run
from windlass.cli.serving import listen, serving
from windlass.effects.signals import Signals
from windlass.engine.maintenance import without_password

if TYPE_CHECKING:
    from windlass.web.server import Listener

EXAMPLES = """Examples:

windlass server

windlass server --host 0.0.0.0 --port 8080

Workers of the Open Job Spec come to /ojs/v1; Python workers are started with windlass worker."""
_log = logging.getLogger("windlass.cli")


def server(
    host: Annotated[str, typer.Option(help="Beyond loopback WINDLASS_API_KEY must be set.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8080,
    json: Json = False,
    log_format: logs.LogFormat = None,
) -> None:
    """Serve HTTP, timers and schedules until Ctrl-C; jobs are executed by others."""
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)
    app = Windlass(settings=chosen)
    listener = listen(host, port, keys=chosen.api_keys, test_mode=chosen.test_mode)
    leave(*run(_serve(app, listener, json=json)))


def warn_of_test_mode(app: Windlass) -> None:
    if app.settings.test_mode:
        _log.warning("TEST MODE: anybody on this machine may wipe the database; never set WINDLASS_TEST_MODE elsewhere")


async def _serve(app: Windlass, listener: "Listener", *, json: bool) -> tuple[None, int]:
    with Signals() as signals:
        async with app:
            public = await app.listen_at(listener.url)
            async with serving(app, listener, signals.stop, public=public):
                _tell(app, listener, json=json)
                await app.tend(stop=signals.stop)
        return None, signals.exit_code


def _tell(app: Windlass, listener: "Listener", *, json: bool) -> None:
    warn_of_test_mode(app)
    database = without_password(app.url())[0]
    if json:
        show_json({"http": listener.url, "database": database, "pid": os.getpid(), "types": []})
        return
    say(f"windlass {__version__} serves, Ctrl-C stops it", "bold")
    say(f"http      {listener.url}  (/api/v1, /ojs/v1, /health, /ready, /metrics)")
    say(f"database  {database}")
