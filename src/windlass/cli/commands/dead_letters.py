"""`windlass dead-letters`: jobs that failed for good, by what is wrong with them; many retried or dropped."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import typer

from windlass.cli.backend.interface import Backend, Row
from windlass.cli.output import Json, note, say, show_json, show_table
from windlass.cli.runner import backend
from windlass.engine.database import PAGE_LIMIT
from windlass.engine.jobs.dead_letters import BATCH_LIMIT
from windlass.errors import Invalid

Type = Annotated[str | None, typer.Option("--type", metavar="LIKE", help="A pattern: 'billing.%'.")]
Queue = Annotated[str | None, typer.Option()]
Error = Annotated[str | None, typer.Option(help="As the list has it.")]
Everything = Annotated[bool, typer.Option("--all", help="All of them, whatever their type, queue and error.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count them.")]
COLUMNS = ("count", "type", "queue", "error", "last", "example")

EXAMPLES = """Examples:

windlass dead-letters retry --type 'billing.%' --dry-run

windlass dead-letters retry --error 'ConnectionError: no route to <text>'"""


def list_(
    type_: Type = None,
    queue: Queue = None,
    error: Error = None,
    limit: Annotated[int, typer.Option(min=1, max=PAGE_LIMIT)] = 50,
    before: Annotated[int | None, typer.Option(min=0, max=2**62, help="Go on below this place.")] = None,
    json: Json = False,
) -> None:
    """In groups by type, queue and error; the one that failed last first."""
    wanted = {"type": type_, "queue": queue, "error": error}
    page = backend(lambda app: app.dead_letters(**wanted, before=before, limit=limit))
    if json:
        show_json({"groups": page.rows, "next": page.next})
        return
    show_table(COLUMNS, map(_row, page.rows))
    if page.next is not None:
        note(f"more: --before {page.next}")


def retry(
    type_: Type = None,
    queue: Queue = None,
    error: Error = None,
    all_: Everything = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Start jobs over, and retry the runs of steps; runs that came to terms with the failure are left alone."""
    wanted = _wanted(type_, queue, error, all_)
    _steer("retried", wanted, lambda app, **more: app.retry_dead_letters(**more), dry_run=dry_run, json=json)


def drop(
    type_: Type = None,
    queue: Queue = None,
    error: Error = None,
    all_: Everything = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Hide jobs; steps stay, they go with their runs."""
    wanted = _wanted(type_, queue, error, all_)
    _steer("dropped", wanted, lambda app, **more: app.drop_dead_letters(**more), dry_run=dry_run, json=json)


def _wanted(type_: str | None, queue: str | None, error: str | None, all_: bool) -> Row:
    wanted = {"type": type_, "queue": queue, "error": error}
    if not all_ and not any(wanted.values()):
        raise Invalid("say which: --type, --queue, --error, or --all", field="all")
    return wanted


def _steer(word: str, wanted: Row, act: Callable[..., Awaitable[Row]], *, dry_run: bool, json: bool) -> None:
    """Batch after batch, to the end."""

    async def action(app: Backend) -> dict[str, Any]:
        jobs: list[object] = []
        runs: list[object] = []
        done: Row = {"next": None, "left": 0}
        while True:
            done = await act(app, **wanted, dry_run=dry_run, limit=BATCH_LIMIT, before=done["next"])
            jobs += done["jobs"]
            runs += done["runs"]
            if done["next"] is None:
                return {"dry_run": dry_run, "jobs": jobs, "runs": runs, "left": done["left"]}

    told = backend(action)
    if json:
        show_json(told)
    elif dry_run:
        say(f"{told['left']} would be {word}")
    else:
        say(f"{word} {len(told['jobs'])} job(s)" + (f" and {len(told['runs'])} run(s)" if told["runs"] else ""))


def _row(group: Row) -> list[object]:
    count = f"{group['count']}{'+' if group['capped'] else ''}"
    return [count, group["type"], group["queue"], group["error"], group["last_at"], group["example_job_id"]]
