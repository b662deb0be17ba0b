"""The context of a running job, and the waits of jobs.

The context is a context variable, so threads, wrappers and everything the job calls can read it. Cancellation is
cooperative: `cancelled` becomes true when the entry is removed, its job is replaced or the scheduler stops.
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
    """The runner of a job."""

    @property
    def clock(self) -> Clock: ...

    def park(self, jobs: int) -> None:
        """Add `jobs`, which may be negative, to the number of running jobs that wait for the clock or another job."""
        ...

    async def in_thread(self, call: Callable[[], Any]) -> Any: ...


@dataclass(slots=True, eq=False)
class JobContext:
    """One run of one entry's job. `execution_id` is empty outside of an execution; `upstream` maps the names of parents
    that succeeded to their return values."""

    entry_id: EntryId
    name: str
    scheduled: datetime
    execution_id: str
    host: Host = field(repr=False)
    upstream: Mapping[str, Any] = field(default_factory=dict, repr=False)
    recovered: BaseException | None = field(default=None, repr=False)  # caught by `recover`, still to be reported
    _cancelled: bool = False
    _cancel_event: threading.Event | None = field(
        default=None, repr=False
    )  # created by the first wait: most jobs have none
    _inner: "list[JobContext]" = field(default_factory=list, repr=False)
    _waits: "set[Wait]" = field(default_factory=set, repr=False)

    @property
    def cancelled(self) -> bool:
        """Whether the job should end. Long jobs should check it regularly."""
        return self._cancelled

    def wait_cancelled(self, timeout: Duration) -> bool:
        """Block for `timeout` of real time or until cancelled; return whether cancelled. For jobs in threads."""
        self._cancel_event = event = self._cancel_event or threading.Event()
        return self._cancelled or event.wait(duration.read(timeout, field="timeout").total_seconds())

    def cancel(self) -> None:
        """Mark the job as cancelled and end its waits. Called by the scheduler, not by jobs."""
        self._cancelled = True
        if self._cancel_event is not None:
            self._cancel_event.set()
        for wait in list(self._waits):
            wait.end(False)
        for inner in self._inner:
            inner.cancel()

    def attempt(self) -> "JobContext":
        """Return a context of the same job that is cancelled separately, for a wrapper that abandons one attempt."""
        inner = JobContext(self.entry_id, self.name, self.scheduled, self.execution_id, self.host, self.upstream)
        self._inner = [inner]
        if self._cancelled:
            inner.cancel()
        return inner


_current: ContextVar[JobContext | None] = ContextVar("windlass_cron_job", default=None)


def job_context() -> JobContext | None:
    """Return the context of the current job, or None outside of one."""
    return _current.get()


def workflow_execution_id() -> str:
    """Return the id of the execution that the current job is part of; empty outside of one."""
    context = _current.get()
    return context.execution_id if context else ""


def enter(context: JobContext) -> None:
    """Set the job context of the current task."""
    _current.set(context)


def here() -> JobContext:
    """Return the current job's context. For wrappers, which are only called inside a job."""
    context = _current.get()
    assert context is not None, "a wrapped job is called by a scheduler"
    return context


class Wait:
    """A wait of a job, which other code ends. During the wait the job counts as parked, not as busy."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._thread = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[bool] = self._loop.create_future()
        self._open = True
        context.host.park(1)
        context._waits.add(self)
        if context.cancelled:
            self.end(False)

    def end(self, completed: bool = True) -> None:
        """End the wait, from any thread. The first call decides the result: False means that the job was cancelled."""
        if threading.get_ident() == self._thread:
            self._end(completed)
        else:
            self._loop.call_soon_threadsafe(self._end, completed)

    async def ended(self) -> bool:
        try:
            return await self._future
        finally:
            self._end(False)

    def _end(self, completed: bool) -> None:
        if self._open:
            self._open = False
            self._context._waits.discard(self)
            self._context.host.park(-1)
            if not self._future.done():
                self._future.set_result(completed)


async def pause(seconds: float) -> bool:
    """Wait on the scheduler's clock; return False if the job was cancelled first."""
    context = here()
    wait = Wait(context)
    timer = context.host.clock.call_later(seconds, wait.end)
    try:
        return await wait.ended()
    finally:
        timer.cancel()
