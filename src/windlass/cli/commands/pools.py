"""`windlass pools`: where steps with `runs_on` run."""

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from windlass import settings
from windlass.cli import logs
from windlass.cli.arguments import json_option, span
from windlass.cli.output import block, note, record, say, show_fields, show_json, show_table, styled
from windlass.cli.runner import backend, each
from windlass.core.launches import SUBPROCESS
from windlass.errors import Invalid

if TYPE_CHECKING:
    from windlass.effects.launchers import PoolOptions
    from windlass.runtime.pools.probe import ProbeCheck
    from windlass.schemas.monitoring import Pool
    from windlass.settings import Settings

COLUMNS = ("name", "launcher", "alive", "running", "waiting", "last seen", "problem")
MOST_PATIENCE = timedelta(minutes=30)  # a probe that is older than an hour is removed by the pool's worker
WIDTH = len("object store")


@click.group()
def pools() -> None:
    """List, show, test and forget pools: where steps with runs_on run."""


@pools.command("list")
@json_option
def list_(json: bool) -> None:
    """List the pools by name, with a fix for each that has a problem."""
    rows = backend(lambda app: app.pools())
    if json:
        show_json({"pools": rows})
        return
    show_table(COLUMNS, map(_row, rows))
    for pool in rows:
        if pool.fix is not None:
            note(f"pool {pool.name}: {pool.fix}")
    if not rows:
        note("there is no pool: one exists once a worker that is configured with it has started")


@pools.command()
@click.argument("name")
@json_option
def show(name: str, json: bool) -> None:
    """Show one pool."""
    pool = backend(lambda app: app.pool(name))
    if json:
        show_json(pool)
        return
    fields = {
        "name": pool.name,
        "launcher": pool.launcher,
        "image": pool.image,
        "alive": "yes" if pool.alive else "no",
        "last seen": pool.seen_at,
        "holder": pool.holder,
        "running": f"{pool.running} of {pool.max_parallel}",
        "waiting": pool.waiting,
        "problem": pool.problem,
    }
    show_fields(fields if pool.fix is None else fields | {"fix": pool.fix})


@pools.command("test")
@click.argument("name")
@click.option("--timeout", default="2m", metavar="DURATION", help="Time for the job to start and end, up to 30m.")
@click.option("--allow-commands", is_flag=True, help="Test a pool that runs commands on this machine.")
@json_option
def test_(name: str, timeout: str, allow_commands: bool, json: bool) -> None:
    """Launch a small command on a pool from this process and report each check; exit code 1 if one fails.

    It uses WINDLASS_POOLS and WINDLASS_OBJECTS_URL of this process, and no database: run it where the worker runs. It
    removes everything that it created.
    """
    from windlass.runtime.pools.probe import ProbeCheck, probe

    chosen = settings.read()
    logs.configure(chosen, brief=True)
    limit = span(timeout, field="timeout")
    assert limit is not None
    if limit > MOST_PATIENCE:
        raise Invalid(f"timeout is {timeout!r}: it must be at most 30m", field="timeout")
    pool = _configured(chosen, name, allow_commands=allow_commands)
    checks: list[ProbeCheck] = []

    def report(check: ProbeCheck) -> None:
        checks.append(check)
        if not json:
            _show_check(check)

    if not json:
        say(f"pool {pool.name} ({pool.launcher})")
    is_well = asyncio.run(probe(pool, chosen.objects, timeout=limit.total_seconds(), report=report))
    if json:
        show_json({"pool": pool.name, "ok": is_well, "checks": [record(check) for check in checks]})
    if not is_well:
        raise click.exceptions.Exit(1)


@pools.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def forget(names: tuple[str, ...], json: bool) -> None:
    """Forget pools that no process offers; steps that name them wait until a process offers them again."""
    each(names, "forgot", lambda app, name: app.forget_pool(name), key="name", json=json)


def _configured(chosen: "Settings", name: str, *, allow_commands: bool) -> "PoolOptions":
    from windlass.runtime.pools.pool import offered

    chosen_pools = [pool for pool in chosen.pools if pool.name == name]
    for pool in offered(chosen_pools, home=chosen.home, allow_commands=allow_commands):
        if pool.name == name:
            return pool
    known = ", ".join(pool.name for pool in chosen.pools) or "none"
    advice = "use --allow-commands" if name == SUBPROCESS else "run this where its worker runs"
    raise Invalid(f"this process has no pool {name!r}: WINDLASS_POOLS has {known}; {advice}", field="name")


def _show_check(check: "ProbeCheck") -> None:
    mark = styled("✓", "green") if check.ok else styled("✗", "red")
    first, *more = block(check.message).splitlines() or [""]
    say(f"{mark} {check.part.ljust(WIDTH)}  {first}")
    for line in more:
        say(f"  {' ' * WIDTH}  {line}")
    if check.fix is not None:
        say(f"  {' ' * WIDTH}  fix: {check.fix}", "dim")


def _row(pool: "Pool") -> list[object]:
    running = f"{pool.running}/{pool.max_parallel}"
    alive = "yes" if pool.alive else "no"
    return [pool.name, pool.launcher, alive, running, pool.waiting, pool.seen_at, pool.problem]
