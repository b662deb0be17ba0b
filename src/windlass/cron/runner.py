"""Runs jobs, each in its own task and context, and counts them so that callers can wait for their end."""

import asyncio
import contextvars
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from windlass.cron.clock import Clock
from windlass.cron.context import EntryId, JobContext, enter
from windlass.cron.entry import LiveEntry
from windlass.cron.job import Call, Ending, outcome
from windlass.effects.handlers import Threads

Done = Callable[[JobContext, Ending, timedelta], None]


class Runner:
    def __init__(self, clock: Clock, threads: int) -> None:
        self.clock = clock
        self._threads_allowed = threads
        self._threads: Threads | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._base = contextvars.Context()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[EntryId, set[JobContext]] = {}
        self._count = self._parked = 0
        self._waiters: list[asyncio.Future[None]] = []

    def attach(self) -> None:
        """Run jobs on the current loop, with the context variables of the code that started the scheduler."""
        self._loop = asyncio.get_running_loop()
        self._base = contextvars.copy_context()

    def detach(self) -> None:
        self._loop = None
        if self._threads is not None:
            self._threads.close()
            self._threads = None

    def launch(
        self, entry: LiveEntry, scheduled: datetime, execution_id: str, upstream: Mapping[str, Any], done: Done
    ) -> None:
        assert self._loop is not None, "jobs start only while a loop is attached"
        context = JobContext(entry.id, entry.label, scheduled, execution_id, self, upstream)
        self._running.setdefault(entry.id, set()).add(context)
        self._count += 1
        task = self._loop.create_task(self._run(context, entry.call, done), context=self._base.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def is_running(self, entry: EntryId) -> bool:
        return entry in self._running

    @property
    def running(self) -> list[str]:
        """The names of the entries whose jobs are running."""
        return sorted({context.name for contexts in self._running.values() for context in contexts})

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def cancel(self, entry: EntryId) -> None:
        """Mark an entry's running jobs as cancelled."""
        for context in list(self._running.get(entry, ())):
            context.cancel()

    def cancel_all(self) -> None:
        for entry in list(self._running):
            self.cancel(entry)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds()` is true. It is checked whenever a job ends or starts or stops waiting."""
        while not holds():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def settled(self) -> bool:
        """Return whether every running job is waiting for the clock or for another job."""
        return self._count == self._parked

    def park(self, jobs: int) -> None:
        self._parked += jobs
        self._changed()

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        if self._threads is None:
            self._threads = Threads(self._threads_allowed)
        return await self._threads.run(call)

    async def _run(self, context: JobContext, call: Call, done: Done) -> None:
        enter(context)
        began = self.clock.now()
        ending = await outcome(call)
        self._count -= 1
        contexts = self._running[context.entry_id]
        contexts.discard(context)
        if not contexts:
            del self._running[context.entry_id]
        try:
            done(context, ending, self.clock.now() - began)
        finally:
            self._changed()  # wake the waiters even if `done` raised

    def _changed(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
