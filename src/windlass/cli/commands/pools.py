"""`windlass pools`: where steps with `runs_on` run."""

from typing import TYPE_CHECKING

import click

from windlass.cli.arguments import json_option
from windlass.cli.output import note, show_fields, show_json, show_table
from windlass.cli.runner import backend, each

if TYPE_CHECKING:
    from windlass.schemas.monitoring import Pool

COLUMNS = ("name", "launcher", "alive", "running", "waiting", "last seen", "problem")


@click.group()
def pools() -> None:
    """List, show, test and forget pools: where steps with runs_on run."""


@pools.command("list")
@json_option
def list_(json: bool) -> None:
    """List the pools by name, and what to do about those that cannot be used."""
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


@pools.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def forget(names: tuple[str, ...], json: bool) -> None:
    """Forget pools that no process offers; steps that name them wait until one does again."""
    each(names, "forgot", lambda app, name: app.forget_pool(name), key="name", json=json)


def _row(pool: "Pool") -> list[object]:
    running = f"{pool.running}/{pool.max_parallel}"
    alive = "yes" if pool.alive else "no"
    return [pool.name, pool.launcher, alive, running, pool.waiting, pool.seen_at, pool.problem]
