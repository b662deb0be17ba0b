"""`windlass jobs`: look at jobs, and steer them."""

from typing import Annotated, Any

import typer

from windlass.cli.backend.interface import Backend
from windlass.cli.bulk import each
from windlass.cli.output import Json, note, say, show_fields, show_json, show_progress, show_table
from windlass.cli.runner import backend
from windlass.core import duration
from windlass.engine.database import PAGE_LIMIT
from windlass.engine.jobs.control import ids_of

Id = Annotated[str, typer.Argument(metavar="ID")]
Ids = Annotated[list[str], typer.Argument(metavar="ID")]
COLUMNS = ("id", "type", "status", "queue", "attempt", "created", "error")

LIST_EXAMPLES = """Examples:

windlass jobs list --status failed --type 'billing.%'

windlass jobs list --status pending --status leased --limit 200 --json"""


def list_(
    status: Annotated[list[str] | None, typer.Option(help="May be repeated.")] = None,
    type_: Annotated[str | None, typer.Option("--type", metavar="LIKE", help="A pattern: 'billing.%'.")] = None,
    queue: Annotated[str | None, typer.Option()] = None,
    tag: Annotated[str | None, typer.Option()] = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE_LIMIT)] = 50,
    before: Annotated[int | None, typer.Option(min=0, max=2**62, help="Go on below this place.")] = None,
    json: Json = False,
) -> None:
    """Newest first."""
    filters = {"statuses": status, "type_": type_, "queue": queue, "tag": tag, "limit": limit, "before": before}
    page = backend(lambda app: app.jobs(**filters))
    if json:
        show_json({"jobs": page.rows, "next": page.next})
        return
    show_table(COLUMNS, map(_row, page.rows))
    if page.next is not None:
        note(f"more: --before {page.next}")


def show(id_: Id, json: Json = False) -> None:
    """Everything about one job: its fields, the errors of its attempts, its events."""
    [job_id] = ids_of([id_])

    async def action(app: Backend) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        return await app.job(job_id), await app.job_events(job_id)

    job, events = backend(action)
    if json:
        show_json({**job, "events": events})
        return
    timeout = {"timeout": duration.text(job["timeout"])} if job["timeout"] is not None else {}
    show_fields({name: value for name, value in {**job, **timeout}.items() if name not in ("errors", "progress")})
    if job["progress"] is not None:
        show_progress(job["progress"])
    for error in job["errors"]:
        say(f"\nerror of attempt {error.get('attempt', '?')}", "bold")
        show_fields({name: value for name, value in error.items() if name != "attempt"})
    say("\nevents", "bold")
    names = ("created_at", "event_type", "attempt", "actor", "data")
    show_table(("time", "event", "attempt", "actor", "data"), [[event[name] for name in names] for event in events])


def logs(
    id_: Id,
    attempt: Annotated[int | None, typer.Option(min=1, max=2**31 - 1, help="Only of this attempt.")] = None,
    json: Json = False,
) -> None:
    """What the job's handler logged."""
    [job_id] = ids_of([id_])
    lines = backend(lambda app: app.job_logs(job_id, attempt=attempt))
    if json:
        show_json(lines)
    elif lines:
        names = ("at", "attempt", "level", "message")
        show_table(("time", "attempt", "level", "message"), [[line[name] for name in names] for line in lines])
    else:
        note("nothing was logged")


def cancel(
    ids: Ids, reason: Annotated[str | None, typer.Option(help="Kept in the trail.")] = None, json: Json = False
) -> None:
    """End jobs that wait or run."""
    each(ids_of(ids), "cancelled", lambda app, id_: app.cancel_job(id_, reason=reason), json=json)


def retry(ids: Ids, json: Json = False) -> None:
    """Start failed or cancelled jobs over."""
    each(ids_of(ids), "retried", lambda app, id_: app.retry_job(id_), json=json)


def delete(ids: Ids, json: Json = False) -> None:
    """Hide jobs; what waits is not run any more."""
    each(ids_of(ids), "deleted", lambda app, id_: app.delete_job(id_), json=json)


def _row(job: dict[str, Any]) -> list[object]:
    error = (job["last_error"] or "").partition("\n")[0]
    count = f"{job['attempt'] + job['lost']}/{job['max_attempts']}"
    short = error if len(error) <= 60 else f"{error[:59]}…"
    return [job["id"], job["type"], job["status"].value, job["queue"], count, job["created_at"], short]
