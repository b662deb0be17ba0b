"""`windlass queues`, `dead-letters`, `quarantine` and `workers`: the state of an installation."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.arguments import FC, after_option, json_option, limit_option
from windlass.cli.backend.interface import Backend
from windlass.cli.output import cell, note, say, show_json, show_table
from windlass.cli.runner import backend, each, show_page
from windlass.core import duration
from windlass.errors import Invalid
from windlass.schemas.common import BATCH_LIMIT

if TYPE_CHECKING:
    from windlass.schemas.jobs import DeadLetterBatch, DeadLetterGroup
    from windlass.schemas.monitoring import Quarantined, Queue, Worker

QUEUE_COLUMNS = ("name", "due", "scheduled", "leased", "oldest", "ended/s", "state")
DEAD_LETTER_COLUMNS = ("count", "type", "queue", "error", "last", "example")
QUARANTINE_COLUMNS = ("kind", "key", "failures", "last failed", "next try", "reason")
WORKER_COLUMNS = ("id", "alive", "state", "active", "queues", "types", "last seen")
# The kinds of quarantined items.
KINDS = ("run", "workflow", "trigger", "cron", "schedule", "job", "start", "message", "event", "duty")

names_argument = click.argument("names", nargs=-1, required=True, metavar="NAME...")


def filter_options(command: FC) -> FC:
    """Add the options that select dead letters."""
    error = click.option("--error", metavar="TEXT", help="Jobs with this error, as `dead-letters list` prints it.")
    queue = click.option("--queue", metavar="NAME", help="Jobs of this queue.")
    type_ = click.option("--type", metavar="LIKE", help="Job types that match: 'billing.%'.")
    return type_(queue(error(command)))


def batch_options(command: FC) -> FC:
    """Add the options of commands that change all dead letters that match."""
    dry_run = click.option("--dry-run", is_flag=True, help="Print the number of matching jobs and change nothing.")
    everything = click.option("--all", "all_", is_flag=True, help="All dead letters.")
    return filter_options(everything(dry_run(json_option(command))))


@click.group()
def queues() -> None:
    """List queues, pause and resume them."""


@queues.command("list")
@limit_option(100, "Queues")
@after_option
@json_option
def list_queues(limit: int, after: str, json: bool) -> None:
    """List queues by name: those that have jobs, a depth limit, or were ever paused."""
    page = backend(lambda app: app.queues(after=after, limit=limit))
    show_page("queues", page, QUEUE_COLUMNS, _queue_row, "--after", json=json)


@queues.command()
@names_argument
@json_option
def pause(names: tuple[str, ...], json: bool) -> None:
    """Stop claiming jobs from these queues; running jobs finish."""
    each(names, "paused", lambda app, name: app.pause_queue(name), key="name", json=json)


@queues.command()
@names_argument
@json_option
def resume(names: tuple[str, ...], json: bool) -> None:
    """Resume claiming jobs from these queues."""
    each(names, "resumed", lambda app, name: app.resume_queue(name), key="name", json=json)


@click.group()
def dead_letters() -> None:
    """List, retry and drop jobs that failed for good."""


@dead_letters.command("list")
@filter_options
@limit_option(50, "Groups")
@click.option("--before", type=click.IntRange(0, 2**62), metavar="PLACE", help="Continue below this place.")
@json_option
def list_dead_letters(json: bool, **options: Any) -> None:
    """List dead letters grouped by type, queue and error, most recent failure first."""
    page = backend(lambda app: app.dead_letters(**options))
    show_page("groups", page, DEAD_LETTER_COLUMNS, _dead_letter_row, "--before", json=json)


@dead_letters.command("retry")
@batch_options
def retry_dead_letters(**options: Any) -> None:
    """Retry matching jobs; failed steps are retried with their runs.

    A run that is still live, or that succeeded in spite of the failure, is not changed.

    \b
    Examples:
      windlass dead-letters retry --type 'billing.%' --dry-run
      windlass dead-letters retry --error 'ConnectionError: no route to <text>'
    """
    _apply("retried", lambda app, **batch: app.retry_dead_letters(**batch), **options)


@dead_letters.command("drop")
@batch_options
def drop_dead_letters(**options: Any) -> None:
    """Hide matching jobs; failed steps are kept until their runs are removed."""
    _apply("dropped", lambda app, **batch: app.drop_dead_letters(**batch), **options)


@click.group()
def quarantine() -> None:
    """List and retry items set aside after an unexpected error."""


@quarantine.command("list")
@limit_option(100, "Items")
@json_option
def list_quarantine(limit: int, json: bool) -> None:
    """List quarantined items, latest failure first.

    They are retried automatically, with increasing delays.
    """
    rows = backend(lambda app: app.quarantine(limit=limit))
    if json:
        show_json({"quarantine": rows})
        return
    show_table(QUARANTINE_COLUMNS, map(_quarantine_row, rows))
    if not rows:
        note("the quarantine is empty")


@quarantine.command("retry")
@click.argument("kind", type=click.Choice(KINDS), metavar="KIND")
@click.argument("key")
@json_option
def retry_quarantined(kind: str, key: str, json: bool) -> None:
    """Retry a quarantined item now, for example after its cause was fixed.

    KIND and KEY are as printed by `quarantine list`.

    \b
    Example:
      windlass quarantine retry run 01a1dda3-07b5-7e5c-8f1a-0d6a2f0b4a11
    """
    row = backend(lambda app: app.retry_quarantined(kind, key))
    show_json(row) if json else say(cell(f"{kind} {key} is retried within a second"))


@click.command()
@json_option
def workers(json: bool) -> None:
    """List workers, most recent heartbeat first."""
    rows = backend(lambda app: app.workers())
    if json:
        show_json(rows)
    else:
        show_table(WORKER_COLUMNS, map(_worker_row, rows))


def _apply(
    verb: str,
    act: "Callable[..., Awaitable[DeadLetterBatch]]",
    *,
    all_: bool,
    dry_run: bool,
    json: bool,
    **filters: str | None,
) -> None:
    """Act on all matching dead letters, batch by batch."""
    if not all_ and not any(filters.values()):
        raise Invalid("no filter: choose jobs with --type, --queue or --error, or all of them with --all", field="all")

    async def action(app: Backend) -> dict[str, Any]:
        jobs: list[str] = []
        runs: list[str] = []
        before: int | None = None
        while True:
            batch = await act(app, **filters, dry_run=dry_run, limit=BATCH_LIMIT, before=before)
            jobs += batch.jobs
            runs += batch.runs
            if batch.next is None:
                return {"dry_run": dry_run, "jobs": jobs, "runs": runs, "left": batch.left}
            before = int(batch.next)

    total = backend(action)
    if json:
        show_json(total)
    elif dry_run:
        say(f"{total['left']} would be {verb}")
    else:
        say(f"{verb} {len(total['jobs'])} job(s)" + (f" and {len(total['runs'])} run(s)" if total["runs"] else ""))


def _queue_row(queue: "Queue") -> list[object]:
    more = "+" if queue.capped else ""
    counts = [f"{queue.due}{more}", f"{queue.scheduled}{more}", queue.leased]
    oldest = None if queue.oldest_seconds is None else duration.brief(timedelta(seconds=queue.oldest_seconds))
    return [queue.name, *counts, oldest, f"{queue.ended_per_second:.1f}", "paused" if queue.paused else "on"]


def _dead_letter_row(group: "DeadLetterGroup") -> list[object]:
    count = f"{group.count}{'+' if group.capped else ''}"
    return [count, group.type, group.queue, group.error, group.last_at, group.example_job_id]


def _quarantine_row(entry: "Quarantined") -> list[object]:
    reason = f"{entry.error_type}: {entry.reason}"
    return [entry.kind, entry.key, entry.failures, entry.last_at, entry.retry_at or "never", reason]


def _worker_row(worker: "Worker") -> list[object]:
    alive = "no" if worker.status in ("silent", "stopped") else "yes"
    slots = f"{worker.active}/{worker.slots}"
    return [worker.id, alive, worker.status, slots, worker.queues, worker.types, worker.seen_at]
