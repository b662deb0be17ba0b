"""`windlass doctor`: checks an installation and prints what to fix."""

import asyncio

import click

from windlass import settings
from windlass.app import Windlass
from windlass.cli import logs
from windlass.cli.arguments import json_option
from windlass.cli.main import describe
from windlass.cli.output import COLOURS, cell, record, say, show_json, styled
from windlass.engine.database import Database
from windlass.engine.doctor import Finding, Level, examine
from windlass.errors import WindlassError
from windlass.settings import Settings


@click.command()
@json_option
def doctor(json: bool) -> None:
    """Check the installation; exit code 1 on problems.

    It checks settings, database, schema, workers and queues, and prints what to fix.
    """
    findings = _settings()
    if findings[0].level is Level.OK:
        chosen = settings.read()
        logs.configure(chosen, brief=True)
        findings += asyncio.run(_database(chosen))
    healthy = all(finding.level is not Level.PROBLEM for finding in findings)
    if json:
        show_json({"healthy": healthy, "findings": [record(finding) for finding in findings]})
    else:
        _print(findings)
    if not healthy:
        raise click.exceptions.Exit(1)


def _settings() -> list[Finding]:
    try:
        settings.read()
    except WindlassError as error:
        return [Finding(Level.PROBLEM, "settings", str(error), "correct or unset the variables named")]
    return [Finding(Level.OK, "settings", "readable")]


async def _database(chosen: Settings) -> list[Finding]:
    """Examine the database without migrating it."""
    app = Windlass(settings=chosen)
    try:
        options = app.database(await asyncio.to_thread(app.url))
        db = await Database.open(options, objects_url=chosen.objects)
        try:
            return [Finding(Level.OK, "database", "reachable"), *await examine(db)]
        finally:
            await db.close()
    except Exception as error:
        message = describe(error)
        if message is None:
            raise
        fix = "check WINDLASS_DATABASE_URL and that the server runs" if chosen.database_url else None
        return [Finding(Level.PROBLEM, "database", message, fix)]
    finally:
        await app.close()


def _print(findings: list[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        level = styled(finding.level.value.upper().ljust(7), COLOURS[finding.level.value])
        say(f"{level}  {finding.check.ljust(width)}  {cell(finding.message)}")
        if finding.fix:
            say(f"{' ' * 7}  {' ' * width}  fix: {cell(finding.fix)}", "dim")
