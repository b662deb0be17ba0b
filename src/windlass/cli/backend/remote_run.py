"""One run, for commands through a server."""

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

from windlass.client import AsyncClient
from windlass.client.descriptors import AsyncListed
from windlass.client.request import decode
from windlass.core.runs.run import RunState
from windlass.core.workflows.workflow import Workflow as Definition
from windlass.errors import Conflict, Invalid, NotFound
from windlass.schemas.common import PAGE_LIMIT
from windlass.schemas.runs import Explanation, RestartPreview, RunDetail, RunEvent
from windlass.schemas.tasks import TaskArtifact, TaskLogLine
from windlass.schemas.workflows import Graph


class RemoteRun:
    def __init__(self, client: AsyncClient, id_: UUID) -> None:
        self._client = client
        self.id = id_

    async def detail(self) -> RunDetail:
        return await self._client.runs.get(str(self.id))

    async def ended(self) -> RunState:
        return RunState((await self._client.runs.wait(str(self.id))).status)

    async def output(self) -> Any:
        try:
            return await self._client.runs.output(str(self.id))
        except Conflict as error:  # the output contains a list that is too long
            return str(error)

    async def explanation(self) -> Explanation:
        return await self._client.runs.explain(str(self.id))

    async def events(self) -> list[RunEvent]:
        return [event async for event in self._client.runs.events(str(self.id), limit=PAGE_LIMIT)]

    async def graph(self) -> Graph:
        return await self._client.runs.graph(str(self.id))

    async def definition(self) -> Definition:
        from windlass.core.definition.parser import parse  # few commands need it, and it takes a tenth of a second

        run = await self.detail()
        return parse((await self._client.workflows.version(run.workflow_id, run.version)).definition)

    async def lines(
        self, *, step: str | None, index: int | None, attempt: int | None, follow: bool
    ) -> AsyncIterator[TaskLogLine]:
        if index is not None and step is None:
            raise Invalid("--index goes with --step", field="index")
        with _step_errors():
            read = self._follow if follow else self._logged
            async for line in read(step, index, attempt):
                yield line

    def _logged(self, step: str | None, index: int | None, attempt: int | None) -> AsyncListed[TaskLogLine]:
        if step is None:
            return self._client.runs.logs(str(self.id), attempt=attempt, limit=PAGE_LIMIT)
        return self._client.tasks.logs(str(self.id), step, index=index, attempt=attempt, limit=PAGE_LIMIT)

    async def _follow(self, step: str | None, index: int | None, attempt: int | None) -> AsyncIterator[TaskLogLine]:
        if step is None:
            stream = self._client.runs.follow_logs(str(self.id), attempt=attempt)
        else:
            stream = self._client.tasks.follow_logs(str(self.id), step, index=index, attempt=attempt)
        async for event in stream:
            if event.event == "line":
                yield decode(TaskLogLine, event.data)

    async def artifacts(self, *, step: str | None) -> list[TaskArtifact]:
        client, run = self._client, str(self.id)
        with _step_errors():
            rows = client.tasks.artifacts(run, step, limit=PAGE_LIMIT) if step else client.runs.artifacts(run)
            return [row async for row in rows]

    async def artifact(self, step: str, name: str, *, index: int, attempt: int | None) -> AsyncIterator[bytes]:
        with _step_errors():
            async for chunk in self._client.tasks.download(str(self.id), step, name, index=index, attempt=attempt):
                yield chunk

    async def pause(self, *, reason: str | None = None) -> None:
        await self._client.runs.pause(str(self.id), reason=reason)

    async def resume(self) -> None:
        await self._client.runs.resume(str(self.id))

    async def cancel(self, *, reason: str | None = None, compensate: bool = False) -> None:
        await self._client.runs.cancel(str(self.id), reason=reason, compensate=compensate)

    async def retry(self, *, version: str | None = None) -> None:
        await self._client.runs.retry(str(self.id), version=version)

    async def preview(self, step: str | None = None, *, version: str | None = None) -> RestartPreview:
        return await self._client.runs.restart_preview(str(self.id), task=step, version=version)

    async def rerun(self, step: str, **changes: Any) -> None:
        await self._client.runs.rerun(str(self.id), step, **changes)


@contextlib.contextmanager
def _step_errors() -> Iterator[None]:
    """Raise the same error for an unknown task as a command on the database."""
    try:
        yield
    except NotFound as error:
        if error.what != "task" or error.hint is None:
            raise
        raise Invalid(error.hint, field="step") from None
