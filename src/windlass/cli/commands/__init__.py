"""The commands: parse arguments, call a backend, print.

The module of a command is imported when the command is invoked, so that no command loads the imports of another. The
table below repeats the first lines of their help, so that `windlass --help` imports none of them.
"""

import os
from importlib import import_module
from typing import Any

import click

from windlass import __version__

COMMANDS = {  # name: (module, help)
    "up": ("server", "Run the database, a server and a worker in one process until Ctrl-C."),
    "server": ("server", "Serve HTTP and run schedules until Ctrl-C, without a worker."),
    "scheduler": ("server", "Run timers and schedules until Ctrl-C, without HTTP and without a worker."),
    "worker": ("worker", "Run a worker until Ctrl-C."),
    "submit": ("jobs", "Record a job and print its id."),
    "jobs": ("jobs", "List, inspect, cancel, retry and delete jobs."),
    "types": ("types", "List job types, and show the schemas of their payloads."),
    "queues": ("queues", "List queues, pause and resume them."),
    "dead-letters": ("queues", "List, retry and drop jobs that failed for good."),
    "deploy": ("workflows", "Publish the workflows of files: all of them, or none."),
    "workflows": ("workflows", "List, inspect, enable, disable and delete deployed workflows."),
    "schedules": ("schedules", "List schedules, pause, resume, run, preview and backfill them."),
    "run": ("run", "Start a run and print its id."),
    "runs": ("runs", "List, inspect, wait for, pause, cancel, retry and rerun runs."),
    "signal": ("messages", "Send a signal to a run, or to a job that is not a step of a run."),
    "publish": ("messages", "Publish an event to all runs and handlers that wait for its name and key."),
    "approvals": ("approvals", "List approvals, show them, approve and reject."),
    "artifacts": ("artifacts", "List and download the files that the steps of a run, or a job, wrote."),
    "explain": ("runs", "Explain the state of a run, step by step."),
    "graph": ("graph", "Draw a workflow or a run."),
    "schema": ("graph", "Print the JSON Schema of workflow files, for editors."),
    "workers": ("queues", "List workers, most recent heartbeat first."),
    "pools": ("pools", "List, show, test and forget pools: where steps with runs_on run."),
    "quarantine": ("queues", "List and retry items set aside after an unexpected error."),
    "orgs": ("orgs", "Create, list, disable and enable organisations, and set their plans."),
    "keys": ("orgs", "Create, list, rotate and revoke keys of an organisation (--org, else `default`)."),
    "members": (
        "orgs",
        "Add, list and remove people who may log in to an organisation (--org, else `default`).",
    ),
    "audit": ("orgs", "List who did what to which object, newest first."),
    "secrets": ("secrets", "Set, list, delete and rotate secrets."),
    "plans": ("plans", "List, show, set and delete plans: what orgs may use."),
    "usage": ("plans", "Show what an org uses, and what its plan allows."),
    "db": ("db", "Inspect, migrate, dump and stop the database."),
    "doctor": ("doctor", "Check the installation; exit code 1 on problems."),
}
DATABASE_ONLY = frozenset({"db", "doctor", "scheduler", "server", "up", "worker"})


def load(name: str) -> click.Command:
    """Import the module of a command and return the command."""
    module = import_module(f"{__name__}.{COMMANDS[name][0]}")
    command: click.Command = getattr(module, name.replace("-", "_"))
    return command


class _Deferred(click.Command):
    """Represents a command in `windlass --help`; the command itself is imported when it is invoked."""

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> click.Context:
        assert self.name is not None
        return load(self.name).make_context(info_name, args, *rest, **extra)


@click.group(
    commands=[_Deferred(name, short_help=help_) for name, (_, help_) in COMMANDS.items()],
    context_settings={"show_default": True, "max_content_width": 100},
)
@click.version_option(__version__, message="windlass %(version)s", help="Print the version.")
@click.option("--url", metavar="URL", help="Use this server instead of the database.  [default: WINDLASS_URL]")
@click.option("--org", metavar="NAME", help="Act for this organisation.  [default: WINDLASS_ORG, else default]")
@click.pass_context
def cli(context: click.Context, url: str | None, org: str | None) -> None:
    """Windlass: a durable workflow engine on Postgres."""
    if org is not None:
        os.environ["WINDLASS_ORG"] = org
    if url is None:
        return
    if context.invoked_subcommand in DATABASE_ONLY:
        raise click.UsageError(
            f"windlass {context.invoked_subcommand} needs the database, not a server: run it without --url, with "
            "WINDLASS_DATABASE_URL"
        )
    os.environ["WINDLASS_URL"] = url
