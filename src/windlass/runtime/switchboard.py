"""The operator methods of `Windlass`: list, pause, resume and run schedules; list, pause and resume queues."""

from abc import ABC, abstractmethod
from datetime import datetime
from uuid import UUID

from windlass.engine.database import Database
from windlass.engine.jobs import queues
from windlass.engine.jobs.queues import QueuePage
from windlass.engine.schedules import listing as schedule_listing
from windlass.engine.schedules import workflow as workflow_schedules
from windlass.engine.schedules.listing import Page
from windlass.engine.schedules.workflow import Backfill, ScheduleRow


class Switchboard(ABC):
    """A mixin of `Windlass`."""

    @abstractmethod
    async def open(self) -> Database: ...

    async def schedules(self, *, after: str = "", limit: int = 50) -> Page:
        """List schedules: those of workflows by name, then those created by plain SQL by type."""
        return await schedule_listing.list_(await self.open(), after=after, limit=limit)

    async def get_schedule(self, workflow: str) -> ScheduleRow:
        return await workflow_schedules.get(await self.open(), workflow)

    async def pause_schedule(self, workflow: str, *, reason: str | None = None) -> None:
        """Pause a schedule: no tick starts a run until it is resumed. Active runs continue."""
        await workflow_schedules.pause(await self.open(), workflow, reason=reason)

    async def resume_schedule(self, workflow: str) -> None:
        """Resume a schedule with its next tick; ticks missed during the pause are not caught up."""
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

    async def queues(self, *, after: str = "", limit: int = 100) -> QueuePage:
        """List queues by name, with depth, throughput and whether they are paused."""
        return await queues.list_(await self.open(), after=after, limit=limit)

    async def pause_queue(self, name: str) -> None:
        """Pause a queue: Windlass workers claim nothing from it until it is resumed. Running jobs finish."""
        await queues.pause(await self.open(), name)

    async def resume_queue(self, name: str) -> None:
        await queues.resume(await self.open(), name)
