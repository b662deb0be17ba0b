"""`ctx.artifacts`: files that a handler writes for later steps and for people, and reads from other steps.

They are kept in the object store and may be large, so their content is streamed.
"""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from windlass.core.artifacts import (
    MAX_BYTES,
    Artifact,
    Reference,
    check_media_type,
    check_name,
    guess_media_type,
    read_reference,
)
from windlass.core.jobs.job import Claimed
from windlass.effects.objects import CHUNK, Objects
from windlass.errors import Invalid

Data = bytes | bytearray | memoryview | str | os.PathLike[str] | AsyncIterable[bytes]


class ArtifactStore(Protocol):
    """Writes, finds, reads and lists artifacts."""

    async def write_artifact(
        self, job: Claimed, name: str, chunks: AsyncIterator[bytes], media_type: str
    ) -> Reference: ...

    async def find_artifact(self, job: Claimed, reference: Reference) -> Artifact: ...

    def read_artifact(self, artifact: Artifact) -> AsyncIterator[bytes]: ...

    async def list_artifacts(self, job: Claimed, step: str | None) -> Sequence[Artifact]: ...

    def wait(self, answer: Any) -> Any:
        """Run a coroutine in the worker's event loop and return its result. For calls from threads."""


class Artifacts:
    """The artifacts that one attempt can write and read."""

    def __init__(self, job: Claimed, store: ArtifactStore) -> None:
        self._job = job
        self._store = store

    async def write(self, name: str, data: Data, media_type: str | None = None) -> str:
        """Write an artifact and return its reference, by which later steps and other runs can read it.

        `data`: bytes, a string, the path of a file, or an async iterator of bytes. An artifact with this name that the
        same attempt has written is replaced.
        """
        check_name(name)
        guessed = guess_media_type(name, is_text=isinstance(data, str))
        type_ = guessed if media_type is None else check_media_type(media_type)
        return str(await self._store.write_artifact(self._job, name, _chunks(data), type_))

    async def read(self, step: str, name: str | None = None, *, index: int = 0) -> bytes:
        """Return the content of an artifact of a succeeded step: `read("step", "name")`, or `read(reference)`.

        `index` is the instance of a fanned-out step. For large artifacts use `stream`.
        """
        return b"".join([chunk async for chunk in self.stream(step, name, index=index)])

    async def stream(self, step: str, name: str | None = None, *, index: int = 0) -> AsyncIterator[bytes]:
        """Like `read`, in chunks of about a mebibyte."""
        artifact = await self._store.find_artifact(self._job, self._reference(step, name, index))
        async for chunk in self._store.read_artifact(artifact):
            yield chunk

    async def list(self, step: str | None = None) -> Sequence[Artifact]:
        """Return the artifacts of succeeded steps of the run, or of one step, sorted by step, index and name."""
        return await self._store.list_artifacts(self._job, step)

    def write_sync(self, name: str, data: Data, media_type: str | None = None) -> str:
        """Like `write`, for sync handlers."""
        reference: str = self._store.wait(self.write(name, data, media_type))
        return reference

    def read_sync(self, step: str, name: str | None = None, *, index: int = 0) -> bytes:
        """Like `read`, for sync handlers."""
        data: bytes = self._store.wait(self.read(step, name, index=index))
        return data

    def list_sync(self, step: str | None = None) -> Sequence[Artifact]:
        """Like `list`, for sync handlers."""
        artifacts: Sequence[Artifact] = self._store.wait(self.list(step))
        return artifacts

    def _reference(self, step: str, name: str | None, index: int) -> Reference:
        if name is None:
            return read_reference(step)
        if index < 0:
            raise Invalid(f"index is {index}: it must be 0 or more", field="index")
        if self._job.run_id is None:
            raise Invalid("this job is not a step of a run: read an artifact by its reference", field="step")
        return Reference(self._job.run_id, step, index, check_name(name))


class Source:
    """Counts the bytes of an artifact while it is written, and keeps the error that its chunks raised."""

    def __init__(self, chunks: AsyncIterator[bytes], most: int = MAX_BYTES) -> None:
        self.size = 0
        self.error: Exception | None = None
        self._chunks = chunks
        self._most = most

    async def write(self, objects: Objects, key: str) -> None:
        """Write the object. An error raised by the chunks is raised unchanged, not as an error of the object store."""
        try:
            await objects.put_stream(key, self._counted())
        except Exception:
            if self.error is not None:
                raise self.error from None
            raise

    async def _counted(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                self.size += len(chunk)
                if self.size > self._most:
                    raise Invalid(f"the artifact has more than {self._most} bytes: split it", field="data")
                yield chunk
        except Exception as error:
            self.error = error
            raise


def _chunks(data: Data) -> AsyncIterator[bytes]:
    match data:
        case bytes() | bytearray() | memoryview():
            return _parts(memoryview(data).cast("B"))
        case str():
            return _parts(memoryview(data.encode()))
        case os.PathLike():
            return _file(Path(data))
        case AsyncIterable():
            return _checked(data)
    raise Invalid(
        f"data is a {type(data).__name__}: it must be bytes, a string, a path or an async iterator of bytes",
        field="data",
    )


async def _parts(data: memoryview) -> AsyncIterator[bytes]:
    for start in range(0, len(data), CHUNK):
        yield bytes(data[start : start + CHUNK])


async def _file(path: Path) -> AsyncIterator[bytes]:
    """Yield the content of a file, read in a thread: a disk may be slow."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


async def _checked(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise Invalid(f"data yields a {type(chunk).__name__}: it must yield bytes", field="data")
        yield bytes(chunk)
