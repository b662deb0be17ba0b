"""`windlass artifacts`: list and download the files that the steps of a run, or a job, wrote."""

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

COLUMNS = ("name", "attempt", "size", "type", "created")
OF_A_RUN = ("step", "index", *COLUMNS)
STANDARD_OUTPUT = "-"
UNITS = ("B", "KiB", "MiB", "GiB")

job_option = click.option("--job", metavar="JOB", help="Of this job, instead of a run.")


@click.group()
def artifacts() -> None:
    """List and download the files that the steps of a run, or a job, wrote."""


@artifacts.command("list")
@click.argument("run", required=False, metavar="[RUN]")
@job_option
@click.option("--step", metavar="NAME", help="Only of this step.")
@json_option
def list_(run: str | None, job: str | None, step: str | None, json: bool) -> None:
    """List the artifacts of a run or a job, including those of failed attempts, by step, index and name."""
    if (run is None) == (job is None):
        raise Invalid("name a run, or a job with --job JOB", field="run")
    if job is not None and step is not None:
        raise Invalid("--step selects a step of a run: leave it out with --job", field="step")

    async def action(app: Backend) -> "list[TaskArtifact]":
        if job is not None:
            return await app.job_artifacts(arguments.job_id(job))
        return await (await app.run(arguments.run_ref(run or ""))).artifacts(step=step)

    rows = backend(action)
    if json:
        show_json({"artifacts": rows})
    elif job is not None:
        show_table(COLUMNS, map(_row, rows))
    else:
        show_table(OF_A_RUN, ([row.task, row.index, *_row(row)] for row in rows))


@artifacts.command()
@click.argument("names", nargs=-1, metavar="[RUN STEP] NAME")
@job_option
@click.option("--output", "-o", metavar="FILE", help="Where to write it; - for standard output.  [default: its name]")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--index", type=click.IntRange(0, 2**31 - 1), default=0, metavar="N", help="Of this instance, from 0.")
@attempt_option
def get(
    names: tuple[str, ...], job: str | None, output: str | None, force: bool, index: int, attempt: int | None
) -> None:
    """Download an artifact of the attempt that succeeded, or else of the latest attempt.

    \b
    Examples:
      windlass artifacts get 01890a5d-ac96-774b-bcce-b302099a8057 render report.pdf
      windlass artifacts get 01890a5d-ac96-774b-bcce-b302099a8057 load rows.csv -o - | head
      windlass artifacts get --job 01890a5d-ac96-774b-bcce-b302099a8057 rows.csv
    """
    if len(names) != (3 if job is None else 1):
        raise Invalid("name RUN STEP NAME, or --job JOB NAME", field="names")
    name = names[-1]
    path = None if output == STANDARD_OUTPUT else Path(output or Path(name).name)
    if path is not None and path.exists() and not force:
        raise Invalid(f"{path} exists: write to another file with --output, or replace it with --force", field="output")

    async def action(app: Backend) -> int:
        if job is not None:
            rows = await app.job_artifacts(arguments.job_id(job))
            chunks = app.job_artifact(arguments.job_id(job), name, attempt=attempt)
        else:
            run, step, _ = names
            handle = await app.run(arguments.run_ref(run))
            rows = [row for row in await handle.artifacts(step=step) if row.index == index]
            chunks = handle.artifact(step, name, index=index, attempt=attempt)
        size = next((row.size for row in reversed(rows) if row.name == name), 0)
        return await (_copy(chunks, sys.stdout.buffer) if path is None else _save(chunks, path, size))

    size = backend(action)
    if path is not None:
        say(cell(f"{path}: {_size(size)}"))


async def _save(chunks: AsyncIterator[bytes], path: Path, size: int) -> int:
    """Write a file atomically and return its size; show the progress on a terminal."""
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
    return [row.name, attempt, _size(row.size), row.media_type, row.created_at]


def _size(count: float) -> str:
    for unit in UNITS:
        if count < 1024 or unit == UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
