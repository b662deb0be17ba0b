"""What operators see of an app: its schedules and queues, and the switches for them."""

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
    """A part of `Windlass`."""

    @abstractmethod
    async def open(self) -> Database: ...

    async def schedules(self, *, after: str = "", limit: int = 50) -> Page:
        """Those of workflows by name, then those of plain SQL by type."""
        return await schedule_listing.list_(await self.open(), after=after, limit=limit)

    async def get_schedule(self, workflow: str) -> ScheduleRow:
        return await workflow_schedules.get(await self.open(), workflow)

    async def pause_schedule(self, workflow: str, *, reason: str | None = None) -> None:
        """No tick starts a run until it is resumed; runs under way go on."""
        await workflow_schedules.pause(await self.open(), workflow, reason=reason)

    async def resume_schedule(self, workflow: str) -> None:
        """Go on with the next tick; those of the pause are not made up for."""
        await workflow_schedules.resume(await self.open(), workflow)

    async def run_schedule(self, workflow: str) -> UUID:
        """Start a run now, with the schedule's input; its id."""
        return await workflow_schedules.run_now(await self.open(), workflow)

    async def ticks(self, workflow: str, *, count: int = 10) -> list[datetime]:
        """The next ticks, in the schedule's own zone."""
        return await workflow_schedules.preview(await self.open(), workflow, count=count)

    async def backfill(
        self, workflow: str, start: datetime, end: datetime | None = None, *, limit: int = 1000
    ) -> Backfill:
        """Start the runs of past ticks; those that have one are left alone."""
        return await workflow_schedules.backfill(await self.open(), workflow, start, end, limit=limit)

    async def queues(self, *, after: str = "", limit: int = 100) -> QueuePage:
        """By name: how much lies in each, how fast it goes, whether it is paused."""
        return await queues.list_(await self.open(), after=after, limit=limit)

    async def pause_queue(self, name: str) -> None:
        """Our workers claim nothing from it until it is resumed; what they hold they finish."""
        await queues.pause(await self.open(), name)

    async def resume_queue(self, name: str) -> None:
        await queues.resume(await self.open(), name)
