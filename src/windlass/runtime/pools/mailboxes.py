"""The mailboxes of a pool: the objects through which the pool and its launched processes communicate.

The pool writes the specification of a task and the request to stop; the process writes heartbeats, log lines, its
status and its output.
"""

import asyncio
import json
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from windlass.core.artifacts import MAX_OUTPUT
from windlass.core.launches import OUTPUT, STATUS, STOP, TaskSpec, log_chunk, mailbox
from windlass.effects.objects import ObjectMeta, Objects

MAX_CHUNK, MAX_STATUS = 8 * 1024 * 1024, 1024 * 1024
Mail = Mapping[str, ObjectMeta]  # the objects of one launch, by the name within its mailbox
LogLine = tuple[datetime, str, str]  # when, level, message
T = TypeVar("T")


class Mailboxes:
    """Reads and writes the mailboxes of a pool. `slots` limits concurrent operations, except requests to stop and the
    list of all mailboxes, which every tick needs."""

    def __init__(self, objects: Objects, pool: str, slots: asyncio.Semaphore) -> None:
        self._objects = objects
        self._prefix = mailbox(pool)
        self._slots = slots

    async def by_launch(self) -> dict[str, dict[str, ObjectMeta]]:
        """Return the objects of all launches, by the name of the launch."""
        mail: dict[str, dict[str, ObjectMeta]] = {}
        for meta in await self._objects.list(self._prefix):
            launch, _, name = meta.key.removeprefix(self._prefix).partition("/")
            mail.setdefault(launch, {})[name] = meta
        return mail

    async def of_launch(self, launch: str) -> dict[str, ObjectMeta]:
        box = f"{self._prefix}{launch}/"
        objects = await self._limited(self._objects.list(box))
        return {meta.key.removeprefix(box): meta for meta in objects}

    async def lines(self, mail: Mail, chunk: int) -> list[LogLine] | None:
        """Return the log lines of a chunk; None if it is not there."""
        meta = mail.get(log_chunk(chunk))
        if meta is None:
            return None
        rows = json.loads(await self._limited(self._objects.get(meta.key, most=MAX_CHUNK)))
        return [(datetime.fromisoformat(at), str(level), str(message)) for at, level, message in rows]

    async def status(self, mail: Mail) -> Mapping[str, Any]:
        document: Mapping[str, Any] = json.loads(
            await self._limited(self._objects.get(mail[STATUS].key, most=MAX_STATUS))
        )
        return document

    async def output(self, spec: TaskSpec) -> str:
        return (await self._limited(self._objects.get(spec.mailbox + OUTPUT, most=MAX_OUTPUT))).decode()

    async def specify(self, key: str, spec: TaskSpec) -> None:
        await self._limited(self._objects.put(key, spec.encode()))

    async def ask_to_stop(self, launch: str) -> None:
        await self._objects.put(f"{self._prefix}{launch}/{STOP}", b"")

    async def empty(self, launch: str) -> None:
        mail = await self.of_launch(launch)
        await self._limited(self._objects.delete([meta.key for meta in mail.values()]))

    async def _limited(self, operation: Awaitable[T]) -> T:
        async with self._slots:
            return await operation
