"""`windlass worker`: claims jobs and runs their handlers until it is told to stop. Without an app it serves the steps
that need no handler: HTTP requests and, with --allow-commands, commands."""

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from windlass import settings
from windlass.app import Windlass
from windlass.cli.app_loader import check_prefixes, load
from windlass.cli.commands import logs
from windlass.cli.runner import leave, run
from windlass.cli.serving import listen, serving
from windlass.core import duration
from windlass.core.workflows.step_payload import COMMAND_TYPE
from windlass.effects.handlers import like
from windlass.effects.signals import Signals
from windlass.runtime.worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from windlass.web.server import Listener

EXAMPLES = """Examples:

windlass worker shop.jobs:app

windlass worker --allow-commands  (HTTP and command steps only)

windlass worker shop.jobs:app --prefix 'billing.%' --queue default --queue mail --concurrency 20

The first SIGTERM or Ctrl-C drains: no new jobs, --grace to finish, the rest is handed back. The second ends at once."""

_log = logging.getLogger("windlass.cli")
AllowCommands = Annotated[
    bool,
    typer.Option("--allow-commands", help="Execute `run` steps: whoever deploys workflows can then run programs here."),
]
Target = Annotated[
    str | None,
    typer.Argument(metavar="MODULE:APP", help="Where the Windlass object is, shop.jobs:app. None: no handlers."),
]


def worker(
    target: Target = None,
    worker_id: Annotated[str | None, typer.Option(help="Its name; default HOST-PID.")] = None,
    lease: Annotated[str, typer.Option(help="How long a job is ours without a heartbeat.")] = "30s",
    prefix: Annotated[list[str] | None, typer.Option(help="Serve only types LIKE this; may be repeated.")] = None,
    queue: Annotated[
        list[str] | None, typer.Option(help="Default: default, sql and windlass (HTTP steps); may be repeated.")
    ] = None,
    concurrency: Annotated[int, typer.Option(help="How many jobs run at a time.")] = 100,
    grace: Annotated[str, typer.Option(help="How long running jobs may take to finish when it drains.")] = "30s",
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Serve /health and /metrics here.")] = None,
    metrics_host: Annotated[str, typer.Option(help="Beyond loopback WINDLASS_API_KEY must be set.")] = "127.0.0.1",
    allow_commands: AllowCommands = False,
    log_format: logs.LogFormat = None,
) -> None:
    """Run the handlers of an app, HTTP steps, and command steps if they are allowed."""
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)  # first, so that the module may add handlers of its own
    app = Windlass(settings=chosen) if target is None else load(target)
    options = WorkerOptions(
        lease=duration.parse(lease, field="lease"),
        grace=duration.parse(grace, field="grace"),
        prefixes=prefix or (),
        queues=queue or WorkerOptions.queues,
        concurrency=concurrency,
        allow_commands=allow_commands,
    )
    options = replace(options, id=worker_id) if worker_id is not None else options
    check_prefixes(app, prefix or [])
    listener = None
    if metrics_port is not None:
        listener = listen(metrics_host, metrics_port, keys=app.settings.api_keys, option="--metrics-port")
    leave(*run(_work(app, options, listener)))


async def _work(app: Windlass, options: WorkerOptions, listener: "Listener | None") -> tuple[Worker, int]:
    with Signals() as signals:
        async with app, contextlib.AsyncExitStack() as stack:
            if listener is not None:
                await stack.enter_async_context(serving(app, listener, signals.stop))
                _log.info("metrics at %s/metrics", listener.url)
            announce(app, options)
            ended = await app.work(options, stop=signals.stop, at_once=signals.at_once)
        _log.info("worker %s has stopped", options.id)
        return ended, signals.exit_code


def announce(app: Windlass, options: WorkerOptions) -> None:
    patterns = [like(prefix) for prefix in options.prefixes]
    types = [
        type_
        for type_ in dict.fromkeys([*app.handlers.types(), *([COMMAND_TYPE] if options.allow_commands else [])])
        if "%" in type_ or not patterns or any(pattern.fullmatch(type_) for pattern in patterns)
    ]
    _log.info("worker %s serves %s in queues %s", options.id, ", ".join(types), ", ".join(options.queues))
    for handler in filter(None, map(app.handlers.find, types)):
        if handler.queue not in options.queues:
            _log.warning(
                "%s is submitted to queue %s, which this worker does not serve: add --queue %s",
                handler.type,
                handler.queue,
                handler.queue,
            )
