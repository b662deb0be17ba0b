"""The methods of `Windlass` that inspect and control workflows, runs, schedules, queues, workers and jobs."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from windlass.effects.objects import Objects
from windlass.engine import messages, workflows
from windlass.engine.database import Tenant
from windlass.engine.jobs import checkpoints, queues
from windlass.engine.jobs import control as jobs
from windlass.engine.jobs.checkpoints import Progress
from windlass.engine.jobs.control import Event, Job, LogLine
from windlass.engine.jobs.control import Page as JobPage
from windlass.engine.jobs.queues import QueuePage
from windlass.engine.messages import Connection
from windlass.engine.runs import search as run_search
from windlass.engine.runs.search import RunPage
from windlass.engine.schedules import sql as sql_schedules
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.schedules.sql import SchedulePage
from windlass.engine.schedules.workflow import Backfill, ScheduleRow
from windlass.engine.workers import registry as workers
from windlass.engine.workers.registry import WorkerRow
from windlass.engine.workflows import Given, Preview, Published, WorkflowRow
from windlass.engine.workflows import Page as WorkflowPage
from windlass.runtime.sync_bridge import SyncBridge
from windlass.schemas.messages import Sent


class Operations(ABC):
    """A mixin of `Windlass`."""

    _sync: SyncBridge[Any]

    @abstractmethod
    async def open(self) -> Tenant: ...

    async def objects(self) -> Objects:
        """Return the object store (WINDLASS_OBJECTS_URL), opened on first use."""
        return (await self.open()).objects()

    # Workflows

    async def deploy(self, *documents: Given) -> Sequence[Published]:
        """Publish workflows, given as documents or builders, all or none; the exception lists all errors."""
        return await workflows.publish_many(await self.open(), documents)

    async def preview(self, *documents: Given) -> Sequence[Preview]:
        """Return what `deploy` would do, without changing anything."""
        return await workflows.preview_many(await self.open(), documents)

    async def workflows(self, *, after: str = "", limit: int = 50) -> WorkflowPage:
        """List the deployed workflows by name; pass `page.next` as `after` for the next page."""
        return await workflows.list_(await self.open(), after=after, limit=limit)

    async def get_workflow(self, name: str, number: int | None = None) -> WorkflowRow:
        """Return a workflow with its live version, or with the version of this number."""
        return await workflows.get(await self.open(), name, number=number)

    async def enable_workflow(self, name: str, enabled: bool = True) -> None:
        """Enable or disable a workflow; while it is disabled, new runs are refused and active runs continue."""
        await workflows.enable(await self.open(), name, enabled)

    async def delete_workflow(self, name: str) -> None:
        """Delete a workflow and free its name; active runs finish on their version."""
        await workflows.delete(await self.open(), name)

    # Runs

    async def runs(self, **filters: Any) -> RunPage:
        """List runs, newest first: workflow, states, labels, before, limit."""
        return await run_search.list_(await self.open(), **filters)

    # Messages

    async def signal(
        self,
        run: UUID,
        name: str,
        payload: Any = None,
        *,
        id: str | None = None,  # noqa: A002
        connection: Connection | None = None,
    ) -> Sent:
        """Send a signal to a run, or to a job that is not a step of a run.

        A second signal with the same `id` is not sent. With `connection` (asyncpg) the signal becomes part of the
        caller's transaction.
        """
        return await messages.signal(await self.open(), run, name, payload=payload, id_=id, connection=connection)

    async def publish_event(
        self,
        name: str,
        payload: Any = None,
        *,
        key: str = "",
        id: str | None = None,  # noqa: A002
        connection: Connection | None = None,
    ) -> Sent:
        """Publish an event to all runs and handlers that wait for its name and key; options as in `signal`."""
        return await messages.publish(await self.open(), name, key=key, payload=payload, id_=id, connection=connection)

    def signal_sync(self, run: UUID, name: str, payload: Any = None, *, id: str | None = None) -> Sent:  # noqa: A002
        """Send a signal from synchronous code; block until it is recorded."""
        sent: Sent = self._sync.run(lambda twin: twin.signal(run, name, payload, id=id))
        return sent

    def publish_event_sync(
        self,
        name: str,
        payload: Any = None,
        *,
        key: str = "",
        id: str | None = None,  # noqa: A002
    ) -> Sent:
        """Publish an event from synchronous code; block until it is recorded."""
        sent: Sent = self._sync.run(lambda twin: twin.publish_event(name, payload, key=key, id=id))
        return sent

    # Schedules

    async def schedules(self, *, after: str = "", limit: int = 50) -> SchedulePage:
        """List schedules: those of workflows by name, then those created by plain SQL by type."""
        return await sql_schedules.list_all(await self.open(), after=after, limit=limit)

    async def get_schedule(self, workflow: str) -> ScheduleRow:
        return await workflow_schedules.get(await self.open(), workflow)

    async def pause_schedule(self, workflow: str, *, reason: str | None = None) -> None:
        """Pause a schedule: no tick starts a run until it is resumed. Active runs continue."""
        await workflow_schedules.pause(await self.open(), workflow, reason=reason)

    async def resume_schedule(self, workflow: str) -> None:
        """Resume a schedule from its next tick; ticks missed during the pause are not caught up."""
        await workflow_schedules.resume(await self.open(), workflow)

    async def run_schedule(self, workflow: str) -> UUID:
        """Start a run now with the schedule's input; return its id."""
        return await workflow_schedules.run_now(await self.open(), workflow)

    async def ticks(self, workflow: str, *, count: int = 10) -> list[datetime]:
        """Return the next `count` ticks, in the schedule's time zone."""
        return await workflow_schedules.preview(await self.open(), workflow, count=count)

    async def backfill(
        self, workflow: str, start: datetime, end: datetime | None = None, *, limit: int = 1000
    ) -> Backfill:
        """Start runs for past ticks that have none."""
        return await workflow_schedules.backfill(await self.open(), workflow, start, end, limit=limit)

    # Queues and workers

    async def queues(self, *, after: str = "", limit: int = 100) -> QueuePage:
        """List queues by name, with depth, throughput and whether they are paused."""
        return await queues.list_(await self.open(), after=after, limit=limit)

    async def pause_queue(self, name: str) -> None:
        """Pause a queue: Windlass workers claim nothing from it until it is resumed. Running jobs finish."""
        await queues.pause(await self.open(), name)

    async def resume_queue(self, name: str) -> None:
        await queues.resume(await self.open(), name)

    async def workers(self) -> Sequence[WorkerRow]:
        """List workers, latest heartbeat first."""
        return await workers.list_(await self.open())

    # Jobs

    async def get(self, id: UUID) -> Job:  # noqa: A002
        return await jobs.get(await self.open(), id)

    async def list(self, **filters: Any) -> JobPage:
        """List jobs, newest first: statuses, queue, type_ (a LIKE pattern), tag, before, limit."""
        return await jobs.list_(await self.open(), **filters)

    async def cancel(self, id: UUID, *, reason: str | None = None) -> None:  # noqa: A002
        await jobs.cancel(await self.open(), id, reason=reason)

    async def retry(self, id: UUID, *, fresh: bool = False) -> None:  # noqa: A002
        """Return a failed or cancelled job to its queue with its attempts reset; `fresh`: without its checkpoints."""
        await jobs.reopen(await self.open(), id, fresh=fresh)

    async def delete(self, id: UUID) -> None:  # noqa: A002
        await jobs.delete(await self.open(), id)

    async def progress(self, id: UUID) -> Progress | None:  # noqa: A002
        """Return the progress that a job has reported; None if it has reported none."""
        return await checkpoints.progress(await self.open(), id)

    async def events(self, id: UUID) -> Sequence[Event]:  # noqa: A002
        return await jobs.events(await self.open(), id)

    async def logs(self, id: UUID, *, attempt: int | None = None) -> Sequence[LogLine]:  # noqa: A002
        return await jobs.logs(await self.open(), id, attempt=attempt)
