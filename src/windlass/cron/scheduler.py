"""The scheduler's state and its moves. All of it is touched by one thread at a time: see `Door`.

Invariants
  * While active, every entry that has a next time lies in the due queue with exactly that time.
  * A tick first gives each due entry its next time, then starts it: a failing start cannot stop the clock.
  * An execution never looks at the edges again: it has its own since it began.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from windlass.cron.clock import Clock, Timer
from windlass.cron.context import EntryId, JobContext
from windlass.cron.dependencies import Dependencies
from windlass.cron.due import Due
from windlass.cron.entries import Entries
from windlass.cron.entry import LiveEntry
from windlass.cron.execution import Execution
from windlass.cron.executions import REMOVED, Executions
from windlass.cron.job import Ending
from windlass.cron.missed import MOST, missed_ticks
from windlass.cron.observers import JobCompleted, JobStarted, Notices, Scheduled
from windlass.cron.options import CronOptions
from windlass.cron.result import JobResult
from windlass.cron.runner import Done, Runner

logger = logging.getLogger("windlass.cron")
SETBACK = timedelta(seconds=1)  # a wall clock that goes back by more makes all times be found anew
PAUSED = "its entry is paused"


class Scheduler:
    def __init__(self, options: CronOptions, clock: Clock, notices: Notices, wake: Callable[[], object]) -> None:
        """`wake` is what the timer calls: it leads to `ring`, in the right thread."""
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

    # Life

    def activate(self) -> None:
        self.active = True
        self.runner.attach()
        self._seen = now = self.clock.now()
        self._due.clear()
        for entry in self.entries:
            self._take_up(entry, now)
        self.executions.resume()
        self.tick()

    def deactivate(self) -> None:
        """No more ticks, no more starts; jobs under way are told, and go on."""
        self.active = False
        self._disarm()
        self.runner.cancel_all()

    def tick(self) -> None:
        """All the work of one moment: start what is due, set the timer to the next."""
        if not self.active:
            return
        now = self.clock.now()
        if now < self._seen - SETBACK:
            self._reschedule(now)
        self._seen = now
        for entry_id, at in self._due.pop(now):
            entry = self.entries.find(entry_id)
            if entry is not None:
                self._fire(entry, at, now)
        self._arm()

    # Entries

    def take_up(self, entries: Iterable[LiveEntry]) -> None:
        """They were just added, with all their edges."""
        if self.active:
            now = self.clock.now()
            for entry in entries:
                self._take_up(entry, now)
            self.tick()

    def remove(self, entry: LiveEntry) -> None:
        self._detach(entry)
        self.runner.cancel(entry.id)
        if self.active:
            self._arm()

    def reschedule(self, entry: LiveEntry) -> None:
        """Its spec changed."""
        if self.active:
            self._set_next(entry, self.clock.now())
            self._arm()

    def dispatch(self, entry: LiveEntry, scheduled: datetime) -> str:
        """Start an entry: alone, or as the root of an execution, whose id is returned."""
        if not self.dependencies.has_children(entry.id):
            self._launch(entry, scheduled, "", self._ended_alone)
            return ""
        return self.executions.begin(self.dependencies.reach(entry.id), scheduled).id

    # Moments

    def _take_up(self, entry: LiveEntry, now: datetime) -> None:
        if not entry.paused:
            self._catch_up(entry, now)
        if self.entries.find(entry.id) is not entry:
            return
        if entry.run_immediately:
            entry.run_immediately = False
            entry.next = now
            self._due.put(entry.id, now)
        else:
            self._set_next(entry, now)

    def _catch_up(self, entry: LiveEntry, now: datetime) -> None:
        ticks, more = missed_ticks(entry, now)
        if more:
            logger.warning("entry %s missed more than %d runs; the oldest %d are made up for", entry.label, MOST, MOST)
        for at in ticks:
            self.dispatch(entry, at)

    def _fire(self, entry: LiveEntry, at: datetime, now: datetime) -> None:
        if entry.paused or not entry.run_once:
            self._set_next(entry, now)
        if not entry.paused:
            self.dispatch(entry, at)

    def _set_next(self, entry: LiveEntry, now: datetime) -> None:
        entry.next = entry.schedule.next(now, years=self.options.search_years)
        if entry.next is None:
            self._due.drop(entry.id)
        else:
            self._due.put(entry.id, entry.next)
            if self.notices.wanted:
                self.notices.schedule(Scheduled(entry.id, entry.label, entry.next))

    def _reschedule(self, now: datetime) -> None:
        logger.warning("the clock went back from %s to %s; all next times are found anew", self._seen, now)
        for entry in self.entries:
            self._set_next(entry, now)

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
        """The timer went off."""
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
        self._launch(entry, scheduled, execution.id, partial(self._ended_in, execution, step))
        return None

    def _launch(self, entry: LiveEntry, scheduled: datetime, execution_id: str, ended: Done) -> None:
        entry.prev = scheduled
        if self.notices.wanted:
            self.notices.job_start(JobStarted(entry.id, entry.label, scheduled, execution_id))
        self.runner.launch(entry, scheduled, execution_id, ended)
        if entry.run_once:
            self._detach(entry)

    def _ended_in(
        self, execution: Execution, step: int, context: JobContext, ending: Ending, duration: timedelta
    ) -> None:
        self._report(context, ending, duration)
        self.executions.end(execution, step, ending)
        self.notices.tell()

    def _ended_alone(self, context: JobContext, ending: Ending, duration: timedelta) -> None:
        self._report(context, ending, duration)
        self.notices.tell()

    def _report(self, context: JobContext, ending: Ending, duration: timedelta) -> None:
        if ending.result is JobResult.FAILURE and not ending.told:
            logger.error("job %s failed: %s", context.name, ending.reason, exc_info=ending.error)
        elif ending.result is JobResult.SKIPPED:
            logger.info("job %s was skipped: %s", context.name, ending.reason)
        if not self.notices.wanted:
            return
        self.notices.job_complete(
            JobCompleted(
                context.entry_id,
                context.name,
                context.scheduled,
                duration,
                ending.result,
                ending.error,
                context.execution_id,
            )
        )

    def _completed(self, execution: Execution) -> None:
        self.notices.workflow_complete(execution.snapshot)

    def _detach(self, entry: LiveEntry) -> None:
        """Forget an entry, but not what it is doing."""
        self.entries.remove(entry)
        self._due.drop(entry.id)
        self.dependencies.forget(entry.id)
        self.executions.removed(entry.id)

    def _label(self, entry_id: EntryId) -> str:
        return self.entries.get(entry_id).label
