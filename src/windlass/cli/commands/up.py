"""`windlass up`: database, loops, HTTP and, given an app, a worker; all in one process until Ctrl-C."""

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from windlass import __version__, settings
from windlass.app import Windlass
from windlass.cli import local_key
from windlass.cli.app_loader import load
from windlass.cli.commands import logs
from windlass.cli.commands.server import warn_of_test_mode
from windlass.cli.commands.worker import AllowCommands, announce
from windlass.cli.output import Json, say, show_json
from windlass.cli.runner import leave, run
from windlass.cli.serving import listen, serving
from windlass.core import duration
from windlass.effects.signals import Signals
from windlass.engine.maintenance import check_commands, without_password
from windlass.runtime.worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from windlass.web.server import Listener

EXAMPLES = """Examples:

windlass up

windlass up shop.jobs:app --port 0

Without WINDLASS_DATABASE_URL it starts (and shares) a Postgres of its own, with its data in WINDLASS_HOME."""


def up(
    target: Annotated[
        str | None, typer.Argument(metavar="MODULE:APP", help="Also serve the handlers of this app.")
    ] = None,
    host: Annotated[str, typer.Option(help="Beyond loopback WINDLASS_API_KEY must be set.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 picks a free one.")] = 8080,
    lease: Annotated[str, typer.Option(help="How long a job is ours without a heartbeat.")] = "30s",
    allow_commands: AllowCommands = False,
    json: Json = False,
    log_format: logs.LogFormat = None,
) -> None:
    """Run everything in one process until Ctrl-C."""
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)
    app = Windlass(settings=chosen) if target is None else load(target)
    if allow_commands:
        check_commands(app.place())  # before anything is started
    listener = listen(host, port, keys=app.settings.api_keys, test_mode=app.settings.test_mode)
    key = None
    if allow_commands and not app.settings.api_keys:  # after `listen`: beyond loopback it takes a key of the operator's
        key = local_key.make(app.settings.home)
        app.settings = replace(app.settings, api_keys=(key,))
    options = WorkerOptions(lease=duration.parse(lease, field="lease"), allow_commands=allow_commands)
    leave(*run(_up(app, listener, options, key, json=json)))


async def _up(
    app: Windlass, listener: "Listener", options: WorkerOptions, key: str | None, *, json: bool
) -> tuple[Worker | None, int]:
    with Signals() as signals:
        async with app:
            public = await app.listen_at(listener.url)
            async with serving(app, listener, signals.stop, public=public):
                warn_of_test_mode(app)
                _tell(app, listener, key, json=json)
                announce(app, options)
                worker = await app.work(options, stop=signals.stop, at_once=signals.at_once)
        return worker, signals.exit_code


def _tell(app: Windlass, listener: "Listener", key: str | None, *, json: bool) -> None:
    database = without_password(app.url())[0]
    types = app.handlers.types()
    if json:
        link = {} if key is None else {"browser": f"{listener.url}/#key={key}"}
        show_json({"http": listener.url, "database": database, "pid": os.getpid(), "types": types, **link})
        return
    embedded = app.place().url is None
    say(f"windlass {__version__} is up, Ctrl-C stops it", "bold")
    say(f"http      {listener.url}  (/health, /ready, /metrics)")
    if key is not None:
        say(f"browser   {listener.url}/#key={key}  (commands are allowed, so a key is required)")
    say(f"database  {database}" + (f"  (embedded, data in {app.settings.home})" if embedded else ""))
    say("psql      windlass db psql")
    own = [type_ for type_ in types if not type_.startswith("windlass.")]
    say(f"worker    {', '.join(own)}" if own else "worker    HTTP steps; give MODULE:APP to serve jobs of your own")
