"""`windlass worker`: claims jobs and runs their handlers until Ctrl-C.

Without an app it runs the steps that need no handler: HTTP requests and, with --allow-commands, commands.
"""

import contextlib
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from windlass import settings
from windlass.app import Windlass
from windlass.cli import logs
from windlass.cli.arguments import log_format_option
from windlass.cli.process import check_prefixes, leave, listen, load_app, run, serving
from windlass.core import duration
from windlass.core.workflows.step_payload import COMMAND_TYPE
from windlass.effects.handlers import like
from windlass.effects.signals import Signals
from windlass.runtime.worker.worker import Worker, WorkerOptions

if TYPE_CHECKING:
    from windlass.web.server import Listener

_log = logging.getLogger("windlass.cli")

allow_commands_option = click.option(
    "--allow-commands",
    is_flag=True,
    help="Execute `run` steps: anyone who can deploy workflows can then run programs here.",
)
lease_option = click.option(
    "--lease", default="30s", metavar="DURATION", help="Return a job to its queue after this time without a heartbeat."
)


@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--worker-id", metavar="NAME", help="Unique name of this worker.  [default: HOST-PID]")
@lease_option
@click.option("--prefix", "prefixes", multiple=True, metavar="LIKE", help="Job types that match: 'a.%'; repeatable.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME",
    help="Queue to serve; repeatable.  [default: default, sql, windlass]",
)
@click.option("--concurrency", type=int, default=100, metavar="N", help="Jobs that run at the same time.")
@click.option("--grace", default="30s", metavar="DURATION", help="Time for running jobs to finish when it drains.")
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), metavar="PORT", help="Serve /health, /ready and /metrics here."
)
@click.option(
    "--metrics-host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address for --metrics-port; beyond loopback WINDLASS_API_KEY is required.",
)
@allow_commands_option
@log_format_option
def worker(
    target: str | None,
    worker_id: str | None,
    lease: str,
    prefixes: tuple[str, ...],
    queues: tuple[str, ...],
    concurrency: int,
    grace: str,
    metrics_port: int | None,
    metrics_host: str,
    allow_commands: bool,
    log_format: str | None,
) -> None:
    """Run a worker until Ctrl-C.

    It runs the handlers of the app that MODULE:APP names, HTTP steps and, with --allow-commands, command steps.

    The first SIGTERM or Ctrl-C drains the worker: it claims no new jobs, running jobs have --grace to finish, and the
    others are released to their queues. The second releases running jobs at once and exits.

    \b
    Examples:
      windlass worker shop.jobs:app
      windlass worker --allow-commands
      windlass worker shop.jobs:app --prefix 'billing.%' --queue default --queue mail --concurrency 20
    """
    chosen = settings.read()
    logs.configure(chosen, log_format=log_format)  # first, so that the module can add its own logging handlers
    app = Windlass(settings=chosen) if target is None else load_app(target)
    options = WorkerOptions(
        lease=duration.parse(lease, field="lease"),
        grace=duration.parse(grace, field="grace"),
        prefixes=prefixes,
        queues=queues or WorkerOptions.queues,
        concurrency=concurrency,
        allow_commands=allow_commands,
    )
    options = replace(options, id=worker_id) if worker_id is not None else options
    check_prefixes(app, prefixes)
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
    """Log the job types and queues of a worker, and warn about handlers whose queue it does not serve."""
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
                *(handler.type, handler.queue, handler.queue),
            )
