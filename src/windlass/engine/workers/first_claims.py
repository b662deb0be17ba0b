"""Marks a composition as started when the first of its jobs is claimed, by any kind of worker."""

from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from windlass.core.workflows.workflow import Workflow
from windlass.store.ojs import compositions
from windlass.store.postgres.pool import Connection


class Taken(Protocol):
    """A claimed job."""

    @property
    def run_id(self) -> UUID | None: ...
    @property
    def version_id(self) -> int | None: ...
    @property
    def step(self) -> int | None: ...


async def tell(conn: Connection, taken: Iterable[Taken], known: Mapping[int, Workflow], *, actor: str) -> None:
    """Mark the compositions of these jobs as started. Only a job of a step without dependencies can be the first."""
    begun: set[UUID] = set()
    for job in taken:
        workflow = known.get(job.version_id) if job.version_id is not None else None
        if workflow is None or workflow.primitive is None or job.run_id is None or job.step is None:
            continue
        if not workflow.steps[job.step].edges:
            begun.add(job.run_id)
    if begun:
        await compositions.start(conn, sorted(begun), actor=actor)
