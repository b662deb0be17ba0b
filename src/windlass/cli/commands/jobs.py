"""`windlass submit` and `windlass jobs`: record jobs, list, inspect and control them."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from windlass.cli import arguments
from windlass.cli.arguments import attempt_option, json_option, limit_option, reason_option
from windlass.cli.backend.interface import Backend
from windlass.cli.output import block, note, record, say, show_fields, show_json, show_progress, show_table
from windlass.cli.runner import INTERRUPTED, backend, each, show_page
from windlass.core import duration
from windlass.core.jobs.job import TERMINAL, JobState
from windlass.core.jobs.spec import DEFAULT_PRIORITY
from windlass.errors import Conflict

if TYPE_CHECKING:
    from windlass.schemas.jobs import Job, JobChunk, JobDetail, JobEvent, JobStep

COLUMNS = ("id", "type", "status", "queue", "attempt", "created", "error")
EVENT_COLUMNS = ("time", "event", "attempt", "actor", "data")
LOG_COLUMNS = ("time", "attempt", "level", "message")
STEP_COLUMNS = ("time", "step", "status", "until", "waits for", "result")

id_argument = click.argument("id_", metavar="ID")
ids_argument = click.argument("ids", nargs=-1, required=True, metavar="ID...")


@click.command()
@click.argument("type_", metavar="TYPE")
@click.argument("payload", required=False)
@click.option("--payload-file", type=click.Path(path_type=Path), metavar="FILE", help="Read the payload from a file.")
@click.option("--queue", metavar="NAME", help="Queue of the job.  [default: default]")
@click.option("--priority", type=int, default=DEFAULT_PRIORITY, metavar="N", help="Lower priorities run first.")
@click.option("--delay", metavar="DURATION", help="Run after this delay: 5m.")
@click.option("--run-at", metavar="TIME", help="Run at this time: 2030-01-31T12:00Z.")
@click.option("--max-attempts", type=int, metavar="N", help="Attempts in total.  [default: 3]")
@click.option("--timeout", metavar="DURATION", help="Time limit of one attempt: 30s.")
@click.option("--key", help="Idempotency key: if a job has it, print that job's id and record nothing.", metavar="KEY")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Tag of the job; repeatable.")
@click.option("--meta", metavar="JSON", help="Object stored with the job.")
@click.option("--wait", is_flag=True, help="Wait until the job has ended; exit code 1 unless it succeeded.")
@click.option("--timeout-wait", metavar="DURATION", help="With --wait: wait at most this long: 5m.")
@json_option
def submit(
    type_: str,
    payload: str | None,
    payload_file: Path | None,
    wait: bool,
    timeout_wait: str | None,
    json: bool,
    **more: Any,
) -> None:
    """Record a job and print its id.

    TYPE is the job type, by convention domain.action.vN. PAYLOAD is JSON; - reads it from standard input.

    \b
    Examples:
      windlass submit content.thumbnail.v1 '{"content_id": "c_123"}'
      windlass submit mail.send.v1 --payload-file mail.json --delay 5m --key order-7
      echo '{"n": 1}' | windlass submit report.build.v1 - --wait
    """
    document = arguments.document(payload, payload_file, field="payload")
    options = _options(**more)
    patience = arguments.span(timeout_wait, field="timeout-wait")

    async def action(app: Backend) -> JobState | None:
        id_ = await app.submit(type_, document, **options)
        if not json:
            say(str(id_))
        if wait:
            return await _wait(app, id_, patience, json=json)
        if json:
            show_json({"id": id_})
        return None

    if backend(action) not in (None, JobState.SUCCEEDED):
        raise click.exceptions.Exit(1)


@click.group()
def jobs() -> None:
    """List, inspect, cancel, retry and delete jobs."""


@jobs.command("list")
@click.option("--status", "statuses", multiple=True, metavar="STATUS", help="Jobs with this status; repeatable.")
@click.option("--type", "type_", metavar="LIKE", help="Job types that match: 'billing.%'.")
@click.option("--queue", metavar="NAME", help="Jobs of this queue.")
@click.option("--tag", metavar="TAG", help="Jobs with this tag.")
@limit_option(50, "Jobs")
@click.option("--before", type=click.IntRange(0, 2**62), metavar="PLACE", help="Continue below this place.")
@json_option
def list_(statuses: tuple[str, ...], json: bool, **filters: Any) -> None:
    """List jobs, newest first.

    \b
    Examples:
      windlass jobs list --status failed --type 'billing.%'
      windlass jobs list --status pending --status leased --limit 200 --json
    """
    page = backend(lambda app: app.jobs(statuses=statuses, **filters))
    show_page("jobs", page, COLUMNS, _row, "--before", json=json)


@jobs.command()
@id_argument
@json_option
def show(id_: str, json: bool) -> None:
    """Show one job: its fields, the errors of its attempts and its events."""
    job_id = arguments.job_id(id_)

    async def action(app: Backend) -> "tuple[JobDetail, list[JobEvent]]":
        return await app.job(job_id), await app.job_events(job_id)

    job, events = backend(action)
    if json:
        show_json({**record(job), "events": events})
        return
    show_fields({name: value for name, value in record(job).items() if name not in ("errors", "progress")})
    if job.progress is not None:
        show_progress(job.progress)
    for error in job.errors:
        say(f"\nerror of attempt {error.get('attempt', '?')}", "bold")
        show_fields({name: value for name, value in error.items() if name != "attempt"})
    say("\nevents", "bold")
    show_table(EVENT_COLUMNS, [[one.at, one.event, one.attempt, one.actor, one.data] for one in events])


@jobs.command()
@id_argument
@attempt_option
@json_option
def logs(id_: str, attempt: int | None, json: bool) -> None:
    """Show the log lines of a job."""
    job_id = arguments.job_id(id_)
    lines = backend(lambda app: app.job_logs(job_id, attempt=attempt))
    if json:
        show_json(lines)
    elif lines:
        show_table(LOG_COLUMNS, [[line.at, line.attempt, line.level, line.message] for line in lines])
    else:
        note("nothing was logged")


@jobs.command()
@id_argument
@json_option
def stream(id_: str, json: bool) -> None:
    """Print the stream of a job as it arrives, until the job has ended.

    Strings are printed as text, other chunks as JSON. A note marks the start of each further attempt.
    """
    job_id = arguments.job_id(id_)

    async def action(app: Backend) -> bool:
        last: JobChunk | None = None
        async for chunk in app.job_stream(job_id):
            if json:
                show_json(chunk)
            else:
                if last is not None and chunk.section != last.section:
                    note(f"\nattempt {chunk.attempt}:")
                _show_chunk(chunk.data)
            last = chunk
        return last is not None

    try:
        is_any = backend(action)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not is_any and not json:
        note("nothing was streamed")


def _show_chunk(data: Any) -> None:
    if isinstance(data, str):
        click.echo(block(data), nl=False)
    else:
        show_json(data)


@jobs.command()
@ids_argument
@reason_option
@json_option
def cancel(ids: tuple[str, ...], reason: str | None, json: bool) -> None:
    """Cancel pending and running jobs."""
    each(arguments.job_ids(ids), "cancelled", lambda app, id_: app.cancel_job(id_, reason=reason), json=json)


@jobs.command()
@ids_argument
@click.option("--fresh", is_flag=True, help="Discard the results that their handlers recorded: all steps run again.")
@json_option
def retry(ids: tuple[str, ...], fresh: bool, json: bool) -> None:
    """Retry failed or cancelled jobs; their attempts are counted from zero again."""
    each(arguments.job_ids(ids), "retried", lambda app, id_: app.retry_job(id_, fresh=fresh), json=json)


@jobs.command()
@id_argument
@json_option
def steps(id_: str, json: bool) -> None:
    """Show the recorded steps of a job's handler, and what it waits for."""
    job_id = arguments.job_id(id_)
    rows = backend(lambda app: app.job_steps(job_id))
    if json:
        show_json(rows)
    elif rows:
        show_table(
            STEP_COLUMNS, [[row.at, row.name, row.status, row.until, _waits_for(row), row.result] for row in rows]
        )
    else:
        note("nothing was recorded")


@jobs.command()
@ids_argument
@json_option
def delete(ids: tuple[str, ...], json: bool) -> None:
    """Hide jobs; pending jobs will not run."""
    each(arguments.job_ids(ids), "deleted", lambda app, id_: app.delete_job(id_), json=json)


def _options(
    *, delay: str | None, run_at: str | None, timeout: str | None, key: str | None, meta: str | None, **plain: Any
) -> dict[str, Any]:
    """Return the options of a job as the backend takes them; those that need no parsing are passed on."""
    return {
        **plain,
        "delay": duration.parse(delay, field="delay") if delay is not None else None,
        "run_at": arguments.moment(run_at, field="run-at") if run_at is not None else None,
        "timeout": duration.parse(timeout, field="timeout") if timeout is not None else None,
        "idempotency_key": key,
        "meta": arguments.json_object(meta, field="meta") if meta is not None else None,
    }


def _waits_for(step: "JobStep") -> str | None:
    if step.message is not None:
        return f"signal {step.message}" if step.key is None else f"event {step.message} {step.key}".rstrip()
    return f"run {step.run_id}" if step.run_id is not None else None


def _row(job: "Job") -> list[object]:
    error = (job.error or "").partition("\n")[0]
    short = error if len(error) <= 60 else f"{error[:59]}…"
    return [job.id, job.type, job.status, job.queue, f"{job.attempt}/{job.max_attempts}", job.inserted_at, short]


async def _wait(app: Backend, id_: UUID, patience: timedelta | None, *, json: bool) -> JobState:
    """Wait until a job has ended and print its result; return its state."""
    try:
        async with asyncio.timeout(patience.total_seconds() if patience is not None else None):
            await _ended(app, id_)
    except TimeoutError:
        job = await app.job(id_)
        waited = duration.text(patience or timedelta())
        raise Conflict(f"job {id_} is still {job.status} after {waited}: it is recorded and continues") from None
    job = await app.job(id_)
    state = JobState(job.status)
    if json:
        show_json(job)
    else:
        say(f"{state}: {block(job.result if state is JobState.SUCCEEDED else job.error)}", "bold")
    return state


async def _ended(app: Backend, id_: UUID) -> None:
    pause = 0.05
    with _spinner(id_) as update:
        while (job := await app.job(id_)).status not in TERMINAL:
            update(f"{job.status}, attempt {max(job.attempt, 1)} of {job.max_attempts}")
            await asyncio.sleep(pause)
            pause = min(1.0, pause * 1.5)


@contextlib.contextmanager
def _spinner(id_: UUID) -> Iterator[Callable[[str], None]]:
    """Show a spinner on a terminal, nothing in a pipe."""
    from rich.console import Console  # slow to import, and only --wait needs it

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _text: None
        return
    with console.status("waiting") as status:
        yield lambda text: status.update(f"{id_} {text}")
