"""Observers: callbacks for events, called in order after the scheduler's state has changed.

Plain functions are called on the scheduler's thread; async ones become tasks on its event loop.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from windlass.cron.context import EntryId
from windlass.cron.dependencies import JobResult
from windlass.cron.executions import WorkflowExecution

logger = logging.getLogger("windlass.cron")


@dataclass(frozen=True, slots=True)
class JobStarted:
    entry_id: EntryId
    name: str
    scheduled: datetime
    execution_id: str = ""


@dataclass(frozen=True, slots=True)
class JobCompleted:
    """`error` is the exception of a failed job, or the reason of a skipped one; `output` is the return value."""

    entry_id: EntryId
    name: str
    scheduled: datetime
    duration: timedelta
    result: JobResult
    error: BaseException | None = None
    execution_id: str = ""
    output: Any = None


@dataclass(frozen=True, slots=True)
class Scheduled:
    """An entry has a new next time."""

    entry_id: EntryId
    name: str
    next: datetime


@dataclass(frozen=True, kw_only=True)
class Observer:
    """Callbacks, sync or async. Sync callbacks block the scheduler, so they must be quick; errors are logged."""

    on_job_start: Callable[[JobStarted], object] | None = None
    on_job_complete: Callable[[JobCompleted], object] | None = None
    on_schedule: Callable[[Scheduled], object] | None = None
    on_workflow_complete: Callable[[WorkflowExecution], object] | None = None


class Notices:
    """Queues events until the scheduler's state is consistent again, so that an observer may call the scheduler."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self.needed = bool(observers)  # without observers no events are created
        self._waiting: deque[tuple[str, Callable[[], object]]] = deque()
        self._delivering = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def attach(self) -> None:
        """Run async observers on the running event loop."""
        self._loop = asyncio.get_running_loop()

    async def drain(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for async observers, so that a stop does not cut off the last events."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def detach(self) -> None:
        self._loop = None

    def job_start(self, started: JobStarted) -> None:
        self._add("on_job_start", lambda: started)

    def job_complete(self, completed: JobCompleted) -> None:
        self._add("on_job_complete", lambda: completed)

    def schedule(self, scheduled: Scheduled) -> None:
        self._add("on_schedule", lambda: scheduled)

    def workflow_complete(self, snapshot: Callable[[], WorkflowExecution]) -> None:
        """Queue the event; each observer gets its own snapshot."""
        self._add("on_workflow_complete", snapshot)

    def deliver(self) -> None:
        """Call the observers of the queued events, in order. A call from inside an observer does nothing."""
        if self._delivering or not self._waiting:
            return
        self._delivering = True
        try:
            while self._waiting:
                name, make = self._waiting.popleft()
                for observer in self._observers:
                    self._call(observer, name, make)
        finally:
            self._delivering = False

    def _add(self, name: str, make: Callable[[], object]) -> None:
        if self.needed:
            self._waiting.append((name, make))

    def _call(self, observer: Observer, name: str, make: Callable[[], object]) -> None:
        call = getattr(observer, name)
        if call is None:
            return
        try:
            answer = call(make())
            if inspect.isawaitable(answer):
                self._start(name, answer)
        except BaseException:  # a pytest.fail or SystemExit in an observer must not end the scheduler's loop
            logger.exception("an observer's %s raised", name)

    def _start(self, name: str, answer: Awaitable[object]) -> None:
        if self._loop is None:
            if inspect.iscoroutine(answer):
                answer.close()
            logger.warning("the async observer's %s was not called: the scheduler is not running", name)
            return
        task = self._loop.create_task(_awaited(name, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _awaited(name: str, answer: Awaitable[object]) -> None:
    try:
        await answer
    except asyncio.CancelledError:
        raise
    except BaseException:
        logger.exception("an observer's %s raised", name)
