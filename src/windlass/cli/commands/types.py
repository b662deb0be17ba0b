"""`windlass types`: the job types that workers serve, and the schemas of their payloads."""

import json as json_
from typing import TYPE_CHECKING

import click

from windlass.cli.arguments import after_option, json_option, limit_option
from windlass.cli.output import block, note, say, show_fields, show_json
from windlass.cli.runner import backend, show_page

if TYPE_CHECKING:
    from windlass.schemas.job_types import JobType, JobTypeVersion

COLUMNS = ("type", "fields", "digest", "workers", "versions", "drift", "last seen")


@click.group()
def types() -> None:
    """List job types, and show the schemas of their payloads."""


@types.command("list")
@limit_option(100, "Types")
@after_option
@json_option
def list_(limit: int, after: str, json: bool) -> None:
    """List the types that workers serve, or have served, by name."""
    page = backend(lambda app: app.job_types(after=after, limit=limit))
    show_page("types", page, COLUMNS, _row, "--after", json=json)
    for type_ in page.items:
        if type_.drift and not json:
            note(f"live workers serve several schemas of {type_.type}: windlass types show {type_.type}")


@types.command()
@click.argument("type_", metavar="TYPE")
@json_option
def show(type_: str, json: bool) -> None:
    """Show one type, and the schemas that workers have published for it."""
    detail = backend(lambda app: app.job_type(type_))
    if json:
        show_json(detail)
        return
    show_fields(
        {
            "type": detail.type,
            "workers": detail.workers,
            "drift": "yes" if detail.drift else "no",
            "first seen": detail.first_seen_at,
            "last seen": detail.last_seen_at,
        }
    )
    for version in detail.history:
        _show_version(version)


def _show_version(version: "JobTypeVersion") -> None:
    state = f"{version.workers} live worker(s)" if version.workers else f"last seen {version.last_seen_at:%Y-%m-%d}"
    code = f", code {version.code_version}" if version.code_version else ""
    say(f"\n{version.digest} ({state}{code})", "bold")
    for id_ in version.worker_ids:
        say(f"  worker {block(id_)}")
    text = "any values" if version.schema is None else json_.dumps(version.schema, indent=2)
    say("\n".join(f"  {line}" for line in block(text).splitlines()))


def _row(type_: "JobType") -> list[object]:
    schema = type_.schema or {}
    fields = "any" if type_.schema is None else list(schema.get("properties", ())) or schema.get("type", "any")
    drift = "yes" if type_.drift else "no"
    return [type_.type, fields, type_.digest, type_.workers, type_.versions, drift, type_.last_seen_at]
