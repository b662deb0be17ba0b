"""A router over several cells: it starts, returns and lists runs as if there were one database.

It shows which requests go to one cell (starts, everything about one run), which go to all cells (lists, published
events), and what happens to each if a cell is unreachable. It is a prototype: it uses the Python API of each cell.
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

RETENTION = timedelta(days=30)  # of an ended run and its key
Result = TypeVar("Result")


@dataclass(frozen=True)
class Merged:
    """Runs of all cells that responded, newest first, and the cells that did not."""

    runs: list[RunRow]
    missing: dict[str, Exception]


class Router:
    def __init__(self, table: Table, cells: Mapping[str, Windlass]) -> None:
        self.table = table
        self._cells = cells

    async def deploy(self, document: Mapping[str, Any]) -> None:
        """Deploy a workflow to all cells: a run may be started in any of them."""
        for app in self._cells.values():
            await app.deploy(dict(document))

    async def start(self, workflow: str, input_: Any = None, *, key: str | None = None) -> UUID:
        """Start a run in the cell that its new id, or its key, maps to. If earlier generations of the table map the key
        to other cells, it is looked up there first: two cells cannot detect that both have the key."""
        now = datetime.now(UTC)
        if key is None:
            [run] = new_ids(1)
            return await self._start(self.table.cell_of(run), workflow, RunSpec(id=run, input=input_))
        home, *earlier = self.table.cells_of_key(key, now, now - RETENTION)
        for cell in earlier:
            db = await self._cells[cell].open()
            async with db.once() as conn:
                rows = await store.find_keys(conn, [key], org=db.org)
            if key in rows:
                return rows[key][0]
        run = id_in(self.table, home, lambda: new_ids(1)[0])
        return await self._start(home, workflow, RunSpec(id=run, input=input_, idempotency_key=key))

    async def get(self, run: UUID) -> RunRow:
        """Return a run from its cell."""
        return await control.get(await self._cells[self.table.cell_of(run)].open(), run)

    async def runs(self, *, limit: int = 50, before: UUID | None = None) -> Merged:
        """Return a page of the runs of all cells, merged from a page of each by id, which is chronological."""
        pages, missing = await self._query_all(lambda app: app.runs(limit=limit, before=before))
        newest = heapq.merge(*(page.runs for page in pages.values()), key=lambda row: row.id, reverse=True)
        return Merged([row for _, row in zip(range(limit), newest, strict=False)], missing)

    async def publish_event(self, name: str, payload: Any = None) -> dict[str, Exception]:
        """Publish an event in all cells, because runs that wait for it may be in any; return the errors by cell."""
        _, missing = await self._query_all(lambda app: app.publish_event(name, payload))
        return missing

    async def _start(self, cell: str, workflow: str, spec: RunSpec) -> UUID:
        [run] = await self._cells[cell].start_many(workflow, [spec])
        return run.id

    async def _query_all(
        self, query: Callable[[Windlass], Awaitable[Result]]
    ) -> tuple[dict[str, Result], dict[str, Exception]]:
        """Query all cells concurrently; return the results and the errors by cell."""
        names = list(self._cells)
        outcomes = await asyncio.gather(*(query(self._cells[name]) for name in names), return_exceptions=True)
        results: dict[str, Result] = {}
        missing: dict[str, Exception] = {}
        for name, outcome in zip(names, outcomes, strict=True):
            if isinstance(outcome, Exception):
                missing[name] = outcome
            elif not isinstance(outcome, BaseException):
                results[name] = outcome
            else:
                raise outcome
        return results, missing
