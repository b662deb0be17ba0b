"""Commands on the database."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from windlass.app import Windlass
from windlass.cli import arguments
from windlass.cli.backend.direct_queues import DirectQueues
from windlass.cli.backend.interface import Deployed, Deployment, Row, Rows, RunBackend, Seen, SeenStep
from windlass.cli.output import record
from windlass.core.definition.publish import advice
from windlass.core.diagrams.tree import places
from windlass.core.explain.current import summary
from windlass.core.explain.explanation import Explanation, explain
from windlass.core.explain.snapshot import RunSnapshot, StepSnapshot, took
from windlass.core.runs.run import RunResult, RunState
from windlass.core.workflows.workflow import Workflow
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Database
from windlass.engine.runs import inspect
from windlass.engine.runs.inspect import BEGINNING, LINES_LIMIT, Place, RunLine
from windlass.engine.schedules import sql as schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.workflows import control as workflows
from windlass.engine.workflows.control import Change, Preview, Published
from windlass.errors import NotFound
from windlass.runtime.handle import Run

OVERLAP = timedelta(seconds=60)  # how late the lines of one worker may arrive after those of another
PAUSE = 0.5
MISSING = "step {step} of {name} runs workflow {child}, which is not deployed"


class DirectRun:
    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def id(self) -> UUID:
        return self._run.id

    async def seen(self) -> Seen:
        return _seen(await self._run.account())

    async def ended(self) -> RunState:
        return await self._run.ended()

    async def result(self) -> RunResult:
        return await self._run.result()

    async def explained(self) -> tuple[Seen, Explanation]:
        account = await self._run.account()
        return _seen(account), explain(account)

    async def shown(self) -> tuple[Row, list[Row]]:
        view = await self._run.view()
        names = [step.name for step in view.workflow.steps]
        events = [{**record(one), "step": None if one.step is None else names[one.step]} for one in view.events]
        for event in events:
            del event["xid"]
        return {**record(view.row), "output": (await self._run.result()).output}, events

    async def lines(
        self, *, step: str | None, index: int | None, attempt: int | None, follow: bool
    ) -> AsyncIterator[Row]:
        wanted = {"step": step, "index": index, "attempt": attempt}
        async for name, line in _following(self._run, wanted) if follow else _all(self._run, wanted):
            yield {**record(line), "step": name}

    async def drawn(self) -> tuple[Workflow, str]:
        view = await self._run.view()
        return view.workflow, view.row.letters

    async def cancel(self, *, reason: str | None = None) -> None:
        await self._run.cancel(reason=reason)

    async def retry(self) -> None:
        await self._run.retry()

    async def rerun(self, step: str, **changed: Any) -> None:
        await self._run.rerun(step, **changed)


class Direct(DirectQueues):
    def __init__(self, app: Windlass) -> None:
        self._app = app

    # Workflows

    async def deploy(self, found: Sequence[Workflow], *, dry_run: bool = False) -> Deployment:
        db = await self._app.open()
        if dry_run:
            done = [_previewed(one) for one in await workflows.preview_many(db, found)]
        else:
            done = [await _deployed(db, one) for one in await workflows.publish_many(db, found)]
        missing = await workflows.missing_children(db, found)
        warnings = [MISSING.format(step=step, name=name, child=child) for name, step, child in missing]
        return Deployment(done, warnings + [warning for workflow in found for warning in advice(workflow)])

    async def workflows(self, *, after: str, limit: int) -> Rows:
        page = await self._app.workflows(after=after, limit=limit)
        return Rows([record(line) for line in page.workflows], page.next)

    async def workflow(self, name: str, version: int | None = None) -> Row:
        return record(await self._app.get_workflow(name, version))

    async def versions(self, name: str, *, before: int | None, limit: int) -> Rows:
        page = await workflows.versions(await self._app.open(), name, before=before, limit=limit)
        return Rows([record(row) for row in page.versions], page.next)

    async def enable_workflow(self, name: str, enabled: bool = True) -> None:
        await self._app.enable_workflow(name, enabled)

    async def delete_workflow(self, name: str) -> None:
        await self._app.delete_workflow(name)

    async def rotate(self, name: str) -> str:
        db = await self._app.open()
        return await workflow_schedules.address(db, await workflow_schedules.rotate(db, name))

    # Runs

    async def start(self, workflow: str, **options: Any) -> RunBackend:
        return DirectRun(await self._app.start(workflow, **options))

    async def run(self, id_: UUID | str) -> RunBackend:
        if isinstance(id_, str):
            try:
                id_ = await compositions.run_of(await self._app.open(), id_)
            except NotFound:
                raise arguments.no_run(str(id_)) from None
        return DirectRun(await self._app.run(id_))

    async def runs(self, **filters: Any) -> Rows:
        page, now = await self._app.runs(**filters), await inspect.moment(await self._app.open())
        rows = [{**record(row), "duration": took(row.started_at, row.finished_at, now)} for row in page.runs]
        return Rows(rows, page.next)

    # Schedules

    async def schedules(self, *, after: str, limit: int) -> tuple[Rows, list[Row]]:
        db = await self._app.open()
        page = await workflow_schedules.list_(db, after=after, limit=limit)
        jobs = await schedules.list_(db) if page.next is None else []
        return Rows([record(row) for row in page.schedules], page.next), [record(job) for job in jobs]

    async def pause_schedule(self, name: str, *, reason: str | None) -> None:
        await workflow_schedules.pause(await self._app.open(), name, reason=reason)

    async def run_schedule(self, name: str) -> str:
        return str(await self._app.run_schedule(name))

    async def resume_schedule(self, name: str) -> None:
        await workflow_schedules.resume(await self._app.open(), name)

    async def ticks(self, name: str, *, count: int) -> list[datetime]:
        return await workflow_schedules.preview(await self._app.open(), name, count=count)

    async def backfill(self, name: str, start: datetime, end: datetime | None, *, limit: int) -> Row:
        return record(await workflow_schedules.backfill(await self._app.open(), name, start, end, limit=limit))

    # Jobs

    async def submit(self, type_: str, payload: Any, **options: Any) -> UUID:
        return await self._app.submit(type_, payload, **options)

    async def job(self, id_: UUID) -> Row:
        said = await self._app.progress(id_)
        return record(await self._app.get(id_)) | {"progress": None if said is None else record(said)}

    async def jobs(self, **filters: Any) -> Rows:
        page = await self._app.list(**filters)
        return Rows([record(job) for job in page.jobs], page.next)

    async def job_events(self, id_: UUID) -> list[Row]:
        return [record(event) for event in await self._app.events(id_)]

    async def job_logs(self, id_: UUID, *, attempt: int | None) -> list[Row]:
        return [record(line) for line in await self._app.logs(id_, attempt=attempt)]

    async def cancel_job(self, id_: UUID, *, reason: str | None) -> None:
        await self._app.cancel(id_, reason=reason)

    async def retry_job(self, id_: UUID) -> None:
        await self._app.retry(id_)

    async def delete_job(self, id_: UUID) -> None:
        await self._app.delete(id_)

    # Workers

    async def workers(self) -> list[Row]:
        return [record(worker) for worker in await self._app.workers()]


def _previewed(one: Preview) -> Deployed:
    return Deployed(name=one.name, number=one.number, change=one.change, diff=one.diff, ids={})


async def _deployed(db: Database, one: Published) -> Deployed:
    change = Change.NEW if one.created else Change.CHANGED if one.changed else Change.UNCHANGED
    address = await workflow_schedules.address(db, one.token) if one.token is not None else None
    ids = {"workflow_id": one.workflow_id, "version_id": one.version_id}
    return Deployed(name=one.name, number=one.number, change=change, address=address, ids=ids)


def _seen(account: RunSnapshot) -> Seen:
    return Seen(
        id=account.id,
        workflow=account.workflow.name,
        version=account.version,
        state=account.state,
        took=account.took,
        steps=tuple(_seen_step(account, step) for step in account.steps),
        places=[(left, n) for left, n, _ in places(account.workflow)],
    )


def _seen_step(account: RunSnapshot, step: StepSnapshot) -> SeenStep:
    job = step.job if step.fan is None else None
    return SeenStep(
        name=step.step.name,
        letter=step.letter,
        remark=summary(step),
        took=step.took(account.now),
        attempts=f"{job.attempts}/{job.max_attempts}" if job is not None else None,
        worker=job.worker if job is not None else None,
        more=record(step),
    )


async def _all(run: Run, wanted: dict[str, Any], after: Place = BEGINNING) -> AsyncIterator[tuple[str, RunLine]]:
    """Page by page."""
    while True:
        page = await run.lines(**wanted, after=after)
        for found in page:
            yield found
        if len(page) < LINES_LIMIT:
            return
        after = page[-1][1].place


async def _following(run: Run, wanted: dict[str, Any]) -> AsyncIterator[tuple[str, RunLine]]:
    """Lines of several workers do not arrive in order: the last minute is read again, what was told is not repeated."""
    told: dict[Place, None] = {}
    end = asyncio.ensure_future(run.ended())
    try:
        while True:
            last_look = end.done()
            newest = max(told, default=BEGINNING)
            after = newest if newest is BEGINNING else newest._replace(at=newest.at - OVERLAP)
            told = {place: None for place in told if place >= after}
            async for name, line in _all(run, wanted, after):
                if line.place not in told:
                    told[line.place] = None
                    yield name, line
            if last_look:
                end.result()
                return
            await asyncio.wait({end}, timeout=PAUSE)
    finally:
        end.cancel()
