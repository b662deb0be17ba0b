"""`windlass plans`: what orgs may use."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.arguments import FC, json_option
from windlass.cli.output import cell, record, say, show_fields, show_json, show_table
from windlass.cli.runner import backend, each
from windlass.core.plans import LEAST, MAX_NUMBER, MOST, NAMES

if TYPE_CHECKING:
    from windlass.schemas.plans import Plan

UNLIMITED = "unlimited"


class LimitType(click.ParamType[int | str]):
    """A number, or `unlimited`."""

    name = "N|unlimited"

    def __init__(self, limit: str) -> None:
        self._range = click.IntRange(LEAST.get(limit, 0), MOST.get(limit, MAX_NUMBER))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return UNLIMITED if value == UNLIMITED else self._range.convert(value, param, ctx)


def limit_option(name: str, text: str) -> Callable[[FC], FC]:
    return click.option(f"--{name.replace('_', '-')}", name, type=LimitType(name), help=text)


@click.group()
def plans() -> None:
    """List, show, set, delete and assign plans: what orgs may use."""


@plans.command("list")
@json_option
def list_(json: bool) -> None:
    """List the plans by name."""
    rows = backend(lambda app: app.plans())
    if json:
        show_json({"plans": rows})
        return
    show_table(("name", *(name.replace("_", " ") for name in NAMES), "orgs"), map(_row, rows))


@plans.command()
@click.argument("name")
@json_option
def show(name: str, json: bool) -> None:
    """Show one plan."""
    _show(backend(lambda app: app.plan(name)), json=json)


@plans.command("set")
@click.argument("name")
@limit_option("workflows", "Workflows that may be published.")
@limit_option("steps_per_workflow", "Steps that a workflow may have.")
@limit_option("runs_at_once", "Runs that may be live.")
@limit_option("executions_per_month", "Jobs and steps of runs in a calendar month (UTC).")
@limit_option("executions_at_once", "Jobs and steps that workers may execute at a time.")
@click.option("--schedules/--no-schedules", default=None, help="Whether workflows may have a cron trigger.")
@json_option
def set_(name: str, json: bool, **limits: Any) -> None:
    """Create a plan, or change its limits; what is left out is kept.

    \b
    Example:
      windlass plans set free --executions-per-month 10000 --runs-at-once 1 --no-schedules
    """
    changes = {key: None if value == UNLIMITED else value for key, value in limits.items() if value is not None}
    _show(backend(lambda app: app.set_plan(name, changes)), json=json)


@plans.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def delete(names: tuple[str, ...], json: bool) -> None:
    """Delete plans that no org has."""
    each(names, "deleted", lambda app, name: app.delete_plan(name), key="name", json=json)


@plans.command()
@click.argument("org")
@click.argument("plan")
@json_option
def assign(org: str, plan: str, json: bool) -> None:
    """Put an org on a plan; it takes effect within seconds."""
    backend(lambda app: app.assign_plan(org, plan))
    if json:
        show_json({"org": org, "plan": plan})
    else:
        say(cell(f"org {org} is on plan {plan}"))


def _row(plan: "Plan") -> list[object]:
    values = record(plan)
    return [plan.name, *(_limit(values[name]) for name in NAMES), plan.orgs]


def _limit(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNLIMITED if value is None else value


def _show(plan: "Plan", *, json: bool) -> None:
    if json:
        show_json(plan)
        return
    values = record(plan)
    limits = {name.replace("_", " "): _limit(values[name]) for name in NAMES}
    times = {"created": plan.created_at, "updated": plan.updated_at}
    show_fields({"name": plan.name} | limits | {"orgs": plan.orgs} | times)
