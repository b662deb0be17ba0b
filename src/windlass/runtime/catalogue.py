"""The workflows of a database, as an app offers them: deploy, look, switch, delete."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from windlass.engine.database import Database
from windlass.engine.workflows import control as workflows
from windlass.engine.workflows.control import Given, Page, Preview, Published, WorkflowRow


class Catalogue(ABC):
    """A part of `Windlass`."""

    @abstractmethod
    async def open(self) -> Database: ...

    async def deploy(self, *documents: Given) -> Sequence[Published]:
        """Publish workflows, written as documents or built, all or none; the mistakes of all are told at once."""
        return await workflows.publish_many(await self.open(), documents)

    async def preview(self, *documents: Given) -> Sequence[Preview]:
        """What `deploy` would do; nothing is changed."""
        return await workflows.preview_many(await self.open(), documents)

    async def workflows(self, *, after: str = "", limit: int = 50) -> Page:
        """What is deployed, by name; pass `page.next` as `after`."""
        return await workflows.list_(await self.open(), after=after, limit=limit)

    async def get_workflow(self, name: str, number: int | None = None) -> WorkflowRow:
        """A workflow with its live version, or with the version of this number."""
        return await workflows.get(await self.open(), name, number=number)

    async def enable_workflow(self, name: str, enabled: bool = True) -> None:
        """Switch a workflow on or off; off, new runs are refused and live ones go on."""
        await workflows.enable(await self.open(), name, enabled)

    async def delete_workflow(self, name: str) -> None:
        """Free the name; live runs finish on their version."""
        await workflows.delete(await self.open(), name)
