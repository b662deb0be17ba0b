"""Observers: callables told what happens. They are called on the scheduler's thread, in order, after the fact."""

import inspect
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from windlass.cron.context import EntryId
from windlass.cron.execution import WorkflowExecution
from windlass.cron.result import JobResult
from windlass.errors import Invalid

logger = logging.getLogger("windlass.cron")


@dataclass(frozen=True, slots=True)
class JobStarted:
    entry_id: EntryId
    name: str
    scheduled: datetime
    execution_id: str = ""


@dataclass(frozen=True, slots=True)
class JobCompleted:
    """`error` is what it raised, or why it was skipped."""

    entry_id: EntryId
    name: str
    scheduled: datetime
    duration: timedelta
    result: JobResult
    error: BaseException | None = None
    execution_id: str = ""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """An entry has a next time."""

    entry_id: EntryId
    name: str
    next: datetime


@dataclass(frozen=True, kw_only=True)
class Observer:
    """What you want to be told. Be quick, the scheduler waits; what you raise is logged and changes nothing."""

    on_job_start: Callable[[JobStarted], object] | None = None
    on_job_complete: Callable[[JobCompleted], object] | None = None
    on_schedule: Callable[[Scheduled], object] | None = None
    on_workflow_complete: Callable[[WorkflowExecution], object] | None = None

    def __post_init__(self) -> None:
        for name, call in vars(self).items():
            if inspect.iscoroutinefunction(call):
                raise Invalid(f"{name} is async; an observer is a plain function (let it start a task)", field=name)


class Notices:
    """What is to be told once the scheduler's state is in order, so that an observer may call the scheduler."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self._observers = observers
        self.wanted = bool(observers)  # else nobody need find the words
        self._waiting: deque[tuple[str, Callable[[], object]]] = deque()
        self._telling = False

    def job_start(self, started: JobStarted) -> None:
        self._add("on_job_start", lambda: started)

    def job_complete(self, completed: JobCompleted) -> None:
        self._add("on_job_complete", lambda: completed)

    def schedule(self, scheduled: Scheduled) -> None:
        self._add("on_schedule", lambda: scheduled)

    def workflow_complete(self, snapshot: Callable[[], WorkflowExecution]) -> None:
        """Each observer gets a copy of its own."""
        self._add("on_workflow_complete", snapshot)

    def tell(self) -> None:
        if self._telling or not self._waiting:
            return
        self._telling = True
        try:
            while self._waiting:
                name, make = self._waiting.popleft()
                for observer in self._observers:
                    self._call(observer, name, make)
        finally:
            self._telling = False

    def _add(self, name: str, make: Callable[[], object]) -> None:
        if self.wanted:
            self._waiting.append((name, make))

    def _call(self, observer: Observer, name: str, make: Callable[[], object]) -> None:
        call = getattr(observer, name)
        if call is None:
            return
        try:
            call(make())
        except Exception:
            logger.exception("an observer's %s raised", name)
