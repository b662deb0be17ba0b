"""Commands about queues, dead letters and the quarantine on the database."""

from typing import Any

from windlass.app import Windlass
from windlass.cli.backend.interface import Row, Rows
from windlass.cli.output import record
from windlass.engine import quarantine
from windlass.engine.database import MOST_COUNTED
from windlass.engine.jobs import dead_letters, queues
from windlass.engine.jobs.dead_letters import Group, Steered, Wanted
from windlass.engine.jobs.queues import Queue
from windlass.engine.quarantine import Kind


class DirectQueues:
    _app: Windlass

    async def queues(self, *, after: str, limit: int) -> Rows:
        page = await queues.list_(await self._app.open(), after=after, limit=limit)
        return Rows([_queue(found) for found in page.queues], page.next)

    async def pause_queue(self, name: str) -> None:
        await queues.pause(await self._app.open(), name)

    async def resume_queue(self, name: str) -> None:
        await queues.resume(await self._app.open(), name)

    async def quarantine(self, *, limit: int) -> list[Row]:
        return [record(entry) for entry in await quarantine.list_(await self._app.open(), limit=limit)]

    async def retry_quarantined(self, kind: str, key: str) -> Row:
        return record(await quarantine.retry_now(await self._app.open(), Kind(kind), key))

    async def dead_letters(self, *, limit: int, **filters: Any) -> Rows:
        page = await dead_letters.groups(await self._app.open(), Wanted(**filters), limit=limit)
        return Rows([_group(group) for group in page.groups], page.next)

    async def retry_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> Row:
        db, wanted = await self._app.open(), Wanted(**filters)
        if dry_run:
            return _counted(await dead_letters.matching(db, wanted))
        return _steered(await dead_letters.retry(db, wanted, limit=limit))

    async def drop_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> Row:
        db, wanted = await self._app.open(), dead_letters.droppable(Wanted(**filters))
        if dry_run:
            return _counted(await dead_letters.matching(db, wanted))
        return _steered(await dead_letters.drop(db, wanted, limit=limit))


def _queue(found: Queue) -> Row:
    row = record(found.row)
    oldest = row.pop("oldest")
    return {**row, "oldest_seconds": oldest and oldest.total_seconds(), "ended_per_second": round(found.rate, 3)}


def _group(group: Group) -> Row:
    return {
        "type": group.type,
        "queue": group.queue,
        "error": group.error,
        "of_runs": group.of_run,
        "count": group.count,
        "capped": group.count >= MOST_COUNTED,
        "first_at": group.first_at,
        "last_at": group.last_at,
        "example_job_id": group.example_id,
        "example_error": group.example,
    }


def _counted(left: int) -> Row:
    return {"jobs": [], "runs": [], "left": left, "next": None}


def _steered(done: Steered) -> Row:
    return {"jobs": done.jobs, "runs": done.runs, "left": done.left, "next": done.next}
