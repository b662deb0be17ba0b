"""`windlass db`: the database behind it all, embedded or your own."""

import asyncio
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from windlass import settings
from windlass.app import Windlass
from windlass.cli.output import Json, note, say, show_fields, show_json
from windlass.cli.runner import use
from windlass.engine import database as engine_database
from windlass.engine import maintenance
from windlass.errors import Invalid, Unavailable

DUMP_EXAMPLES = """Examples:

windlass db dump --output backup.sql

windlass db dump -- --schema-only | less

What follows -- is passed to pg_dump."""
PSQL_EXAMPLES = """Examples:

windlass db psql

windlass db psql -- -c 'select * from workflow.workflow_run limit 5'

What follows -- is passed to psql."""


def url(json: Json = False) -> None:
    """Print the URL; the embedded server is started if it does not run, and stays."""
    app = Windlass(settings=settings.read())
    started = app.place().url is None and not maintenance.status(app.place())["running"]
    found = app.url()
    if json:
        show_json({"url": found})
    else:
        typer.echo(found)
    if started:  # it is not closed: a URL of a stopped server would be of no use
        note("the embedded server was started; it runs until its next last user leaves, or: windlass db stop")


def psql(ctx: typer.Context) -> None:
    """Open psql on the database."""
    raise typer.Exit(_run("psql", ctx.args, stdout=None))


def dump(
    ctx: typer.Context,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file; it appears whole or not at all.")
    ] = None,
) -> None:
    """Write the whole database with pg_dump, to standard output by default."""
    if output is None:
        raise typer.Exit(_run("pg_dump", ctx.args, stdout=None))
    try:
        file, draft = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    except OSError as error:
        raise Invalid(f"cannot write {output}: {error.strerror}", field="output") from None
    try:
        with os.fdopen(file, "wb") as stream:
            code = _run("pg_dump", ctx.args, stdout=stream)
            os.fsync(stream.fileno())
        if code != 0:
            raise Unavailable(f"pg_dump ended with code {code}: {output} was not written")
        Path(draft).replace(output)
    finally:
        Path(draft).unlink(missing_ok=True)


def migrate(json: Json = False) -> None:
    """Bring the schema up to date."""

    async def action(app: Windlass) -> list[str]:
        return await engine_database.prepare(app.database(app.url()))

    applied = use(action)
    if json:
        show_json({"applied": applied})
        return
    for name in applied:
        say(f"applied {name}")
    say("the schema is current" if applied else "the schema was current already")


def status(json: Json = False) -> None:
    """Where the database is and how it does; starts nothing."""
    chosen = settings.read()
    place = Windlass(settings=chosen).place()
    known: dict[str, Any] = {"kind": "your own (WINDLASS_DATABASE_URL)", "running": True}
    if place.url is None:
        known = {"kind": "embedded", **maintenance.status(place)}
    found = maintenance.without_password(place.url or known["url"])[0]
    fields = {**known, "url": found} | (_surveyed(place.url or known["url"]) if known["running"] else {})
    if json:
        show_json(fields)
        return
    show_fields({name.replace("_", " "): value for name, value in fields.items()})
    if not known["running"]:
        note("it is not running: every command that needs it starts it, or: windlass up")


def stop(json: Json = False) -> None:
    """Stop the embedded server, even if others use it."""
    stopped = maintenance.stop(Windlass(settings=settings.read()).place())
    if json:
        show_json({"stopped": stopped})
    else:
        say("stopped" if stopped else "it was not running")


def _surveyed(url_: str) -> dict[str, Any]:
    async def action(app: Windlass) -> maintenance.Survey:
        return await maintenance.survey(app.database(url_))

    found = use(action)
    return {
        "server_version": found.version,
        "size_bytes": found.size,
        "applied_migrations": found.applied,
        "pending_migrations": found.pending,
    }


def _run(name: str, arguments: list[str], stdout: IO[bytes] | None) -> int:
    """Run a client program; the embedded server is held for as long as it runs."""
    app = Windlass(settings=settings.read())
    program = maintenance.program(app.place(), name)
    address, password = maintenance.without_password(app.url())
    environment = {**os.environ} | ({"PGPASSWORD": password} if password is not None else {})
    # Ctrl-C is the client's: psql stops a query with it and stays. A handler, unlike SIG_IGN, is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        command = [str(program), "-d", address, *arguments]
        return subprocess.run(command, env=environment, stdout=stdout, check=False).returncode  # noqa: S603
    finally:
        signal.signal(signal.SIGINT, before)
        asyncio.run(app.close())
