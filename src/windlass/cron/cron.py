"""`Cron`: the scheduler as its users see it. Every call may come from any thread, before, during and after its run."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import TracebackType
from typing import Self, TypeVar, Unpack
from zoneinfo import ZoneInfo

from windlass.core.cron import IN_PROCESS, YEARS, Dialect
from windlass.core.cron import Cron as Spec
from windlass.core.step import Condition
from windlass.cron.builder import Workflow
from windlass.cron.clock import Clock, SystemClock
from windlass.cron.context import EntryId
from windlass.cron.dependencies import Dependency
from windlass.cron.door import Door
from windlass.cron.entry import Entry, EntryOptions, by_next
from windlass.cron.errors import Key
from windlass.cron.execution import WorkflowExecution
from windlass.cron.job import Job, Wrapper
from windlass.cron.lifecycle import Lifecycle
from windlass.cron.observers import Notices, Observer
from windlass.cron.options import CronOptions
from windlass.cron.registry import Registry
from windlass.cron.scheduler import Scheduler

T = TypeVar("T")
F = TypeVar("F", bound=Job)


class Cron:
    """A scheduler inside your process. Entries are known by id or, if they have one, by name."""

    def __init__(
        self,
        *,
        location: str | ZoneInfo = "UTC",
        dialect: Dialect = IN_PROCESS,
        min_every: timedelta | None = None,
        search_years: int = YEARS,
        wrappers: Iterable[Wrapper] = (),
        observers: Iterable[Observer] = (),
        max_entries: int = 0,
        retention: int = 100,
        threads: int = 64,
        clock: Clock | None = None,
    ) -> None:
        self.options = CronOptions(
            location=location,
            dialect=dialect,
            min_every=min_every,
            search_years=search_years,
            wrappers=tuple(wrappers),
            max_entries=max_entries,
            retention=retention,
            threads=threads,
        )
        self.observers = tuple(observers)
        self._door = Door()
        self._notices = Notices(self.observers)
        self._state = Scheduler(self.options, clock or SystemClock(), self._notices, self._ring)
        self._registry = Registry(self._state)
        self._life = Lifecycle(self._door, self._state)

    # Life

    @property
    def running(self) -> bool:
        return self._state.active

    def start(self) -> None:
        """Run in a thread of its own. Nothing happens if it runs already."""
        self._life.start_thread()

    def stop(self, timeout: float | None = None) -> bool:
        """End it and wait for running jobs; False if some have not ended in `timeout` seconds (they go on).

        On the scheduler's own event loop, and inside its jobs, it does not wait: use `await aclose()` there.
        """
        self._do(self._life.ask_to_stop)
        return self._life.wait(timeout)

    async def run(self) -> None:
        """Run on this event loop until somebody calls `stop`; returns when the last job has ended."""
        await self._life.run()

    async def aclose(self) -> None:
        """End it and wait for running jobs, from whatever event loop we are on."""
        if self._door.here:
            await self._life.close()
        else:
            await asyncio.to_thread(self.stop)

    async def __aenter__(self) -> Self:
        self._life.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Entries

    def add(self, spec: str | Spec, job: Job, **options: Unpack[EntryOptions]) -> EntryId:
        """Register a job. It is called without arguments: async functions on the loop, others in a thread."""
        return self._do(lambda: self._registry.add(spec, job, options))

    def job(self, spec: str | Spec, **options: Unpack[EntryOptions]) -> Callable[[F], F]:
        """`add` as a decorator; the function's name is the entry's unless another is given."""

        def decorate(job: F) -> F:
            named = EntryOptions(**options)
            named.setdefault("name", getattr(job, "__name__", None))
            self.add(spec, job, **named)
            return job

        return decorate

    def upsert(self, spec: str | Spec, job: Job, **options: Unpack[EntryOptions]) -> EntryId:
        """Add an entry, or give the one of this name this spec and job."""
        return self._do(lambda: self._registry.upsert(spec, job, options))

    def update(self, key: Key, *, spec: str | Spec | None = None, job: Job | None = None) -> None:
        """Change when it runs, or what. Edges stay. Runs of a job that is replaced are told that they are cancelled."""
        self._do(lambda: self._registry.update(key, spec, job))

    def remove(self, key: Key) -> bool:
        """Whether there was such an entry. Runs under way are told, and go on."""
        return self._do(lambda: bool(self._registry.remove([self._registry.find(key)])))

    def remove_by_tag(self, tag: str) -> int:
        return self._do(lambda: self._registry.remove(self._registry.chosen(tag)))

    def pause(self, key: Key) -> None:
        """Its ticks pass without a start, and in executions it is skipped."""
        self._do(lambda: self._registry.set_paused(key, True))

    def resume(self, key: Key) -> None:
        self._do(lambda: self._registry.set_paused(key, False))

    def trigger(self, key: Key) -> str:
        """Start it now. Returns the execution's id; empty if nothing depends on the entry and it runs alone."""
        return self._do(lambda: self._registry.trigger(key))

    def entry(self, key: Key) -> Entry | None:
        return self._do(lambda: entry.snapshot() if (entry := self._registry.find(key)) else None)

    def entries(self, *, tag: str | None = None) -> list[Entry]:
        """The next to run first, those without a time last."""
        return self._do(lambda: [entry.snapshot() for entry in by_next(self._registry.chosen(tag))])

    def is_job_running(self, key: Key) -> bool:
        return self._do(lambda: not self._life.idle(self._registry.id_of(key)))

    def wait(self, key: Key | None = None, timeout: float | None = None) -> bool:
        """For threads: wait until the jobs of an entry, or all, have ended; at once if none run."""
        return self._life.wait_idle(None if key is None else self._do(lambda: self._registry.id_of(key)), timeout)

    async def done(self, key: Key | None = None) -> None:
        """For event loops: the same."""
        entry = None if key is None else self._registry.id_of(key)
        await self._life.until(lambda: self._life.idle(entry))

    async def settled(self) -> None:
        """Wait until jobs under way only wait for the clock or for each other: what `FakeClock.play` needs to know."""
        await self._life.until(self._state.runner.settled)

    # Dependencies

    def add_dependency(self, child: Key, parent: Key, condition: Condition | str = Condition.SUCCESS) -> None:
        """Let `child` run when `parent` ended so, in every execution that begins from now on."""
        self._do(lambda: self._registry.add_dependency(child, parent, condition))

    def remove_dependency(self, child: Key, parent: Key) -> None:
        """Drop all edges between the two. Nothing happens if there are none; refused while an execution uses one."""
        self._do(lambda: self._registry.remove_dependency(child, parent))

    def dependencies(self, key: Key) -> list[Dependency]:
        return self._do(lambda: self._state.dependencies.of(self._registry.id_of(key)))

    # Workflows

    def add_workflow(self, workflow: Workflow) -> list[EntryId]:
        """Register all steps and edges, or nothing. The ids are in the order of the steps."""
        return self._do(lambda: self._registry.add_workflow(workflow))

    def workflow_status(self, execution_id: str) -> WorkflowExecution | None:
        """An execution that is active, or completed and not yet forgotten (`retention`)."""
        return self._do(lambda: self._state.executions.status(execution_id))

    def active_workflows(self) -> list[WorkflowExecution]:
        return self._do(self._state.executions.active)

    # Inside

    def _do(self, work: Callable[[], T]) -> T:
        """Every call goes through the door; observers are told when the state is in order again."""
        return self._door(lambda: self._told(work))

    def _told(self, work: Callable[[], T]) -> T:
        try:
            return work()
        finally:
            self._notices.tell()

    def _ring(self) -> None:
        self._do(self._state.ring)
