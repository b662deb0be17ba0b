"""`windlass db`: the database, embedded or your own."""

import asyncio
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import click

from windlass import settings
from windlass.app import Windlass
from windlass.cli.arguments import json_option
from windlass.cli.output import note, say, show_fields, show_json
from windlass.cli.runner import use
from windlass.engine import database as engine_database
from windlass.engine import maintenance
from windlass.errors import Invalid, Unavailable

PASS_ON = {"ignore_unknown_options": True}
arguments_argument = click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENT...]")


@click.group()
def db() -> None:
    """Inspect, migrate, dump and stop the database."""


@db.command()
@json_option
def url(json: bool) -> None:
    """Print the URL of the database; start the embedded server if needed, and leave it running."""
    app = Windlass(settings=settings.read())
    started = app.place().url is None and not maintenance.status(app.place())["running"]
    address = app.url()
    if json:
        show_json({"url": address})
    else:
        click.echo(address)
    if started:  # the app is not closed: the URL of a stopped server would be useless
        note("started the embedded server; it stops when the next process that uses it ends, or: windlass db stop")


@db.command(context_settings=PASS_ON)
@arguments_argument
def psql(arguments: tuple[str, ...]) -> None:
    """Open psql on the database, with the given arguments.

    \b
    Examples:
      windlass db psql
      windlass db psql -- -c 'select * from workflow.workflow_run limit 5'
    """
    raise click.exceptions.Exit(_run("psql", arguments, stdout=None))


@db.command(context_settings=PASS_ON)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write to this file, completely or not at all.  [default: standard output]",
)
@arguments_argument
def dump(arguments: tuple[str, ...], output: Path | None) -> None:
    """Dump the whole database with pg_dump, with the given arguments.

    \b
    Examples:
      windlass db dump --output backup.sql
      windlass db dump -- --schema-only | less
    """
    if output is None:
        raise click.exceptions.Exit(_run("pg_dump", arguments, stdout=None))
    try:
        file, draft = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    except OSError as error:
        raise Invalid(f"cannot write {output}: {error.strerror}", field="output") from None
    try:
        with os.fdopen(file, "wb") as stream:
            code = _run("pg_dump", arguments, stdout=stream)
            os.fsync(stream.fileno())
        if code != 0:
            raise Unavailable(f"pg_dump ended with code {code}: {output} was not written")
        Path(draft).replace(output)
    finally:
        Path(draft).unlink(missing_ok=True)


@db.command()
@json_option
def migrate(json: bool) -> None:
    """Apply the pending migrations of the schema."""

    async def action(app: Windlass) -> list[str]:
        return await engine_database.prepare(app.database(app.url()), app.master_keys)

    applied = use(action)
    if json:
        show_json({"applied": applied})
        return
    for name in applied:
        say(f"applied {name}")
    say("the schema is current" if applied else "the schema was already current")


@db.command()
@json_option
def status(json: bool) -> None:
    """Show the location, version, size and migrations of the database, without starting it."""
    chosen = settings.read()
    place = Windlass(settings=chosen).place()
    server: dict[str, Any] = {"kind": "your own (WINDLASS_DATABASE_URL)", "running": True}
    if place.url is None:
        server = {"kind": "embedded", **maintenance.status(place)}
    address = place.url or server["url"]
    fields = {**server, "url": maintenance.without_password(address)[0]}
    fields |= _survey(address) if server["running"] else {}
    if json:
        show_json(fields)
        return
    show_fields({name.replace("_", " "): value for name, value in fields.items()})
    if not server["running"]:
        note("the embedded server is not running: commands that need it start it, or: windlass up")


@db.command()
@json_option
def stop(json: bool) -> None:
    """Stop the embedded server, even if other processes use it."""
    stopped = maintenance.stop(Windlass(settings=settings.read()).place())
    if json:
        show_json({"stopped": stopped})
    else:
        say("stopped" if stopped else "the embedded server was not running")


def _survey(address: str) -> dict[str, Any]:
    async def action(app: Windlass) -> maintenance.Survey:
        return await maintenance.survey(app.database(address))

    survey = use(action)
    return {
        "server_version": survey.version,
        "size_bytes": survey.size,
        "applied_migrations": survey.applied,
        "pending_migrations": survey.pending,
    }


def _run(name: str, arguments: Sequence[str], stdout: IO[bytes] | None) -> int:
    """Run a client program and return its exit code; keep the embedded server running meanwhile."""
    app = Windlass(settings=settings.read())
    program = maintenance.program(app.place(), name)
    address, password = maintenance.without_password(app.url())
    environment = {**os.environ} | ({"PGPASSWORD": password} if password is not None else {})
    # Ctrl-C is for the client: psql cancels a query with it. Unlike SIG_IGN, a handler is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        command = [str(program), "-d", address, *arguments]
        return subprocess.run(command, env=environment, stdout=stdout, check=False).returncode  # noqa: S603
    finally:
        signal.signal(signal.SIGINT, before)
        asyncio.run(app.close())
