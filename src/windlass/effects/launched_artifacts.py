"""`ctx.artifacts` in a launched process, which can reach the object store but not the database.

The specification lists the artifacts that it can read. The artifacts that it writes are objects of the launch; the
worker records them at the end.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import UUID

from windlass.core.artifacts import MAX_PER_ATTEMPT, Artifact, Reference
from windlass.core.jobs.job import Claimed
from windlass.core.launches import ARTIFACTS, TaskSpec
from windlass.effects.artifacts import Source
from windlass.effects.objects import Objects
from windlass.errors import Invalid, NotFound

T = TypeVar("T")
HINT = "a launched step reads those of the steps it needs, and those that its input refers to"


class LaunchedArtifacts:
    """Must be created in the event loop of the handler. `written` receives the media types of artifacts by name."""

    def __init__(self, objects: Objects, spec: TaskSpec, written: dict[str, str]) -> None:
        self.job = _job(spec)
        self._written = written
        self._objects = objects
        self._spec = spec
        self._loop = asyncio.get_running_loop()
        self._known = {str(one["reference"]): _artifact(one) for one in spec.artifacts}

    async def write_artifact(self, job: Claimed, name: str, chunks: AsyncIterator[bytes], media_type: str) -> Reference:
        if name not in self._written and len(self._written) >= MAX_PER_ATTEMPT:
            raise Invalid(f"this attempt has {MAX_PER_ATTEMPT} artifacts, which is the limit", field="name")
        await Source(chunks).write(self._objects, f"{self._spec.mailbox}{ARTIFACTS}{name}")
        self._written[name] = media_type
        return Reference(UUID(self._spec.run_id), self._spec.task_name, self._spec.parallel_index, name)

    async def find_artifact(self, job: Claimed, reference: Reference) -> Artifact:
        if str(reference) not in self._known:
            raise NotFound("artifact", reference, hint=HINT)
        return self._known[str(reference)]

    def read_artifact(self, artifact: Artifact) -> AsyncIterator[bytes]:
        return self._objects.stream(artifact.key)

    async def list_artifacts(self, job: Claimed, step: str | None) -> Sequence[Artifact]:
        return [one for one in self._known.values() if step is None or one.step == step]

    def wait(self, answer: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()


def _artifact(document: Any) -> Artifact:
    fields = {name: document[name] for name in Artifact.__dataclass_fields__}
    return Artifact(**fields | {"created_at": datetime.fromisoformat(document["created_at"])})


def _job(spec: TaskSpec) -> Claimed:
    """Return a claim with the fields that the launched process knows."""
    return Claimed(
        id=UUID(spec.task_id),
        type="",
        payload="",
        queue="",
        priority=0,
        seq=0,
        attempt=spec.attempt - 1,
        lost=0,
        max_attempts=spec.attempt,
        claim_no=spec.fence,
        timeout=None,
        retry=None,
        created_at=datetime.now(UTC),
        meta=None,
        run_id=UUID(spec.run_id),
        item=spec.parallel_index,
    )
