"""The command line: which commands there are, and how their errors are told."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from windlass import __version__
from windlass.cli import run_logs
from windlass.cli.commands import (
    db,
    dead_letters,
    deploy,
    doctor,
    explain,
    graph,
    jobs,
    quarantine,
    queues,
    run,
    runs,
    scheduler,
    schedules,
    server,
    submit,
    up,
    worker,
    workers,
    workflows,
)
from windlass.cli.output import block
from windlass.cli.runner import sentence, through

# Frames and colours are for terminals; in a pipe help and usage errors are plain text.
MARKUP: Any = "rich" if sys.stdout.isatty() and sys.stderr.isatty() else None
ON_THE_DATABASE = frozenset({"db", "doctor", "scheduler", "server", "up", "worker"})
HINTS = {
    "the database ": "check WINDLASS_DATABASE_URL; windlass doctor looks for the cause",
    "cannot reach the server ": "check --url or WINDLASS_URL, and that windlass up runs there",
    "send a key": "set WINDLASS_API_KEY to one of the server's keys",
}
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def main() -> None:
    """The entry point: errors of ours are one line on stderr and exit code 1; usage errors have exit code 2."""
    try:
        _check_arguments(sys.argv)
        cli(_lifted(sys.argv[1:]), prog_name="windlass")
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        told = sentence(error)
        if told is None:
            raise
        _tell(told, next((hint for start, hint in HINTS.items() if told.startswith(start)), None))


def _tell(message: str, hint: str | None = None) -> None:
    typer.echo(f"error: {block(message, keep='')}", err=True)
    if hint is not None:
        typer.echo(f"hint: {hint}", err=True)
    sys.exit(1)


def _check_arguments(arguments: list[str]) -> None:
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            _tell(f"the argument {argument!a} is not UTF-8 text")


def _lifted(arguments: list[str]) -> list[str]:
    """--url may stand anywhere; it belongs to windlass, not to one of its commands."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    for n, argument in enumerate(own):
        if argument == "--url" and n + 1 < len(own):
            return [*arguments[n : n + 2], *arguments[:n], *arguments[n + 2 :]]
        if argument.startswith("--url="):
            return [argument, *arguments[:n], *arguments[n + 1 :]]
    return arguments


def _group(help_: str) -> typer.Typer:
    return typer.Typer(help=help_, no_args_is_help=True, rich_markup_mode=MARKUP)


def _add(group: typer.Typer, function: Callable[..., None], name: str, examples: str = "", **options: Any) -> None:
    group.command(name, epilog=examples or None, **options)(function)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"windlass {__version__}")
        raise typer.Exit


cli = typer.Typer(no_args_is_help=True, rich_markup_mode=MARKUP, pretty_exceptions_enable=False)


@cli.callback()
def _front(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Go through this server, not to the database; default WINDLASS_URL."),
    ] = None,
) -> None:
    """Windlass: record work first, execute it later, never lose what was recorded."""
    if url is None:
        return
    if context.invoked_subcommand in ON_THE_DATABASE:
        raise typer.BadParameter(
            f"windlass {context.invoked_subcommand} works on the database itself and not through a server: run it "
            "where the database is, with WINDLASS_DATABASE_URL",
            param_hint="--url",
        )
    through(url)


_add(cli, up.up, "up", up.EXAMPLES)
_add(cli, server.server, "server", server.EXAMPLES)
_add(cli, scheduler.scheduler, "scheduler", scheduler.EXAMPLES)
_add(cli, worker.worker, "worker", worker.EXAMPLES)
_add(cli, submit.submit, "submit", submit.EXAMPLES)

_jobs = _group("Look at jobs, and steer them.")
_add(_jobs, jobs.list_, "list", jobs.LIST_EXAMPLES)
_add(_jobs, jobs.show, "show")
_add(_jobs, jobs.logs, "logs")
_add(_jobs, jobs.cancel, "cancel")
_add(_jobs, jobs.retry, "retry")
_add(_jobs, jobs.delete, "delete")
cli.add_typer(_jobs, name="jobs")

_queues = _group("Look at queues, pause and resume them.")
_add(_queues, queues.list_, "list")
_add(_queues, queues.pause, "pause")
_add(_queues, queues.resume, "resume")
cli.add_typer(_queues, name="queues")

_dead = _group("Jobs that failed for good, by what is wrong with them.")
_add(_dead, dead_letters.list_, "list")
_add(_dead, dead_letters.retry, "retry", dead_letters.EXAMPLES)
_add(_dead, dead_letters.drop, "drop")
cli.add_typer(_dead, name="dead-letters")

_add(cli, deploy.deploy, "deploy", deploy.EXAMPLES)

_workflows = _group("Look at deployed workflows, and switch them on and off.")
_add(_workflows, workflows.list_, "list")
_add(_workflows, workflows.show, "show")
_add(_workflows, workflows.versions, "versions")
_add(_workflows, workflows.enable, "enable")
_add(_workflows, workflows.disable, "disable")
_add(_workflows, workflows.rotate, "rotate")
_add(_workflows, workflows.delete, "delete")
cli.add_typer(_workflows, name="workflows")

_schedules = _group("What runs by the clock, and switches for it.")
_add(_schedules, schedules.list_, "list")
_add(_schedules, schedules.pause, "pause")
_add(_schedules, schedules.resume, "resume")
_add(_schedules, schedules.run, "run")
_add(_schedules, schedules.preview, "preview")
_add(_schedules, schedules.backfill, "backfill", schedules.BACKFILL_EXAMPLES)
cli.add_typer(_schedules, name="schedules")

_add(cli, run.run, "run", run.EXAMPLES)

_runs = _group("Look at runs, and steer them.")
_add(_runs, runs.list_, "list", runs.LIST_EXAMPLES)
_add(_runs, runs.show, "show")
_add(_runs, run_logs.logs, "logs", run_logs.EXAMPLES)
_add(_runs, runs.wait, "wait", runs.WAIT_EXAMPLES)
_add(_runs, runs.cancel, "cancel")
_add(_runs, runs.retry, "retry")
_add(_runs, runs.rerun, "rerun")
cli.add_typer(_runs, name="runs")

_add(cli, explain.explain, "explain")

_add(cli, graph.graph, "graph", graph.EXAMPLES)
_add(cli, graph.schema, "schema")

_add(cli, workers.workers, "workers")

_quarantine = _group("What was set aside after an unforeseen error.")
_add(_quarantine, quarantine.list_, "list")
_add(_quarantine, quarantine.retry, "retry", quarantine.RETRY_EXAMPLES)
cli.add_typer(_quarantine, name="quarantine")

_db = _group("The database behind it all, embedded or your own.")
_add(_db, db.url, "url")
_add(_db, db.psql, "psql", db.PSQL_EXAMPLES, context_settings=PASS_ON)
_add(_db, db.migrate, "migrate")
_add(_db, db.status, "status")
_add(_db, db.stop, "stop")
_add(_db, db.dump, "dump", db.DUMP_EXAMPLES, context_settings=PASS_ON)
cli.add_typer(_db, name="db")

_add(cli, doctor.doctor, "doctor")
