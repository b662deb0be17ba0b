"""`windlass plans` and `windlass usage`: the limits and the usage of orgs."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.arguments import FC, after_option, json_option, limit_option
from windlass.cli.output import record, show_fields, show_json, show_table
from windlass.cli.runner import backend, each, show_page
from windlass.core.plans import LEAST, MAX_NUMBER, MOST, NAMES

if TYPE_CHECKING:
    from windlass.schemas.plans import Plan, Usage

UNLIMITED = "unlimited"
USAGE_COLUMNS = ("org", "plan", "executions", "workflows", "live runs", "executing")


class LimitType(click.ParamType[int | str]):
    """A number, or `unlimited`."""

    name = "N|unlimited"

    def __init__(self, limit: str) -> None:
        self._range = click.IntRange(LEAST.get(limit, 0), MOST.get(limit, MAX_NUMBER))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return UNLIMITED if value == UNLIMITED else self._range.convert(value, param, ctx)


def plan_option(name: str, text: str) -> Callable[[FC], FC]:
    return click.option(f"--{name.replace('_', '-')}", name, type=LimitType(name), help=text)


@click.group()
def plans() -> None:
    """List, show, set and delete plans: what orgs may use."""


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
@plan_option("workflows", "Workflows that may be published.")
@plan_option("steps_per_workflow", "Steps that a workflow may have.")
@plan_option("runs_at_once", "Runs that may be live.")
@plan_option("executions_per_month", "Jobs and steps of runs in a calendar month (UTC).")
@plan_option("executions_at_once", "Jobs and steps that workers may execute at a time.")
@click.option("--schedules/--no-schedules", default=None, help="Whether workflows may have a cron trigger.")
@json_option
def set_(name: str, json: bool, **limits: Any) -> None:
    """Create a plan, or change its limits.

    Omitted limits are kept; those of a new plan are unlimited.

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


@click.command()
@click.option("--all", "all_", is_flag=True, help="Of all orgs, for the operator.")
@limit_option(100, "Orgs")
@after_option
@json_option
def usage(all_: bool, limit: int, after: str, json: bool) -> None:
    """Show what an org uses, and what its plan allows.

    Executions are jobs and steps of runs, counted per calendar month (UTC).
    """
    if all_:
        page = backend(lambda app: app.usage_of_orgs(after=after, limit=limit))
        show_page("usage", page, USAGE_COLUMNS, _usage_row, "--after", json=json)
        return
    shown = backend(lambda app: app.usage())
    if json:
        show_json(shown)
        return
    plan = shown.plan
    fields = {
        "org": shown.org,
        "plan": plan.name,
        "executions": _of(shown.executions, plan.executions_per_month, f"in {shown.month}"),
        "resets": shown.resets_at,
        "counted": shown.counted_at,
        "workflows": _of(shown.workflows, plan.workflows),
        "live runs": _of(shown.runs, plan.runs_at_once),
        "executing": _of(shown.executing, plan.executions_at_once),
    }
    show_fields(fields | {month.month: month.executions for month in shown.history[1:]})


def _usage_row(usage: "Usage") -> list[object]:
    plan = usage.plan
    return [
        usage.org,
        plan.name,
        _of(usage.executions, plan.executions_per_month),
        _of(usage.workflows, plan.workflows),
        _of(usage.runs, plan.runs_at_once),
        _of(usage.executing, plan.executions_at_once),
    ]


def _of(used: int, limit: int | None, more: str = "") -> str:
    return f"{used} of {_limit(limit)} {more}".rstrip()


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
