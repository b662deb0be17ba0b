"""`Cron`: the API of the in-process scheduler.

Methods may be called from any thread, whether the scheduler is running or not.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Self, TypeVar, Unpack
from zoneinfo import ZoneInfo

from windlass.core import duration
from windlass.core.cron.expression import YEARS
from windlass.core.cron.syntax import IN_PROCESS, Dialect
from windlass.core.duration import Duration
from windlass.core.workflows.step import Condition
from windlass.cron.builder import TRIGGERED, Workflow
from windlass.cron.clock import Clock, SystemClock
from windlass.cron.context import EntryId
from windlass.cron.dependencies import Dependency
from windlass.cron.entry import ChangeOptions, Entry, EntryOptions, When
from windlass.cron.errors import Key
from windlass.cron.executions import Triggered, WorkflowExecution
from windlass.cron.job import Job, Wrapper
from windlass.cron.lifecycle import Lifecycle, ThreadGate
from windlass.cron.observers import Notices, Observer
from windlass.cron.registry import Registry, read_wrappers
from windlass.cron.scheduler import Scheduler
from windlass.cron.schedules import CronOptions
from windlass.errors import Invalid

T = TypeVar("T")
F = TypeVar("F", bound=Job)


class Cron:
    """A scheduler inside your process. Entries are identified by id or, if they have one, by name."""

    def __init__(
        self,
        *,
        location: str | ZoneInfo = "UTC",
        dialect: Dialect = IN_PROCESS,
        min_every: Duration | None = None,
        search_years: int = YEARS,
        wrappers: Wrapper | Iterable[Wrapper] = (),
        observers: Observer | Iterable[Observer] = (),
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
            wrappers=read_wrappers(wrappers),
            max_entries=max_entries,
            retention=retention,
            threads=threads,
        )
        self.observers = (observers,) if isinstance(observers, Observer) else tuple(observers)
        self._gate = ThreadGate()
        self._notices = Notices(self.observers)
        self._state = Scheduler(self.options, clock or SystemClock(), self._notices, self._ring)
        self._registry = Registry(self._state)
        self._life = Lifecycle(self._gate, self._state)

    def __repr__(self) -> str:
        entries = self.entries()
        first = next((f", next {entry.name or f'#{entry.id}'} at {entry.next}" for entry in entries if entry.next), "")
        return f"<Cron {'running' if self.running else 'stopped'}, {len(entries)} entries{first}>"

    # Lifecycle

    @property
    def running(self) -> bool:
        return self._state.active

    def start(self) -> None:
        """Run in a background thread. Do nothing if the scheduler is already running."""
        self._life.start_thread()

    def stop(self, timeout: Duration | None = None) -> bool:
        """Stop and wait for running jobs; return False if some have not ended within `timeout` (they continue).

        On the scheduler's own event loop, in a signal handler there and inside its jobs this does not wait: use
        `await aclose()` there.
        """
        limit = _seconds(timeout)
        self._do(self._life.request_stop)
        return self._life.wait(limit)

    async def run(self) -> None:
        """Run on this event loop until `stop` is called; return when the last job has ended."""
        await self._life.run()

    def run_forever(self, *, timeout: Duration | None = 30) -> bool:
        """Run in this thread until `stop`, SIGINT (Ctrl-C) or SIGTERM, then wait up to `timeout` for running jobs.

        Return whether all jobs ended. A second signal ends the wait, a third ends the process.
        """
        return self._life.run_forever(_seconds(timeout))

    async def aclose(self) -> None:
        """Stop and wait for running jobs. May be called on any event loop."""
        if self._gate.here:
            await self._life.close()
        else:
            await asyncio.to_thread(self.stop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._life.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # Entries

    def add(self, spec: When, job: Job, **options: Unpack[EntryOptions]) -> EntryId:
        """Register a job. A spec is a cron expression, a `datetime` (run once) or a `timedelta` (run at that interval).

        The job is called with `args` and `kwargs`: async functions on the event loop, others in a thread.
        """
        return self._do(lambda: self._registry.add(spec, job, options))

    def job(self, spec: When = TRIGGERED, **options: Unpack[EntryOptions]) -> Callable[[F], F]:
        """Register the decorated function as a job; the entry's name is the function's unless `name` is given."""
        if callable(spec):
            raise Invalid("@cron.job takes a schedule: write @cron.job('*/5 * * * *')", field="spec")

        def decorate(job: F) -> F:
            named = EntryOptions(**options)
            named.setdefault("name", getattr(job, "__name__", None))
            self.add(spec, job, **named)
            return job

        return decorate

    def upsert(self, spec: When, job: Job, **options: Unpack[EntryOptions]) -> EntryId:
        """Add an entry, or update the entry of this name with this spec, this job and these options."""
        return self._do(lambda: self._registry.upsert(spec, job, options))

    def update(
        self, key: Key, *, spec: When | None = None, job: Job | None = None, **options: Unpack[ChangeOptions]
    ) -> None:
        """Change the given options and keep the others. Replacing the job marks its current runs as cancelled."""
        self._do(lambda: self._registry.update(key, spec, job, options))

    def remove(self, key: Key) -> bool:
        """Remove an entry, or all entries of a workflow; return whether there was one.

        Running jobs are marked as cancelled and continue until they end.
        """
        return self._do(lambda: bool(self._registry.remove(key)))

    def remove_by_tag(self, tag: str) -> int:
        return self._do(lambda: self._registry.remove_by_tag(tag))

    def pause(self, key: Key) -> None:
        """Pause an entry, or all entries of a workflow: ticks start nothing, and executions skip paused entries."""
        self._do(lambda: self._registry.set_paused(key, True))

    def resume(self, key: Key) -> None:
        self._do(lambda: self._registry.set_paused(key, False))

    def trigger(self, key: Key) -> Triggered:
        """Start an entry, or a workflow at its root, now. Return the execution's id; await it to wait for the end."""
        return self._do(lambda: self._registry.trigger(key))

    def entry(self, key: Key) -> Entry | None:
        return self._do(lambda: self._registry.entry(key))

    def entries(self, *, tag: str | None = None) -> list[Entry]:
        """Return the entries sorted by next time; entries without one come last."""
        return self._do(lambda: self._registry.entries(tag))

    def is_job_running(self, key: Key) -> bool:
        return self._do(lambda: not self._life.idle(self._registry.id_of(key)))

    def wait(self, key: Key | None = None, timeout: Duration | None = None) -> bool:
        """Block until the jobs of an entry, or all jobs, have ended; return whether they ended within `timeout`."""
        limit = _seconds(timeout)
        return self._life.wait_idle(None if key is None else self._do(lambda: self._registry.id_of(key)), limit)

    async def done(self, key: Key | None = None) -> None:
        """Wait until the jobs of an entry, or all jobs, have ended: the async form of `wait`."""
        entry = None if key is None else self._registry.id_of(key)
        await self._life.until(lambda: self._life.idle(entry))

    async def settled(self) -> None:
        """Wait until every running job is waiting for the clock or for another job. Used by `FakeClock.play`."""
        await self._life.until(self._state.runner.settled)

    # Dependencies

    def add_dependency(self, child: Key, parent: Key, condition: Condition | str = Condition.SUCCESS) -> None:
        """Run `child` when the result of `parent` meets the condition. Applies to executions that begin from now on."""
        self._do(lambda: self._registry.add_dependency(child, parent, condition))

    def remove_dependency(self, child: Key, parent: Key) -> None:
        """Remove all edges between the two, if any. Raise `DependencyInUse` while an active execution uses one."""
        self._do(lambda: self._registry.remove_dependency(child, parent))

    def dependencies(self, key: Key) -> list[Dependency]:
        return self._do(lambda: self._state.dependencies.of(self._registry.id_of(key)))

    # Workflows

    def add_workflow(self, workflow: Workflow) -> list[EntryId]:
        """Register all steps and edges, or nothing. Return the entry ids in the order of the steps."""
        return self._do(lambda: self._registry.add_workflow(workflow))

    def workflow_status(self, execution_id: str) -> WorkflowExecution | None:
        """Return an execution that is active, or completed and still kept (`retention`); None if unknown."""
        return self._do(lambda: self._state.executions.status(execution_id))

    def executions(self) -> list[WorkflowExecution]:
        """Return active executions and the completed ones that are still kept (`retention`), oldest first."""
        return self._do(self._state.executions.all)

    def active_workflows(self) -> list[WorkflowExecution]:
        return self._do(self._state.executions.active)

    # Internals

    def _do(self, work: Callable[[], T]) -> T:
        """Run `work` through the thread gate, then call the observers: by then the state is consistent again."""
        return self._gate(lambda: self._and_notify(work))

    def _and_notify(self, work: Callable[[], T]) -> T:
        try:
            return work()
        finally:
            self._notices.deliver()

    def _ring(self) -> None:
        self._do(self._state.ring)


def _seconds(timeout: Duration | None) -> float | None:
    return None if timeout is None else duration.read(timeout, field="timeout").total_seconds()
