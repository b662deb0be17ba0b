"""`make demo`: starts a database, submits jobs, kills a worker, and shows that no job is lost."""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

from examples import demo_workflow
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from windlass import Windlass
from windlass.settings import Settings

JOBS = 400
console = Console(highlight=False)


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="windlass-demo-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        os.environ["WINDLASS_HOME"] = folder
        os.environ.pop("WINDLASS_MASTER_KEY", None)  # the embedded database has its own key
        started = time.perf_counter()
        async with Windlass(settings=Settings(home=Path(folder))) as app:
            say(f"Postgres is running and the schema is migrated ({time.perf_counter() - started:.1f} s)", app.url())
            await show(app)
            await demo_workflow.show(app)
            say(
                "Try it yourself",
                "export PATH=$PWD/.venv/bin:$PATH, then in two terminals:\n"
                "  windlass up examples.thumbnails:app\n"
                "  windlass submit report.sum.v1 '{\"numbers\": [1, 2]}' --wait\n"
                "The comment in examples/whole-order.yaml shows how to run the workflow.",
            )


async def show(app: Windlass) -> None:
    await app.submit_many(
        {"type": "content.thumbnail.v1", "payload": {"content_id": f"c_{n}"}, "idempotency_key": f"thumb:{n}"}
        for n in range(JOBS)
    )
    email = await app.submit("notify.email.v1", {"template": "welcome", "to": "ada@example.org"})
    broken = await app.submit("notify.email.v1", {"template": "welcome", "to": "nowhere"})
    db = await app.open()
    await db.pool.execute(
        "insert into workflow.workflow_run (type, payload, idempotency_key)"
        " values ('report.sum.v1', '{\"numbers\": [1, 2, 3]}', 'sum:1') on conflict (idempotency_key) do nothing"
    )
    say(f"{JOBS + 3} jobs submitted, one of them with plain SQL", "no worker is running yet")

    first = await worker()
    await progress(app, JOBS // 3)
    first.send_signal(signal.SIGKILL)
    await first.wait()
    say(
        "The worker was killed (SIGKILL) in the middle of its work",
        "its leases expire, and its jobs become pending again",
    )

    second = await worker()
    await progress(app, JOBS + 3)
    second.send_signal(signal.SIGTERM)
    await second.wait()
    await report(app)
    await trail(app, email, "A mail that failed once and was retried")
    await trail(app, broken, "A mail that cannot be sent fails at once")


async def worker() -> asyncio.subprocess.Process:
    command = [
        sys.executable,
        "-m",
        "windlass",
        "worker",
        "examples.thumbnails:app",
        "--lease",
        "2s",
        "--concurrency",
        "10",
    ]
    return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)


async def progress(app: Windlass, target: int) -> None:
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task("working", total=JOBS + 3)
        while (done := (await counts(app))["ended"]) < target:
            bar.update(task, completed=done)
            await asyncio.sleep(0.1)


async def counts(app: Windlass) -> Counter[str]:
    db = await app.open()
    rows = await db.pool.fetch("select status, count(*) from workflow.workflow_run group by status")
    counted = Counter({row[0]: row[1] for row in rows})
    counted["ended"] = counted["succeeded"] + counted["failed"]
    return counted


async def report(app: Windlass) -> None:
    db = await app.open()
    twice = await db.pool.fetchval(
        "select count(*) from (select 1 from workflow.workflow_event where event_type = 'succeeded'"
        " group by workflow_id having count(*) > 1) as doubled"
    )
    lost = await db.pool.fetchval("select count(*) from workflow.workflow_run where lost > 0")
    counted = await counts(app)
    say(
        f"{counted['succeeded']} succeeded, {counted['failed']} failed, {counted['pending'] + counted['leased']} left",
        f"{lost} were running on the killed worker and ran again; {twice} were recorded twice",
    )
    if twice or counted["succeeded"] != JOBS + 2:
        sys.exit("a job was lost or recorded twice: this is a bug")


async def trail(app: Windlass, id_: UUID, title: str) -> None:
    table = Table(title=title, title_justify="left", show_edge=False)
    for column in ("event", "attempt", "data"):
        table.add_column(column)
    for event in await app.events(id_):
        table.add_row(event.event_type, str(event.attempt or ""), str(event.data or ""))
    console.print(table)


def say(what: str, detail: str) -> None:
    console.print(f"[bold green]>[/] [bold]{what}[/]\n  {detail}")


if __name__ == "__main__":
    asyncio.run(main())
