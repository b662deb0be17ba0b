"""`windlass up`, `windlass server` and `windlass scheduler`: processes that run until Ctrl-C."""

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from windlass import __version__, settings
from windlass.app import Windlass
from windlass.cli import local_key, logs
from windlass.cli.arguments import json_option, log_format_option
from windlass.cli.commands.worker import allow_commands_option, announce, lease_option
from windlass.cli.output import say, show_json
from windlass.cli.process import leave, listen, load_app, run, serving
from windlass.core import duration
from windlass.effects.signals import Signals
from windlass.engine.maintenance import check_commands, without_password
from windlass.runtime.worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from windlass.web.server import Listener

_log = logging.getLogger("windlass.cli")

host_option = click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help="Listen here; beyond loopback WINDLASS_API_KEY is required."
)
port_option = click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, metavar="PORT", help="Listen here; 0 picks a free port."
)


@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False)
@host_option
@port_option
@lease_option
@allow_commands_option
@json_option
@log_format_option
def up(
    target: str | None, host: str, port: int, lease: str, allow_commands: bool, json: bool, log_format: str | None
) -> None:
    """Run the database, a server and a worker in one process until Ctrl-C.

    The worker runs HTTP steps and, with MODULE:APP, the handlers of that app. Without WINDLASS_DATABASE_URL, the
    embedded Postgres is used, and started if it is not running; its data is in WINDLASS_HOME.

    \b
    Examples:
      windlass up
      windlass up shop.jobs:app --port 0
    """
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)
    app = Windlass(settings=chosen) if target is None else load_app(target)
    if allow_commands:
        check_commands(app.place())  # before anything is started
    listener = listen(host, port, keys=app.settings.api_keys, test_mode=app.settings.test_mode)
    key = None
    if allow_commands and not app.settings.api_keys:  # after `listen`, which refuses a public address without a key
        key = local_key.make(app.settings.home)
        app.settings = replace(app.settings, api_keys=(key,))
    options = WorkerOptions(lease=duration.parse(lease, field="lease"), allow_commands=allow_commands)
    leave(*run(_up(app, listener, options, key, json=json)))


@click.command()
@host_option
@port_option
@json_option
@log_format_option
def server(host: str, port: int, json: bool, log_format: str | None) -> None:
    """Serve HTTP and run schedules until Ctrl-C, without a worker.

    Workers of the Open Job Spec connect to /ojs/v1; Python workers are started with windlass worker.

    \b
    Example:
      windlass server --host 0.0.0.0 --port 8080
    """
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)
    app = Windlass(settings=chosen)
    listener = listen(host, port, keys=chosen.api_keys, test_mode=chosen.test_mode)
    leave(*run(_serve(app, listener, json=json)))


@click.command()
@log_format_option
def scheduler(log_format: str | None) -> None:
    """Run timers and schedules until Ctrl-C, without HTTP and without a worker.

    Every worker and server runs these loops, too. This command runs them in a separate process; several may run at the
    same time.
    """
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)
    leave(*run(_tend(Windlass(settings=chosen))))


async def _up(
    app: Windlass, listener: "Listener", options: WorkerOptions, key: str | None, *, json: bool
) -> tuple[Worker | None, int]:
    with Signals() as signals:
        async with app:
            public = await app.listen_at(listener.url)
            async with serving(app, listener, signals.stop, public=public):
                _announce_up(app, listener, key, json=json)
                announce(app, options)
                worker = await app.work(options, stop=signals.stop, at_once=signals.at_once)
        return worker, signals.exit_code


async def _serve(app: Windlass, listener: "Listener", *, json: bool) -> tuple[None, int]:
    with Signals() as signals:
        async with app:
            public = await app.listen_at(listener.url)
            async with serving(app, listener, signals.stop, public=public):
                _announce_server(app, listener, json=json)
                await app.tend(stop=signals.stop)
        return None, signals.exit_code


async def _tend(app: Windlass) -> tuple[None, int]:
    with Signals() as signals:
        async with app:
            _log.info("scheduler runs on %s", without_password(app.url())[0])
            await app.tend(stop=signals.stop)
        _log.info("scheduler has stopped")
        return None, signals.exit_code


def _announce_up(app: Windlass, listener: "Listener", key: str | None, *, json: bool) -> None:
    _warn_of_test_mode(app)
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
    say(f"worker    {', '.join(own) if own else 'HTTP steps; add MODULE:APP to run your own handlers'}")


def _announce_server(app: Windlass, listener: "Listener", *, json: bool) -> None:
    _warn_of_test_mode(app)
    database = without_password(app.url())[0]
    if json:
        show_json({"http": listener.url, "database": database, "pid": os.getpid(), "types": []})
        return
    say(f"windlass {__version__} is running, Ctrl-C stops it", "bold")
    say(f"http      {listener.url}  (/api/v1, /ojs/v1, /health, /ready, /metrics)")
    say(f"database  {database}")


def _warn_of_test_mode(app: Windlass) -> None:
    if app.settings.test_mode:
        _log.warning(
            "TEST MODE: any program on this machine can wipe the database; use WINDLASS_TEST_MODE for tests only"
        )
