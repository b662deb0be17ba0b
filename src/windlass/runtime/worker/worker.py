"""Claims jobs, runs their handlers and reports the outcomes in batches.

A turn is one exchange with the database: it writes reports and log lines and claims jobs.

Invariants
  * At most `concurrency` handlers run. Claimed jobs start immediately; the worker prefetches nothing.
  * A report leaves memory only after its turn has committed. Reports are fenced, so sending one twice records it once.
  * At most `turns` turns are in flight, plus retries of reports whose rows were locked. Outcomes accumulate while
    turns commit: batches grow with the load, and an idle worker reports immediately.
Failure policy
  * Database unavailable: running handlers continue, reports are kept, turns are retried with backoff.
  * A turn that claimed has failed: its claim may have committed, so jobs leased to this worker are looked up and
    started.
  * Lease lost or job cancelled: the handler is stopped and its outcome is dropped.
  * Stop: no new claims; after `grace` handlers are cancelled and their jobs released without counting the attempt.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from windlass.core.jobs.job import Claimed, Fence, Report
from windlass.core.orgs import DEFAULT_ORG, owner
from windlass.effects.context import keep_lines
from windlass.effects.handlers import Handlers
from windlass.engine.database import Database
from windlass.engine.workers import turn
from windlass.engine.workers.turn import Lane, NewLogLine, OrgPages, Turn
from windlass.errors import Unavailable
from windlass.runtime.loops.loop import LONGEST_PAUSE, run_periodically
from windlass.runtime.metrics import EndedAttempt, WorkerMetrics, ended_attempt
from windlass.runtime.worker import WorkerOptions
from windlass.runtime.worker.attempts import Attempts, Stop
from windlass.runtime.worker.context_data import ContextData
from windlass.runtime.worker.heartbeat import Heartbeat, Leases, Registration, Watchdog
from windlass.runtime.worker.lanes import Lanes
from windlass.runtime.worker.types import ServedTypes

__all__ = ["Worker", "WorkerOptions"]

_log = logging.getLogger("windlass.worker")
LOCKED_PAUSE, MOST_NAMED = 5.0, 20  # seconds before a report of locked rows is sent again; job ids in one log line


class Worker:
    def __init__(self, db: Database, handlers: Handlers, options: WorkerOptions | None = None) -> None:
        self.options = options or WorkerOptions()
        self._db = db
        self._pages = OrgPages()
        self._types = ServedTypes(db, handlers, self.options, self._pages)
        self._lanes = Lanes(self._types.serves)
        self._context_data = ContextData(db, self.options.concurrency)
        self._attempts = Attempts(handlers, self.options.concurrency, self._ended, self._context_data)
        self._reports: list[Report] = []
        self._locked = 0  # reports waiting because another session has locked rows they need
        self._ends: list[EndedAttempt] = []
        self._turns: set[asyncio.Task[None]] = set()
        self.first_turn = asyncio.Event()  # set when a turn has ended
        self._claiming = 0
        self._hungry = False
        self._wakes = 0
        self._flowing = False  # the last claim was filled completely, so a second concurrent claim is worthwhile
        self._open = False  # registered, not draining, and not quieted by an operator
        self._orphaned = self.options.is_handed_over  # jobs may be leased to this id and not run here: see `_adopt`
        self._draining = False
        self._dispatch_due = False
        self._pause = 0.0
        self._paused = False
        self._metrics = WorkerMetrics(self.options.id)
        self._born = time.monotonic()
        self._leases = Leases()
        self._registration = Registration(
            self.options.id, lease=self.options.lease, is_handed_over=self.options.is_handed_over
        )
        self._heartbeat = Heartbeat(db, self._leases, self._registration, learn=self._learn, obey=self._obey)

    @property
    def left(self) -> list[UUID]:
        """Jobs that the drain could neither report nor release; other workers get them when their leases expire."""
        return [id_ for id_, _ in self._leases.fences()]

    @property
    def stuck(self) -> int:
        """Number of handler threads that did not stop when cancelled; they keep the process from exiting."""
        return self._attempts.stuck

    async def run(self, stop: asyncio.Event, *, at_once: asyncio.Event | None = None) -> None:
        """Claim and run jobs until `stop` is set, then drain; `at_once` ends the grace period early."""
        keep_lines()
        over = asyncio.Event()
        periodic: list[tuple[Callable[[], Awaitable[None]], timedelta]] = [
            (self._register, timedelta(seconds=1)),
            (self._poll, self.options.poll),
            (self._types.refresh, self.options.registry_every),
        ]
        loops = [asyncio.create_task(run_periodically(tick, every=every, stop=over)) for tick, every in periodic]
        loops.append(asyncio.create_task(self._context_data.follow_progress(over, every=self.options.progress_every)))
        self._heartbeat.start(Watchdog(self.options.id, self._attempts.of_task))
        try:
            with self._db.subscribe(self._woken):
                await stop.wait()
                await self._drain(at_once or asyncio.Event())
        finally:
            over.set()
            await self._heartbeat.close()
            await asyncio.gather(*loops, return_exceptions=True)
            self._attempts.close()

    # Turns

    def _woken(self, topic: str) -> None:
        if topic == "cancel":
            self._heartbeat.look_soon()
        elif not topic or owner(topic)[1] in self.options.queues:
            self._pages.several |= owner(topic)[0] != DEFAULT_ORG
            self._lanes.woken(topic)
            self._wake()

    def _wake(self) -> None:
        self._wakes += 1
        self._hungry = True
        self._stir()

    def _stir(self) -> None:
        """Schedule `_dispatch` to run after the callbacks that are ready now; further calls until then do nothing."""
        if not self._dispatch_due:
            self._dispatch_due = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatch_due = False
        while len(self._turns) < self.options.turns and not self._paused:
            count = self._room()
            if not (self._reports or self._attempts.lines or count):
                return
            reports, self._reports = self._reports, []
            lines = [self._attempts.lines.popleft() for _ in range(len(self._attempts.lines))]
            self._start_turn(reports, lines, count)

    def _start_turn(self, reports: list[Report], lines: list[NewLogLine], count: int) -> None:
        self._claiming += count
        task = asyncio.create_task(self._turn(reports, lines, count))
        self._turns.add(task)
        task.add_done_callback(self._turned)

    def _turned(self, task: "asyncio.Task[None]") -> None:
        self._turns.discard(task)
        self.first_turn.set()
        self._stir()

    def _room(self) -> int:
        """Return how many jobs the next turn may claim.

        A second turn claims concurrently only while claims are filled completely, and never while there may be orphans:
        `_adopt` requires that no other turn is claiming.
        """
        if not (self._open and self._hungry) or (self._claiming and (self._orphaned or not self._flowing)):
            return 0
        return max(0, min(self._attempts.free - self._claiming, self.options.batch))

    async def _turn(self, reports: list[Report], lines: list[NewLogLine], count: int) -> None:
        wakes = self._wakes
        try:
            short = await self._exchange(reports, lines, count)
            self._pause = 0.0
        except Exception as error:
            # No outcome may be lost: keep the reports and lines, in order, for the next turn.
            self._reports = reports + self._reports
            self._attempts.lines.extendleft(reversed(lines))
            self._back_off(error)
            return
        finally:
            self._claiming -= count
        # After a wake-up during the turn, claim again before searching for lanes. An overdue search comes after the
        # claim, so that no job waits for it.
        if (short and wakes == self._wakes) or (count and self._lanes.search_due(time.monotonic())):
            await asyncio.sleep(0)  # the handlers of the claimed jobs begin first
            try:
                await self._look()
            except Exception as error:
                self._back_off(error)

    def _known_lanes(self, count: int) -> Sequence[tuple[Lane, int]]:
        """Return the lanes to claim from. Types with a concurrency limit, and suspects, are offered only if no other
        turn is claiming: which jobs that turn will return is not known yet, so the limit could be exceeded."""
        only = self._claiming == count
        room = self._attempts.room if only else self._attempts.room_beside
        suspects = self._attempts.suspects.room if only else 0
        return self._lanes.offer(count, room, alone=suspects, now=time.monotonic())

    async def _exchange(self, reports: list[Report], lines: list[NewLogLine], count: int) -> bool:
        """Run one turn; return whether it claimed fewer jobs than `count` and the known lanes have no more."""
        adopting = bool(count) and self._orphaned
        if adopting:
            await self._adopt()
        offer = await self._offer(count) if count and not adopting else ()
        if not (reports or lines or offer):
            return False
        locked: list[Report] = []

        def expect_orphans() -> None:
            self._orphaned = True

        request = Turn(
            worker=self.options.id,
            lease=self.options.lease,
            worker_lease=self._registration.lease_id,
            reports=reports,
            lines=lines,
            lanes=offer,
            count=count,
            claim_failed=expect_orphans,
            no_room=partial(self._lanes.close, now=time.monotonic()),
            locked=locked.append,
        )
        claimed, recorded = await turn.turn(self._db, request)
        if locked:
            self._keep_for_later(locked)
            reports = [report for report in reports if report not in locked]
        self._leases.remove(report.job.fence for report in reports)
        if self._attempts.suspects.recorded(reports):
            self._wake()  # the next suspects may be claimed now
        self._begin(claimed)
        if len(recorded) < len(reports):
            refused = ", ".join(str(report.job.id) for report in reports if report.job.id not in recorded)
            _log.warning("the outcome of %s was refused: recorded already, cancelled, or the lease was lost", refused)
        ends, self._ends = self._ends, []
        self._metrics.ended(ends)
        if count:
            self._flowing = len(claimed) == count
        return len(claimed) < count and not self._lanes.claimed(offer, claimed)

    async def _offer(self, count: int) -> Sequence[tuple[Lane, int]]:
        known = () if self._lanes.search_first(time.monotonic()) else self._known_lanes(count)
        if known or not await self._look():
            return known
        return self._known_lanes(count)

    def _keep_for_later(self, reports: Sequence[Report]) -> None:
        """Send these reports again after LOCKED_PAUSE, in a turn of their own: another session has locked rows that
        they need. Their leases stay in `_leases`, so heartbeats continue."""
        _log.warning("%d reports wait: another session has locked rows that they need", len(reports))
        self._locked += len(reports)

        def again() -> None:
            self._locked -= len(reports)
            self._start_turn(list(reports), [], 0)

        asyncio.get_running_loop().call_later(LOCKED_PAUSE, again)

    async def _adopt(self) -> None:
        """Start jobs that a failed turn has claimed for this worker, or that the previous process with its id has left.

        No other turn claims at the same time (see `_room`), so a job leased to this worker but not in `_leases` is an
        orphan. That does not hold if another process uses the same worker id: then nothing is adopted.
        """
        if self._registration.exclusive:
            held = set(self._leases.fences())
            adopted = await turn.adopt(self._db, worker=self.options.id, held=held, lease=self.options.lease)
            if adopted:
                _log.warning("%d jobs are leased to this worker and do not run: starting them now", len(adopted))
            self._begin(adopted)
        self._orphaned = False

    def _begin(self, claimed: Sequence[Claimed]) -> None:
        self._leases.add(job.fence for job in claimed)
        for job in claimed:
            self._attempts.start(job)
        self._lanes.taken(claimed)
        if claimed:  # counted after the handlers have begun, which `start` has scheduled
            asyncio.get_running_loop().call_soon(self._metrics.claimed, [job.type for job in claimed])

    async def _look(self) -> bool:
        """Search the queues for lanes with due jobs; return whether there are any.

        If there are none, the worker waits for a wake-up. If the last search was too recent, nothing is searched and a
        wake-up is scheduled for when the next one is allowed.
        """
        started, wakes = time.monotonic(), self._wakes
        if rest := self._lanes.rest(started):
            self._hungry = False
            asyncio.get_running_loop().call_later(rest, self._wake)
            return False
        lanes = await turn.look(self._db, self.options.queues, self._types.search(), pages=self._pages)
        is_due = self._lanes.found(lanes, started=started, ended=time.monotonic())
        self._hungry = is_due or wakes != self._wakes  # the search may have missed jobs that arrived during it
        return is_due

    def _back_off(self, error: Exception) -> None:
        self._metrics.erred(error)
        if not isinstance(error, Unavailable):
            _log.error("a turn failed: trying again", exc_info=error)
        # With `recovered` set the pool has already logged the outage, once for the process.
        elif not self._pause and error.recovered is None:
            _log.warning("%s; running jobs continue, their reports are kept", error)
        self._pause = min(LONGEST_PAUSE, max(0.1, self._pause * 2))
        self._paused = True
        asyncio.get_running_loop().call_later(self._pause * random.uniform(0.8, 1.2), self._resume)

    def _resume(self) -> None:
        self._paused = False
        self._wake()

    def _ended(self, job: Claimed, report: Report | None, seconds: float) -> None:
        if report is not None:
            self._reports.append(report)
            self._ends.append(ended_attempt(report, seconds))
            self._hungry = self._hungry or job.run_id is not None  # this report may make the run's next step due
        else:
            self._leases.remove([job.fence])
        self._stir()

    # Periodic work

    async def _poll(self) -> None:
        """Wake the worker. Correctness rests on this poll: notifications only shorten the wait."""
        self._metrics.polled(time.time(), time.monotonic() - self._born)
        if not self._attempts.tasks():
            self._lanes.distrust()  # idle: search for lanes instead of claiming from lanes that were empty
        self._wake()

    def _learn(self, lost: Sequence[Fence], cancelled: Sequence[Fence]) -> None:
        """Stop the attempts that lost their lease (`lost`) or whose run was cancelled (`cancelled`)."""
        self._attempts.cancel(cancelled)
        for id_, _ in self._attempts.lose(lost):
            _log.info("job %s was cancelled or its lease lost: stopping its handler", id_)

    # Start and shutdown

    async def _register(self) -> None:
        """Register the worker once; nothing is claimed before that. Afterwards heartbeats keep the row current."""
        if self._registration.done:
            return
        await self._types.register(self._registration)
        self._open = not self._draining  # the stop may have come during registration
        self._wake()
        await self._types.publish()

    def _obey(self, directive: str | None) -> None:
        """Apply an operator's directive: stop claiming (`quiet`, `terminate`) or claim again (None).

        Running jobs finish in either case. Ending the process is left to its supervisor.
        """
        is_open = directive is None and not self._draining
        if is_open != self._open and not self._draining:
            _log.info("an operator %s this worker", "resumed" if is_open else "quieted")
            self._open = is_open
            self._registration.state = "running" if is_open else "draining"
            self._wake()

    async def _drain(self, at_once: asyncio.Event) -> None:
        self._open, self._draining, self._registration.state = False, True, "draining"
        self._attempts.detach()
        _log.info("draining: %d jobs are running", len(self._attempts))
        hurry = asyncio.ensure_future(at_once.wait())
        deadline = time.monotonic() + self.options.grace.total_seconds()
        while self._occupied and not hurry.done() and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait([hurry, *self._under_way()], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        deadline = time.monotonic() + 5
        while self._occupied and (left := deadline - time.monotonic()) > 0:
            self._attempts.stop_all(Stop.DRAIN)  # in every round: a claim in flight may have started more
            await asyncio.wait(self._under_way(), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        await self._flush(deadline=time.monotonic() + 5)

    @property
    def _occupied(self) -> bool:
        """Whether jobs are running, or a claim in flight may still bring some."""
        return bool(len(self._attempts) or self._claiming)

    def _under_way(self) -> list["asyncio.Task[None]"]:
        return [*self._attempts.tasks(), *self._turns]

    async def _flush(self, *, deadline: float) -> None:
        """Write the last reports until `deadline`; log the jobs whose reports could not be written: they run again
        when their leases expire."""
        while (self._reports or self._turns or self._locked) and time.monotonic() < deadline:
            self._paused = False
            self._dispatch()
            if self._turns:
                await asyncio.wait(tuple(self._turns), timeout=1)
            if self._reports or self._locked:
                await asyncio.sleep(0.1)
        await self._heartbeat.close()  # before the final state is written: a heartbeat would overwrite it
        await asyncio.wait({asyncio.ensure_future(self._record_stop())}, timeout=5)
        if left := self.left:
            names = ", ".join(map(str, left[:MOST_NAMED])) + (", ..." if len(left) > MOST_NAMED else "")
            text = "%d jobs could neither be reported nor released: they run again when their leases (%s) expire: %s"
            _log.error(text, len(left), self.options.lease, names)

    async def _record_stop(self) -> None:
        with contextlib.suppress(Unavailable):
            await self._context_data.write_progress()
            await self._registration.record_stop(self._db)
