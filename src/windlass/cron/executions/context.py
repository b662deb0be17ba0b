"""What a running job is told about itself, and how it waits.

The context lies in a context variable, so it reaches threads, wrappers and everything the job calls. A job is never
torn down from outside: `cancelled` turns true when its entry is removed, its job replaced or the scheduler stopped.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NewType, Protocol

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.cron.clock import Clock

EntryId = NewType("EntryId", int)


class Host(Protocol):
    """Who runs the job."""

    @property
    def clock(self) -> Clock: ...

    def park(self, jobs: int) -> None:
        """So many more (or fewer) of the running jobs wait for the clock or for another job."""
        ...

    async def in_thread(self, call: Callable[[], Any]) -> Any: ...


@dataclass(slots=True, eq=False)
class JobContext:
    """One run of one entry's job. `execution_id` is empty when it runs on its own; `upstream` has what the parents
    that succeeded returned, by name."""

    entry_id: EntryId
    name: str
    scheduled: datetime
    execution_id: str
    host: Host = field(repr=False)
    upstream: Mapping[str, Any] = field(default_factory=dict, repr=False)
    recovered: BaseException | None = field(default=None, repr=False)  # swallowed by `recover`, still to be reported
    _cancelled: bool = False
    _bell: threading.Event | None = field(default=None, repr=False)  # made when somebody waits: most jobs never do
    _inner: "list[JobContext]" = field(default_factory=list, repr=False)
    _naps: "set[Nap]" = field(default_factory=set, repr=False)

    @property
    def cancelled(self) -> bool:
        """True once the job should come to an end: look now and then in long jobs."""
        return self._cancelled

    def wait_cancelled(self, timeout: Duration) -> bool:
        """For jobs in threads: pause for `timeout` of real time, or less if cancelled meanwhile."""
        self._bell = bell = self._bell or threading.Event()
        return self._cancelled or bell.wait(duration.read(timeout, field="timeout").total_seconds())

    def cancel(self) -> None:
        """Told by the scheduler; jobs only look."""
        self._cancelled = True
        if self._bell is not None:
            self._bell.set()
        for nap in list(self._naps):
            nap.end(False)
        for inner in self._inner:
            inner.cancel()

    def attempt(self) -> "JobContext":
        """The same job with a cancellation of its own, for a wrapper that gives up on one attempt."""
        inner = JobContext(self.entry_id, self.name, self.scheduled, self.execution_id, self.host, self.upstream)
        self._inner = [inner]
        if self._cancelled:
            inner.cancel()
        return inner


_current: ContextVar[JobContext | None] = ContextVar("windlass_cron_job", default=None)


def job_context() -> JobContext | None:
    """The context of the job that is running here, if any."""
    return _current.get()


def workflow_execution_id() -> str:
    """The execution this job is part of; empty outside of one."""
    context = _current.get()
    return context.execution_id if context else ""


def enter(context: JobContext) -> None:
    """From here on this task speaks for that job."""
    _current.set(context)


def here() -> JobContext:
    """The running job's context, for wrappers: they are only ever called inside one."""
    context = _current.get()
    assert context is not None, "a wrapped job is called by a scheduler"
    return context


class Nap:
    """One wait of a job that some other party ends. While it lasts the job does not count as busy."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[bool] = self._loop.create_future()
        self._open = True
        context.host.park(1)
        context._naps.add(self)
        if context.cancelled:
            self.end(False)

    def end(self, came: bool = True) -> None:
        """From any thread. The first word counts: True if what it waited for came, False if the job was cancelled."""
        if threading.get_ident() == self._thread:
            self._end(came)
        else:
            self._loop.call_soon_threadsafe(self._end, came)

    async def over(self) -> bool:
        try:
            return await self._future
        finally:
            self._end(False)

    def _end(self, came: bool) -> None:
        if self._open:
            self._open = False
            self._context._naps.discard(self)
            self._context.host.park(-1)
            if not self._future.done():
                self._future.set_result(came)


async def pause(seconds: float) -> bool:
    """Wait on the scheduler's clock; False if the job was cancelled before the time was over."""
    context = here()
    nap = Nap(context)
    timer = context.host.clock.call_later(seconds, nap.end)
    try:
        return await nap.over()
    finally:
        timer.cancel()
