"""Runs the coroutine of a command: through a server, or on the database."""

import asyncio
import getpass
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from windlass import settings
from windlass.cli import local_key, logs
from windlass.cli.backend.interface import Backend
from windlass.cli.output import cell, note, say, show_json, show_table
from windlass.errors import WindlassError

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.schemas.common import Page

T = TypeVar("T")
INTERRUPTED = 130  # exit code after Ctrl-C


def backend(action: Callable[[Backend], Awaitable[T]]) -> T:
    """Run an action through the server that --url or WINDLASS_URL names, otherwise on the database.

    Only the backend in use is imported: a command through a server loads no engine, one on the database no client.
    """
    chosen = settings.read()
    if chosen.url is None:
        from windlass.cli.backend.direct import Direct, check_exists

        async def directly(app: "Windlass") -> T:
            await check_exists(await app.open())
            return await action(Direct(app))

        return use(directly)
    logs.configure(chosen, brief=True)
    key = chosen.api_keys[0] if chosen.api_keys else local_key.find(chosen.home, chosen.url)
    return asyncio.run(_remotely(action, chosen.url, key, chosen.org))


def use(action: "Callable[[Windlass], Awaitable[T]]") -> T:
    """Open Windlass on its database, run an action, close it."""
    from windlass.app import Windlass

    chosen = settings.read()
    logs.configure(chosen, brief=True)

    async def inside() -> T:
        app = Windlass(settings=chosen, actor=f"cli:{_user()}")
        try:
            return await action(app)
        finally:
            await app.close()

    return asyncio.run(inside())


def show_page(
    name: str, page: "Page[T]", columns: Sequence[str], row: Callable[[T], Sequence[object]], option: str, *, json: bool
) -> None:
    """Print a page of a list, and the option that continues after it."""
    if json:
        show_json({name: page.items, "next": page.next})
        return
    show_table(columns, map(row, page.items))
    if page.next is not None:
        note(f"more: {option} {page.next}")


def each(
    items: Sequence[T], done: str, act: Callable[[Backend, T], Awaitable[None]], *, json: bool, key: str = "id"
) -> None:
    """Act on each item independently: a failure is reported and does not stop the others; exit with 1 if any failed."""

    async def action(app: Backend) -> list[tuple[T, str | None]]:
        return [(item, await _error(act(app, item))) for item in items]

    results = backend(action)
    if json:
        show_json([{key: item, done: error is None, "error": error} for item, error in results])
    for item, error in results if not json else ():
        note(cell(f"error: {error}")) if error else say(cell(f"{done} {item}"))
    if any(error for _, error in results):
        raise click.exceptions.Exit(1)


async def _remotely(action: Callable[[Backend], Awaitable[T]], url: str, key: str | None, org: str | None) -> T:
    # httpx imports its own command line, with rich and pygments, unless that fails: 40 % of its import time.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # None makes the import fail
    from windlass.cli.backend.remote import remote

    async with remote(url, key, org) as server:
        return await action(server)


async def _error(act: Awaitable[None]) -> str | None:
    try:
        await act
    except WindlassError as error:
        return str(error)
    return None


def _user() -> str:
    """Return the name of the user, or the user id if it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
