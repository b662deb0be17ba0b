"""`windlass artifacts`: list and download the files that steps of a run wrote."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from windlass.cli import arguments
from windlass.cli.arguments import attempt_option, json_option
from windlass.cli.backend.interface import Backend
from windlass.cli.output import cell, say, show_json, show_table
from windlass.cli.runner import backend
from windlass.errors import Invalid

if TYPE_CHECKING:
    from windlass.schemas.tasks import TaskArtifact

COLUMNS = ("step", "index", "name", "attempt", "size", "type", "created")
STANDARD_OUTPUT = "-"
UNITS = ("B", "KiB", "MiB", "GiB")

run_argument = click.argument("run", metavar="RUN")


@click.group()
def artifacts() -> None:
    """List and download the files that steps of a run wrote."""


@artifacts.command("list")
@run_argument
@click.option("--step", metavar="NAME", help="Only of this step.")
@json_option
def list_(run: str, step: str | None, json: bool) -> None:
    """List the artifacts of a run, by step, index and name, also those of attempts that failed."""

    async def action(app: Backend) -> "list[TaskArtifact]":
        return await (await app.run(arguments.run_ref(run))).artifacts(step=step)

    rows = backend(action)
    show_json({"artifacts": rows}) if json else show_table(COLUMNS, map(_row, rows))


@artifacts.command()
@run_argument
@click.argument("step")
@click.argument("name")
@click.option("--output", "-o", metavar="FILE", help="Where to write it; - for standard output.  [default: its name]")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--index", type=click.IntRange(0, 2**31 - 1), default=0, metavar="N", help="Of this instance, from 0.")
@attempt_option
def get(run: str, step: str, name: str, output: str | None, force: bool, **which: Any) -> None:
    """Download an artifact: of the attempt that succeeded, or of the latest one.

    \b
    Examples:
      windlass artifacts get 01890a5d-ac96-774b-bcce-b302099a8057 render report.pdf
      windlass artifacts get 01890a5d-ac96-774b-bcce-b302099a8057 load rows.csv -o - | head
    """
    path = None if output == STANDARD_OUTPUT else Path(output or Path(name).name)
    if path is not None and path.exists() and not force:
        raise Invalid(f"{path} exists: write to another file with --output, or replace it with --force", field="output")

    async def action(app: Backend) -> int:
        handle = await app.run(arguments.run_ref(run))
        rows = [row for row in await handle.artifacts(step=step) if row.name == name and row.index == which["index"]]
        size = rows[-1].size if rows else 0
        chunks = handle.artifact(step, name, **which)
        return await (_copy(chunks, sys.stdout.buffer) if path is None else _save(chunks, path, size))

    size = backend(action)
    if path is not None:
        say(cell(f"{path}: {_size(size)}"))


async def _save(chunks: AsyncIterator[bytes], path: Path, size: int) -> int:
    """Write a file that is complete or does not exist; show the progress on a terminal."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            if not sys.stderr.isatty():
                copied = await _copy(chunks, file)
            else:
                with click.progressbar(length=size, label=cell(path.name), file=sys.stderr, width=30) as bar:
                    copied = await _copy(chunks, file, bar.update)
        os.replace(part, path)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}", field="output") from None
    finally:
        part.unlink(missing_ok=True)
    return copied


async def _copy(chunks: AsyncIterator[bytes], file: BinaryIO, report: Any = None) -> int:
    copied = 0
    async for chunk in chunks:
        file.write(chunk)
        copied += len(chunk)
        if report is not None:
            report(len(chunk))
    file.flush()
    return copied


def _row(row: "TaskArtifact") -> list[object]:
    attempt = str(row.attempt) if row.is_result else f"{row.attempt} (not the result)"
    return [row.task, row.index, row.name, attempt, _size(row.size), row.media_type, row.created_at]


def _size(count: float) -> str:
    for unit in UNITS:
        if count < 1024 or unit == UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
