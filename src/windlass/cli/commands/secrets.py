"""`windlass secrets`: values that workflows use as `{{secrets.NAME}}`."""

import sys
from typing import TYPE_CHECKING

import click

from windlass.cli.arguments import after_option, json_option, limit_option, read_text
from windlass.cli.output import cell, say, show_json
from windlass.cli.runner import backend, each, show_page

if TYPE_CHECKING:
    from windlass.schemas.secrets import Secret

COLUMNS = ("name", "version", "updated", "by")


@click.group()
def secrets() -> None:
    """Set, list, delete and rotate secrets.

    Steps use them as {{secrets.NAME}} in requests and commands. Their values are never shown.
    """


@secrets.command("set")
@click.argument("name")
@json_option
def set_(name: str, json: bool) -> None:
    """Create a secret, or replace its value.

    The value is read from standard input without its last line break, or from a hidden prompt. It cannot be passed as
    an argument, which other users of the machine could read.

    \b
    Examples:
      windlass secrets set STRIPE_KEY < key.txt
      windlass secrets set STRIPE_KEY
    """
    value = click.prompt("value", hide_input=True, err=True) if sys.stdin.isatty() else _standard_input()
    row = backend(lambda app: app.set_secret(name, value))
    show_json(row) if json else say(cell(f"set {row.name}, version {row.version}"))


@secrets.command("list")
@limit_option(50, "Secrets")
@after_option
@json_option
def list_(limit: int, after: str, json: bool) -> None:
    """List secrets by name, without their values."""
    page = backend(lambda app: app.secrets(after=after, limit=limit))
    show_page("secrets", page, COLUMNS, _row, "--after", json=json)


@secrets.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@json_option
def delete(names: tuple[str, ...], json: bool) -> None:
    """Delete secrets; attempts that use them fail from now on."""
    each(names, "deleted", lambda app, name: app.delete_secret(name), key="name", json=json)


@secrets.command()
@click.option("--master", is_flag=True, help="Of all orgs: wrap the data keys with the first WINDLASS_MASTER_KEY.")
@json_option
def rotate(master: bool, json: bool) -> None:
    """Seal all secrets again with a new data key; their values stay the same."""
    done = backend(lambda app: app.rotate_secrets(master=master))
    if json:
        show_json(done)
    elif master:
        say(f"{done.data_keys} data keys and {done.server_keys} server keys are sealed with {done.master_key} now")
    else:
        say(f"{done.secrets} secrets are sealed with a new data key")


def _standard_input() -> str:
    text = read_text(sys.stdin.buffer, "value")
    return text.removesuffix("\n").removesuffix("\r")


def _row(secret: "Secret") -> list[object]:
    return [secret.name, secret.version, secret.updated_at, secret.updated_by]
