"""One run, for commands on the database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.app import Windlass
from windlass.core.artifacts import BEGINNING as FIRST_ARTIFACT
from windlass.core.runs.run import RunState
from windlass.core.workflows.workflow import Workflow as Definition
from windlass.engine import artifacts
from windlass.engine.runs import control as runs
from windlass.engine.runs import inspect
from windlass.engine.runs.control import TrailPlace
from windlass.engine.runs.inspect import BEGINNING, LINES_LIMIT, Place, RunLine
from windlass.engine.views import runs as run_views
from windlass.engine.views import workflows as views
from windlass.runtime.handle import Run as RunHandle
from windlass.schemas.common import PAGE_LIMIT
from windlass.schemas.runs import Explanation, RestartPreview, RunDetail, RunEvent
from windlass.schemas.tasks import TaskArtifact, TaskLogLine
from windlass.schemas.workflows import Graph

OVERLAP = timedelta(seconds=60)  # maximum delay of one worker's lines relative to another's
PAUSE = 0.5


class DirectRun:
    def __init__(self, app: Windlass, run: RunHandle) -> None:
        self._app, self._run = app, run

    @property
    def id(self) -> UUID:
        return self._run.id

    async def detail(self) -> RunDetail:
        return run_views.detail(await inspect.snapshot(await self._app.open(), self.id, answers=True))

    async def ended(self) -> RunState:
        return await self._run.ended()

    async def output(self) -> Any:
        return await runs.output(await self._app.open(), self.id)

    async def explanation(self) -> Explanation:
        return run_views.explanation(*await inspect.explanation(await self._app.open(), self.id))

    async def events(self) -> list[RunEvent]:
        db, place, events = await self._app.open(), TrailPlace.parse("0.0"), []
        while True:
            page = await runs.events(db, self.id, after=place, limit=PAGE_LIMIT)
            events += [run_views.event(step, row) for step, row in page]
            if len(page) < PAGE_LIMIT:
                return events
            place = place.after([row for _, row in page])

    async def graph(self) -> Graph:
        return views.graph(await self.definition())

    async def definition(self) -> Definition:
        return await runs.definition(await self._app.open(), self.id)

    async def lines(
        self, *, step: str | None, index: int | None, attempt: int | None, follow: bool
    ) -> AsyncIterator[TaskLogLine]:
        selected = {"step": step, "index": index, "attempt": attempt}
        async for name, line in _follow(self._run, selected) if follow else _all(self._run, selected):
            yield run_views.log_line(name, line)

    async def artifacts(self, *, step: str | None) -> list[TaskArtifact]:
        db, rows, place = await self._app.open(), [], FIRST_ARTIFACT
        while page := await artifacts.of_run(db, self.id, step=step, after=place, limit=PAGE_LIMIT):
            rows += page
            place = page[-1].place
        return [run_views.artifact(self.id, row) for row in rows]

    async def artifact(self, step: str, name: str, *, index: int, attempt: int | None) -> AsyncIterator[bytes]:
        db = await self._app.open()
        row = await artifacts.of_step(db, self.id, step, name, index=index, attempt=attempt)
        async for chunk in artifacts.read(db, row):
            yield chunk

    async def pause(self, *, reason: str | None = None) -> None:
        await self._run.pause(reason=reason)

    async def resume(self) -> None:
        await self._run.resume()

    async def cancel(self, *, reason: str | None = None, compensate: bool = False) -> None:
        await self._run.cancel(reason=reason, compensate=compensate)

    async def retry(self, *, version: str | None = None) -> None:
        await self._run.retry(version=version)

    async def preview(self, step: str | None = None, *, version: str | None = None) -> RestartPreview:
        return await self._run.preview(step, version=version)

    async def rerun(self, step: str, **changes: Any) -> None:
        await self._run.rerun(step, **changes)


async def _all(
    run: RunHandle, selected: dict[str, Any], after: Place = BEGINNING
) -> AsyncIterator[tuple[str, RunLine]]:
    """Yield all log lines, page by page."""
    while True:
        page = await run.lines(**selected, after=after)
        for line in page:
            yield line
        if len(page) < LINES_LIMIT:
            return
        after = page[-1][1].place


async def _follow(run: RunHandle, selected: dict[str, Any]) -> AsyncIterator[tuple[str, RunLine]]:
    """Yield log lines until the run has ended. Lines of several workers do not arrive in order: each poll reads the
    last minute again and skips lines that were already yielded."""
    known: dict[Place, None] = {}
    end = asyncio.ensure_future(run.ended())
    try:
        while True:
            is_last = end.done()
            newest = max(known, default=BEGINNING)
            after = newest if newest is BEGINNING else newest._replace(at=newest.at - OVERLAP)
            known = {place: None for place in known if place >= after}
            async for name, line in _all(run, selected, after):
                if line.place not in known:
                    known[line.place] = None
                    yield name, line
            if is_last:
                end.result()
                return
            await asyncio.wait({end}, timeout=PAUSE)
    finally:
        end.cancel()
