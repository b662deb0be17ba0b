"""A router over several cells: it starts runs, finds them again, and lists them as if there were one database.

What it shows: which requests go to one cell (a start, everything about one run), which go to all of them (lists, events
by name), and what happens to each if a cell is away. It is a prototype: it uses the Python API of each cell.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from bench.cells.routing import Table, id_in
from windlass import Windlass
from windlass.engine.database import new_ids
from windlass.engine.runs import control
from windlass.engine.runs.control import RunRow
from windlass.engine.runs.start import RunSpec
from windlass.store import runs as store

KEPT = timedelta(days=30)  # how long a finished run, and so its key, is kept
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Merged:
    """Runs of all cells that answered, newest first, and the cells that did not."""

    runs: list[RunRow]
    missing: dict[str, Exception]


class Router:
    def __init__(self, table: Table, cells: Mapping[str, Windlass]) -> None:
        self.table = table
        self._cells = cells

    async def deploy(self, document: Mapping[str, Any]) -> None:
        """To all cells: a run may be started in any of them."""
        for app in self._cells.values():
            await app.deploy(dict(document))

    async def start(self, workflow: str, input_: Any = None, *, key: str | None = None) -> UUID:
        """Start a run in the cell that its new id, or its key, names. A key that an older generation of the table put
        elsewhere is looked up there first: two cells would not notice that they have the same key."""
        now = datetime.now(UTC)
        if key is None:
            [run] = new_ids(1)
            return await self._start(self.table.cell_of(run), workflow, RunSpec(id=run, input=input_))
        home, *earlier = self.table.cells_of_key(key, now, now - KEPT)
        for cell in earlier:
            db = await self._cells[cell].open()
            async with db.once() as conn:
                found = await store.find_keys(conn, [key], org=db.org)
            if key in found:
                return found[key][0]
        run = id_in(self.table, home, lambda: new_ids(1)[0])
        return await self._start(home, workflow, RunSpec(id=run, input=input_, idempotency_key=key))

    async def get(self, run: UUID) -> RunRow:
        """From one cell."""
        return await control.get(await self._cells[self.table.cell_of(run)].open(), run)

    async def runs(self, *, limit: int = 50, before: UUID | None = None) -> Merged:
        """A page of all cells: each gives its own page, and ids are in the order of time."""
        pages, missing = await self._ask(lambda app: app.runs(limit=limit, before=before))
        newest = heapq.merge(*(page.runs for page in pages.values()), key=lambda row: row.id, reverse=True)
        return Merged([row for _, row in zip(range(limit), newest, strict=False)], missing)

    async def publish_event(self, name: str, payload: Any = None) -> dict[str, Exception]:
        """To all cells: the runs that wait for an event may be anywhere. Return the cells that did not take it."""
        _, missing = await self._ask(lambda app: app.publish_event(name, payload))
        return missing

    async def _start(self, cell: str, workflow: str, spec: RunSpec) -> UUID:
        [run] = await self._cells[cell].start_many(workflow, [spec])
        return run.id

    async def _ask(
        self, question: Callable[[Windlass], Awaitable[Answer]]
    ) -> tuple[dict[str, Answer], dict[str, Exception]]:
        """Ask all cells at once; a cell that is away is missing in the answer, and delays nobody."""
        names = list(self._cells)
        answers = await asyncio.gather(*(question(self._cells[name]) for name in names), return_exceptions=True)
        given: dict[str, Answer] = {}
        missing: dict[str, Exception] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, Exception):
                missing[name] = answer
            elif not isinstance(answer, BaseException):
                given[name] = answer
            else:
                raise answer
        return given, missing
