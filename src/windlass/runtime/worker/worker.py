"""The worker: claims jobs, runs their handlers, reports in natural batches.

Invariants
  * At most `concurrency` handlers run; what is claimed starts at once, nothing is hoarded.
  * A report leaves memory only when its turn was committed; it is fenced, so saying it twice records it once.
  * At most `turns` turns are under way. While they commit, outcomes gather for the next: batches grow with the load,
    and an idle worker reports at once.
Failure policy
  * Database gone: keep running what runs, keep the reports, try again with growing pauses.
  * A turn that claimed failed: jobs that it may have claimed all the same are looked for and started.
  * Lease lost or job cancelled: the handler is told to stop and its outcome is dropped.
  * Stop: no new claims, `grace` to finish, then handlers are cancelled and their jobs handed back uncharged.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from windlass.core.jobs.job import Claimed, Fence, JobMove, Report, Setback
from windlass.effects.context import keep_lines
from windlass.effects.handlers import Handlers, like
from windlass.engine.database import Database
from windlass.engine.workers import orphans, turn
from windlass.engine.workers.turn import Lane, Line, Turn
from windlass.errors import Unavailable
from windlass.runtime.loops.loop import LONGEST_PAUSE, run_periodically
from windlass.runtime.metrics import WorkerMetrics
from windlass.runtime.worker.attempts import Attempts, Stop
from windlass.runtime.worker.context_data import ContextData
from windlass.runtime.worker.heartbeat import Heartbeat
from windlass.runtime.worker.lanes import Lanes, served
from windlass.runtime.worker.leases import Leases
from windlass.runtime.worker.options import WorkerOptions
from windlass.runtime.worker.registration import Registration
from windlass.runtime.worker.upstreams import Upstreams
from windlass.runtime.worker.watchdog import Watchdog

__all__ = ["Worker", "WorkerOptions"]

_log = logging.getLogger("windlass.worker")
LOCKED_PAUSE = 5.0  # seconds until a report is sent again whose row is locked
MOST_NAMED = 20  # jobs that a log line names


class Worker:
    def __init__(self, db: Database, handlers: Handlers, options: WorkerOptions | None = None) -> None:
        self.options = options or WorkerOptions()
        self._db = db
        self._handlers = handlers
        self._wanted = [like(prefix) for prefix in self.options.prefixes]
        self._registry: dict[str, tuple[str, bool]] = {}
        self._lanes = Lanes(self.serves)
        self._context_data = ContextData(db, self.options.concurrency)
        self._attempts = Attempts(
            handlers, self.options.concurrency, self._ended, Upstreams(db).prepare, self._context_data
        )
        self._reports: list[Report] = []
        self._locked = 0  # reports that wait because another session keeps their rows locked
        self._ends: list[tuple[str, str, int, float]] = []
        self._turns: set[asyncio.Task[None]] = set()
        self._claiming = 0
        self._hungry = False
        self._wakes = 0
        self._flowing = False  # the last claim got all it asked for, so a second one beside it is worth its while
        self._open = False  # registered, and not yet draining
        self._orphaned = False  # a turn that claimed has failed: there may be jobs leased to us that nobody runs
        self._draining = False
        self._dispatch_due = False
        self._pause = 0.0
        self._paused = False
        self._metrics = WorkerMetrics(self.options.id)
        self._born = time.monotonic()
        self._leases = Leases()
        self._registration = Registration(self.options.id)
        self._heartbeat = Heartbeat(
            db, self._leases, self._registration, lease=self.options.lease, learn=self._learn, obey=self._obey
        )

    @property
    def left(self) -> list[UUID]:
        """Jobs that the drain could neither report nor hand back: others get them when their leases run out."""
        return [id_ for id_, _ in self._leases.fences()]

    @property
    def stuck(self) -> int:
        """Threads that did not stop when told: they keep a process from ending by itself."""
        return self._attempts.stuck

    async def run(self, stop: asyncio.Event, *, at_once: asyncio.Event | None = None) -> None:
        """Work until `stop`, then drain; `at_once` cuts the drain short."""
        keep_lines()
        over = asyncio.Event()
        loops = [
            asyncio.create_task(run_periodically(self._poll, every=self.options.poll, stop=over)),
            asyncio.create_task(run_periodically(self._register, every=timedelta(seconds=1), stop=over)),
            asyncio.create_task(run_periodically(self._read_registry, every=self.options.registry_every, stop=over)),
            asyncio.create_task(
                run_periodically(self._context_data.tell, every=self.options.progress_every, stop=over)
            ),
        ]
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

    def serves(self, type_: str) -> bool:
        """Is this type ours: a handler, a wanted prefix, and not registered to another runtime or switched off?"""
        runtime, enabled = self._registry.get(type_, (self.options.runtime, True))
        return (
            enabled
            and runtime == self.options.runtime
            and self._handlers.find(type_) is not None
            and (not self._wanted or any(pattern.fullmatch(type_) for pattern in self._wanted))
        )

    # Turns

    def _woken(self, topic: str) -> None:
        if topic == "cancel":
            self._heartbeat.look_soon()
        elif not topic or topic in self.options.queues:
            self._wake()

    def _wake(self) -> None:
        self._wakes += 1
        self._hungry = True
        self._stir()

    def _stir(self) -> None:
        """Something changed: look soon, once, after everything that is ready now has run."""
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

    def _start_turn(self, reports: list[Report], lines: list[Line], count: int) -> None:
        self._claiming += count
        task = asyncio.create_task(self._turn(reports, lines, count))
        self._turns.add(task)
        task.add_done_callback(self._turned)

    def _turned(self, task: "asyncio.Task[None]") -> None:
        self._turns.discard(task)
        self._stir()

    def _room(self) -> int:
        if not (self._open and self._hungry) or (self._claiming and (self._orphaned or not self._flowing)):
            return 0
        return max(0, min(self._attempts.free - self._claiming, self.options.batch))

    async def _turn(self, reports: list[Report], lines: list[Line], count: int) -> None:
        wakes = self._wakes
        try:
            short = await self._exchange(reports, lines, count)
            self._pause = 0.0
        except Exception as error:
            # Nothing that was done may be lost: the reports stay for the next turn, and a defect is loud.
            self._reports = reports + self._reports
            self._attempts.lines.extendleft(reversed(lines))
            self._back_off(error)
            return
        finally:
            self._claiming -= count
        if short and wakes == self._wakes:  # woken meanwhile: claim again before looking around
            await self._look_around()

    def _known_lanes(self, count: int) -> Sequence[tuple[Lane, int]]:
        """What is limited, a type or suspects, is claimed by one turn at a time: what the other brings is not known."""
        only = self._claiming == count

        def room(type_: str) -> int | None:
            free = self._attempts.room(type_)
            return free if free is None or only else 0

        return self._lanes.offer(count, room, alone=self._attempts.suspects.room if only else 0)

    async def _exchange(self, reports: list[Report], lines: list[Line], count: int) -> bool:
        """One turn with the database; says whether it brought fewer jobs than there is room for."""
        adopting = bool(count) and self._orphaned
        if adopting:
            await self._adopt()
        offer = await self._offer(count) if count and not adopting else ()
        if not (reports or lines or offer):
            return False
        locked: list[Report] = []
        wish = Turn(
            worker=self.options.id,
            lease=self.options.lease,
            reports=reports,
            lines=lines,
            lanes=offer,
            count=count,
            claim_failed=self._expect_orphans,
            locked=locked.append,
        )
        claimed, recorded = await turn.turn(self._db, wish)
        if locked:
            self._keep_for_later(locked)
            reports = [report for report in reports if report not in locked]
        self._leases.remove(report.job.fence for report in reports)
        if self._attempts.suspects.recorded(reports):
            self._wake()  # the next of them may be claimed now
        self._begin(claimed)
        if len(recorded) < len(reports):
            refused = ", ".join(str(report.job.id) for report in reports if report.job.id not in recorded)
            _log.warning("the outcome of %s was refused: recorded already, cancelled, or the lease was lost", refused)
        ends, self._ends = self._ends, []
        self._metrics.ended(ends)
        if count:
            self._flowing = len(claimed) == count
        return len(claimed) < count

    async def _offer(self, count: int) -> Sequence[tuple[Lane, int]]:
        now = time.monotonic()
        overdue = self._lanes.stale(now) and not self._lanes.rest(now)
        known = () if overdue else self._known_lanes(count)
        if known or not await self._look():
            return known
        return self._known_lanes(count)

    def _keep_for_later(self, reports: Sequence[Report]) -> None:
        """Report again in a while, apart from all others: another session keeps rows locked that these need. Heartbeats
        go on for them."""
        _log.warning("%d reports wait: another session keeps rows locked that they need", len(reports))
        self._locked += len(reports)

        def again() -> None:
            self._locked -= len(reports)
            self._start_turn(list(reports), [], 0)

        asyncio.get_running_loop().call_later(LOCKED_PAUSE, again)

    def _expect_orphans(self) -> None:
        self._orphaned = True

    async def _adopt(self) -> None:
        """Start jobs that a failed turn claimed for this worker. No other turn claims meanwhile: see `_room`."""
        if self._registration.exclusive:
            held = set(self._leases.fences())
            adopted = await orphans.adopt(self._db, worker=self.options.id, held=held)
            if adopted:
                _log.warning("%d jobs were claimed by a turn that failed: starting them now", len(adopted))
            self._begin(adopted)
        self._orphaned = False

    def _begin(self, claimed: Sequence[Claimed]) -> None:
        self._leases.add(job.fence for job in claimed)
        self._lanes.taken(claimed)
        self._metrics.claimed(job.type for job in claimed)
        for job in claimed:
            self._attempts.start(job)

    async def _look(self) -> bool:
        """Find lanes anew. Nothing found: wait for a wake-up. Looked just now: come back when a look is due again."""
        started, wakes = time.monotonic(), self._wakes
        if rest := self._lanes.rest(started):
            self._hungry = False
            asyncio.get_running_loop().call_later(rest, self._wake)
            return False
        lanes = await turn.look(self._db, self.options.queues, served(self._handlers.types(), self.serves))
        found = self._lanes.found(lanes, started=started, ended=time.monotonic())
        self._hungry = found or wakes != self._wakes  # what came during the look may not be in it
        return found

    async def _look_around(self) -> None:
        try:
            await self._look()
        except Exception as error:
            self._back_off(error)

    def _back_off(self, error: Exception) -> None:
        self._metrics.erred(error)
        if not isinstance(error, Unavailable):
            _log.error("a turn failed: trying again", exc_info=error)
        # An outage is logged once for the process, where it is found.
        elif not self._pause and error.recovered is None:
            _log.warning("%s; running jobs go on, their reports wait", error)
        self._pause = min(LONGEST_PAUSE, max(0.1, self._pause * 2))
        self._paused = True
        asyncio.get_running_loop().call_later(self._pause * random.uniform(0.8, 1.2), self._resume)

    def _resume(self) -> None:
        self._paused = False
        self._wake()

    def _ended(self, job: Claimed, report: Report | None, seconds: float) -> None:
        if report is not None:
            self._reports.append(report)
            status = "succeeded"
            if isinstance(report, Setback):
                status = "failed" if report.move is JobMove.FAIL else "pending"
                _tell(report)
            self._ends.append((job.type, status, job.number, seconds))
            self._hungry = self._hungry or job.run_id is not None  # the next step may be there right after the report
        else:
            self._leases.remove([job.fence])
        self._stir()

    # Beats

    async def _poll(self) -> None:
        """NOTIFY only shortens the wait; this is the truth."""
        self._metrics.polled(time.time(), time.monotonic() - self._born)
        if not self._attempts.tasks():
            self._lanes.distrust()  # idle: a look tells more than a claim from lanes that were empty
        self._wake()

    def _learn(self, lost: Sequence[Fence], asked: Sequence[Fence]) -> None:
        """Heartbeats found out that leases are lost, and that runs were cancelled."""
        self._attempts.ask(asked)
        for id_, _ in self._attempts.lose(lost):
            _log.info("job %s was cancelled or its lease lost: its handler is told to stop", id_)

    async def _read_registry(self) -> None:
        self._registry = await turn.registry(self._db)

    # Beginning and end

    async def _register(self) -> None:
        """Register once; nothing is claimed before. Heartbeats send the signs of life after that."""
        if self._registration.done:
            return
        await self._read_registry()
        types = [type_ for type_ in self._handlers.types() if "%" in type_ or self.serves(type_)]
        await self._registration.register(
            self._db, queues=self.options.queues, types=types, concurrency=self.options.concurrency
        )
        self._open = not self._draining  # the stop may come while we register
        self._wake()

    def _obey(self, wish: str | None) -> None:
        """Quiet: it claims nothing, and finishes what it has. To end is its supervisor's business."""
        is_open = wish is None and not self._draining
        if is_open != self._open and not self._draining:
            _log.info("an operator wants this worker to claim %s", "again" if is_open else "nothing")
            self._open = is_open
            self._registration.state = "running" if is_open else "draining"
            self._wake()

    async def _drain(self, at_once: asyncio.Event) -> None:
        self._open, self._draining, self._registration.state = False, True, "draining"
        _log.info("draining: %d jobs are running", len(self._attempts))
        hurry = asyncio.ensure_future(at_once.wait())
        deadline = time.monotonic() + self.options.grace.total_seconds()
        while self._occupied and not hurry.done() and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait([hurry, *self._under_way()], timeout=left, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        deadline = time.monotonic() + 5
        while self._occupied and (left := deadline - time.monotonic()) > 0:
            self._attempts.stop_all(Stop.DRAIN)  # again and again: a claim may bring more
            await asyncio.wait(self._under_way(), timeout=left, return_when=asyncio.FIRST_COMPLETED)
        await self._flush(deadline=time.monotonic() + 5)

    @property
    def _occupied(self) -> bool:
        """Jobs run, or a claim that was on its way when the stop came may still bring some."""
        return bool(len(self._attempts) or self._claiming)

    def _under_way(self) -> list["asyncio.Task[None]"]:
        return [*self._attempts.tasks(), *self._turns]

    async def _flush(self, *, deadline: float) -> None:
        """Write the last reports; what cannot be written is left to the leases, and said."""
        while (self._reports or self._turns or self._locked) and time.monotonic() < deadline:
            self._paused = False
            self._dispatch()
            if self._turns:
                await asyncio.wait(tuple(self._turns), timeout=1)
            if self._reports or self._locked:
                await asyncio.sleep(0.1)
        await self._heartbeat.close()  # or it would overwrite the state that is written now
        await asyncio.wait({asyncio.ensure_future(self._say_stopped())}, timeout=5)
        if left := self.left:
            _log.error(
                "%d jobs could neither be reported nor handed back: they run again when their leases (%s) are over: %s",
                len(left),
                self.options.lease,
                ", ".join(map(str, left[:MOST_NAMED])) + (", ..." if len(left) > MOST_NAMED else ""),
            )

    async def _say_stopped(self) -> None:
        with contextlib.suppress(Unavailable):
            await self._context_data.tell()
            await turn.seen(self._db, id_=self.options.id, state="stopped", active=0)


def _tell(report: Setback) -> None:
    if report.error is not None:
        job = report.job
        ending = "failed" if report.move is JobMove.FAIL else f"again in {report.delay.total_seconds():.1f} s"
        _log.warning("job %s (%s) attempt %d: %s; %s", job.id, job.type, job.number, report.error["message"], ending)
