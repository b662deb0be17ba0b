"""The workflow methods of `Windlass`: deploy, preview, list, enable and delete."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from windlass.engine.database import Database
from windlass.engine.workflows import control as workflows
from windlass.engine.workflows.control import Given, Page, Preview, Published, WorkflowRow


class Catalogue(ABC):
    """A mixin of `Windlass`."""

    @abstractmethod
    async def open(self) -> Database: ...

    async def deploy(self, *documents: Given) -> Sequence[Published]:
        """Publish workflows, given as documents or builders, all or none; the error lists the mistakes of all."""
        return await workflows.publish_many(await self.open(), documents)

    async def preview(self, *documents: Given) -> Sequence[Preview]:
        """Return what `deploy` would do, without changing anything."""
        return await workflows.preview_many(await self.open(), documents)

    async def workflows(self, *, after: str = "", limit: int = 50) -> Page:
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
