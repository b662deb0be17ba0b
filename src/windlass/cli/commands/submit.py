"""`windlass submit`: record one job, and wait for its end if asked to."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console

from windlass.cli import arguments
from windlass.cli.backend.interface import Backend
from windlass.cli.output import Json, block, say, show_json
from windlass.cli.runner import backend
from windlass.core import duration
from windlass.core.jobs.job import TERMINAL, JobState
from windlass.core.jobs.spec import DEFAULT_PRIORITY
from windlass.errors import Conflict, Invalid

EXAMPLES = """Examples:

windlass submit content.thumbnail.v1 '{"content_id": "c_123"}'

windlass submit mail.send.v1 --payload-file mail.json --delay 5m --key order-7

echo '{"n": 1}' | windlass submit report.build.v1 - --wait"""


def submit(
    type_: Annotated[str, typer.Argument(metavar="TYPE", help="Should be domain.action.vN.")],
    payload: Annotated[str | None, typer.Argument(metavar="PAYLOAD", help="JSON, or - for standard input.")] = None,
    payload_file: Annotated[Path | None, typer.Option(help="Read the payload from a file.")] = None,
    queue: Annotated[str | None, typer.Option(help="Default: default.")] = None,
    priority: Annotated[int, typer.Option(help="Lower runs first.")] = DEFAULT_PRIORITY,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Not before this has passed: 5m.")] = None,
    run_at: Annotated[str | None, typer.Option(metavar="ISO", help="Not before: 2030-01-31T12:00Z.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Attempts in all; default 3.")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="DURATION", help="How long an attempt may take: 30s.")] = None,
    key: Annotated[str | None, typer.Option(help="Idempotency key: a known one answers with its job.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    meta: Annotated[str | None, typer.Option(metavar="JSON", help="An object kept with the job.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end; exit code 1 unless it succeeded.")] = False,
    timeout_wait: Annotated[str | None, typer.Option(metavar="DURATION", help="Wait no longer than this.")] = None,
    json: Json = False,
) -> None:
    """Record a job; prints its id."""
    options: dict[str, Any] = {
        "queue": queue,
        "priority": priority,
        "delay": duration.parse(delay, field="delay") if delay is not None else None,
        "run_at": _moment(run_at) if run_at is not None else None,
        "max_attempts": max_attempts,
        "timeout": duration.parse(timeout, field="timeout") if timeout is not None else None,
        "idempotency_key": key,
        "tags": tag or (),
        "meta": arguments.json_object(meta, field="meta") if meta is not None else None,
    }
    given = arguments.document(payload, payload_file, field="payload")
    patience = duration.parse(timeout_wait, field="timeout-wait") if timeout_wait is not None else None

    async def action(app: Backend) -> JobState | None:
        id_ = await app.submit(type_, given, **options)
        if not json:
            typer.echo(str(id_))
        if wait:
            return await _wait(app, id_, patience, json=json)
        if json:
            show_json({"id": id_})
        return None

    if backend(action) not in (None, JobState.SUCCEEDED):
        raise typer.Exit(1)


async def _wait(app: Backend, id_: UUID, patience: timedelta | None, *, json: bool) -> JobState:
    try:
        async with asyncio.timeout(patience.total_seconds() if patience is not None else None):
            await _ended(app, id_)
    except TimeoutError:
        job = await app.job(id_)
        waited = duration.text(patience or timedelta())
        raise Conflict(f"job {id_} is still {job['status']} after {waited}: it is recorded and goes on") from None
    job = await app.job(id_)
    state = JobState(job["status"])
    if json:
        show_json(job)
    else:
        say(f"{state}: {block(job['result'] if state is JobState.SUCCEEDED else job['last_error'])}", "bold")
    return state


async def _ended(app: Backend, id_: UUID) -> None:
    pause = 0.05
    with _progress(id_) as tell:
        while (job := await app.job(id_))["status"] not in TERMINAL:
            tell(f"{job['status']}, attempt {job['attempt'] + job['lost'] + 1} of {job['max_attempts']}")
            await asyncio.sleep(pause)
            pause = min(1.0, pause * 1.5)


@contextlib.contextmanager
def _progress(id_: UUID) -> Iterator[Any]:
    """A spinner on a terminal, silence in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _text: None
        return
    with console.status("waiting") as status:
        yield lambda text: status.update(f"{id_} {text}")


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"run-at is {text!r}: it must look like 2030-01-31T12:00:00Z", field="run-at") from None
