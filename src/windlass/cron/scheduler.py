"""The state of the in-process scheduler: due times, starts and the ends of jobs.

`ThreadGate` guarantees that only one thread at a time uses it, so nothing here takes a lock.

Invariants
  * While active, every entry that has a next time is in the due queue with exactly that time.
  * A tick computes the next time of a due entry before it starts the job: a failing start does not stop the schedule.
  * An execution uses a copy of the edges made when it began; later changes of edges do not affect it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from windlass.core.cron.syntax import At
from windlass.cron.clock import Clock, Timer
from windlass.cron.context import EntryId, JobContext
from windlass.cron.dependencies import Dependencies, JobResult
from windlass.cron.entry import Entries, LiveEntry
from windlass.cron.executions import REMOVED, Execution, Executions, Triggered, WorkflowExecution, alone
from windlass.cron.job import Done, Ending, Runner
from windlass.cron.observers import JobCompleted, JobStarted, Notices, Scheduled
from windlass.cron.schedules import MOST, CronOptions, Due, late_ticks, missed_ticks

logger = logging.getLogger("windlass.cron")
SETBACK = timedelta(seconds=1)  # if the wall clock goes back by more than this, all next times are recomputed
PAUSED = "its entry is paused"
Watch = Future[WorkflowExecution]  # resolved when the execution or the job that a trigger started has ended


class Scheduler:
    def __init__(self, options: CronOptions, clock: Clock, notices: Notices, wake: Callable[[], object]) -> None:
        """`wake` is the callback of the timer; it must call `ring` on the scheduler's thread."""
        self.options, self.clock, self.notices, self._wake = options, clock, notices, wake
        self.active = False
        self.entries = Entries(options.max_entries)
        self.dependencies = Dependencies(self._label)
        self.executions = Executions(options.retention, clock.now, self._start_step, self._completed)
        self.runner = Runner(clock, options.threads)
        self._due = Due()
        self._timer: Timer | None = None
        self._armed: datetime | None = None
        self._seen = clock.now()
        self._watches: dict[str, Watch] = {}  # by execution id

    # Lifecycle

    def activate(self) -> None:
        self.active = True
        self.runner.attach()
        self.notices.attach()
        self._seen = now = self.clock.now()
        self._due.clear()
        for entry in list(self.entries):
            self._isolate(entry, partial(self._admit, entry, now))
        self.executions.resume()
        self.tick()

    def deactivate(self) -> None:
        """Stop ticks and starts. Running jobs are marked as cancelled and continue until they end."""
        self.active = False
        self._disarm()
        self.runner.cancel_all()

    def detach(self) -> None:
        """Release the loop before it closes, and resolve the futures of unfinished executions with their current state.

        A later start resumes these executions; waiters must not block until then.
        """
        self.runner.detach()
        self.notices.detach()
        watches, self._watches = self._watches, {}
        for execution_id, watch in watches.items():
            execution = self.executions.status(execution_id)
            assert execution is not None, "an execution that is watched is active"
            watch.set_result(execution)

    def tick(self) -> None:
        """Start everything that is due and set the timer to the next due time."""
        if not self.active:
            return
        now = self.clock.now()
        if now < self._seen - SETBACK:
            self._reschedule(now)
        self._seen = now
        for entry_id, at in self._due.pop(now):
            entry = self.entries.find(entry_id)
            if entry is not None:
                self._isolate(entry, partial(self._fire, entry, at, now))
        self._arm()

    # Entries

    def admit(self, entries: Iterable[LiveEntry]) -> None:
        """Schedule entries that were just added with all their edges."""
        if self.active:
            now = self.clock.now()
            for entry in entries:
                self._isolate(entry, partial(self._admit, entry, now))
            self.tick()

    def remove(self, entries: Sequence[LiveEntry]) -> None:
        self._detach(entries)
        for entry in entries:
            self.runner.cancel(entry.id)
        if self.active:
            self._arm()

    def reschedule(self, entry: LiveEntry) -> None:
        """Compute the next time of an entry whose spec changed."""
        if self.active:
            self._isolate(entry, partial(self._schedule, entry, self.clock.now()))
            self.tick()

    def trigger(self, entry: LiveEntry) -> Triggered:
        """Start an entry now and return a handle that can be awaited."""
        watch = Watch()
        watch.set_running_or_notify_cancel()  # a running future cannot be cancelled by a waiter
        return Triggered(self._start(entry, self.clock.now(), watch), watch)

    def _start(self, entry: LiveEntry, scheduled: datetime, watch: Watch | None = None) -> str:
        """Start an entry and return the id of its execution; an entry without children runs alone, with the id ""."""
        if not self.dependencies.has_children(entry.id):
            self._launch(entry, scheduled, "", {}, partial(self._ended_alone, watch))
            return ""
        execution = self.executions.begin(self.dependencies.reach(entry.id), scheduled)
        if watch is not None and execution.complete:
            watch.set_result(execution.snapshot())
        elif watch is not None:
            self._watches[execution.id] = watch
        return execution.id

    # Ticks and timers

    def _admit(self, entry: LiveEntry, now: datetime) -> None:
        rule = entry.schedule.rule
        if isinstance(rule, At) and rule.moment <= now:  # due before the scheduler started
            self._fire(entry, rule.moment, now)
        elif not entry.paused:
            self._start_ticks(entry, *missed_ticks(entry, now))
        if self.entries.find(entry.id) is entry:
            self._schedule(entry, now)

    def _schedule(self, entry: LiveEntry, now: datetime) -> None:
        if entry.run_immediately:
            entry.run_immediately = False
            entry.next = now
            self._due.put(entry.id, now)
        else:
            self._set_next(entry, now)

    def _start_ticks(self, entry: LiveEntry, ticks: list[datetime], more: bool) -> None:
        if more:
            logger.warning("entry %s missed more than %d runs; only the oldest %d run", entry.label, MOST, MOST)
        for at in ticks:
            self._start(entry, at)

    def _fire(self, entry: LiveEntry, at: datetime, now: datetime) -> None:
        ticks, more = ([], False) if entry.paused else late_ticks(entry, at, now)
        if not ticks or not entry.run_once:
            self._set_next(entry, now)
        self._start_ticks(entry, ticks, more)
        if not ticks and not entry.paused:
            logger.warning("entry %s: the tick of %s was skipped because it is %s late", entry.label, at, now - at)
            if entry.run_once and entry.next is None:
                self._detach([entry])  # it has no other tick

    def _set_next(self, entry: LiveEntry, now: datetime) -> None:
        entry.next = entry.schedule.next(now, years=self.options.search_years)
        if entry.next is None:
            self._due.drop(entry.id)
        else:
            self._due.put(entry.id, entry.next)
            if self.notices.needed:
                self.notices.schedule(Scheduled(entry.id, entry.label, entry.next))

    def _reschedule(self, now: datetime) -> None:
        logger.warning("the clock went back from %s to %s; all next times are computed again", self._seen, now)
        for entry in self.entries:
            self._isolate(entry, partial(self._set_next, entry, now))

    def _isolate(self, entry: LiveEntry, act: Callable[[], None]) -> None:
        """Call `act` for one entry. If it raises, set the entry aside so that the other entries are not affected."""
        try:
            act()
        except Exception:
            logger.exception("entry %s does not run until its spec changes or the scheduler is restarted", entry.label)
            entry.next = None
            self._due.drop(entry.id)

    def _arm(self) -> None:
        first = self._due.first()
        if first != self._armed or self._timer is None:
            self._disarm()
            if first is not None:
                self._armed, self._timer = first, self.clock.call_at(first, self._wake)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._armed = None

    def ring(self) -> None:
        """Handle the timer: run a tick."""
        self._timer = self._armed = None
        self.tick()

    # Jobs

    def _start_step(self, execution: Execution, step: int) -> str | None:
        entry = self.entries.find(execution.reach.members[step])
        if entry is None:
            return REMOVED
        if entry.paused:
            return PAUSED
        if not self.active:
            execution.held.add(step)
            return None
        scheduled = execution.start_time if step == 0 else self.clock.now()
        self._launch(entry, scheduled, execution.id, execution.upstream(step), partial(self._ended_in, execution, step))
        return None

    def _launch(
        self, entry: LiveEntry, scheduled: datetime, execution_id: str, upstream: Mapping[str, Any], ended: Done
    ) -> None:
        entry.prev = scheduled
        if self.notices.needed:
            self.notices.job_start(JobStarted(entry.id, entry.label, scheduled, execution_id))
        context = JobContext(entry.id, entry.label, scheduled, execution_id, self.runner, upstream)
        self.runner.launch(context, entry.call, ended)
        if entry.run_once:
            self._detach([entry])

    def _ended_in(
        self, execution: Execution, step: int, context: JobContext, ending: Ending, duration: timedelta
    ) -> None:
        self._report(context, ending, duration)
        self.executions.end(execution, step, ending)
        self.notices.deliver()

    def _ended_alone(self, watch: Watch | None, context: JobContext, ending: Ending, duration: timedelta) -> None:
        self._report(context, ending, duration)
        if watch is not None:
            watch.set_result(alone(context, ending, self.clock.now()))
        self.notices.deliver()

    def _report(self, context: JobContext, ending: Ending, duration: timedelta) -> None:
        if ending.result is JobResult.FAILURE and not ending.logged:
            logger.error("job %s failed: %s", context.name, ending.reason, exc_info=ending.error)
        elif ending.result is JobResult.SKIPPED:
            logger.info("job %s was skipped: %s", context.name, ending.reason)
        completed = JobCompleted(
            context.entry_id,
            context.name,
            context.scheduled,
            duration,
            ending.result,
            ending.error,
            context.execution_id,
            ending.output,
        )
        entry = self.entries.find(context.entry_id)
        if entry is not None:
            entry.last_run = completed
        self.notices.job_complete(completed)

    def _completed(self, execution: Execution) -> None:
        watch = self._watches.pop(execution.id, None)
        if watch is not None:
            watch.set_result(execution.snapshot())
        self.notices.workflow_complete(execution.snapshot)

    def _detach(self, entries: Iterable[LiveEntry]) -> None:
        """Remove entries and skip their pending steps; running jobs continue.

        All entries are removed before the first step is skipped: skipping a step can start its children, and a child
        may be one of the entries to remove.
        """
        removed = list(entries)
        for entry in removed:
            self.entries.remove(entry)
            self._due.drop(entry.id)
        for entry in removed:
            self.dependencies.forget(entry.id)
            self.executions.removed(entry.id)

    def _label(self, entry_id: EntryId) -> str:
        return self.entries.get(entry_id).label
