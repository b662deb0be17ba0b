"""The heartbeat thread of a worker, with its own event loop and connection: extends leases, keeps the registration
current and watches whether the worker's event loop is blocked.

A process has one lease, which covers all jobs that it claims: one row is extended, however many jobs there are. Some
jobs have leases of their own, which are extended separately: those that were claimed while the lease of the process was
late or that the process took over, and all jobs of a worker whose id is handed from process to process.

A handler that blocks the worker's loop, or a pool without a free connection, must not cost other jobs their leases.
Lost leases, cancellation requests and an operator's directive are passed to the worker's loop.

Failure policy: a round in which the database is unavailable or too slow closes its connection, and the next round
opens a new one. Leases are extended at least every third of their length; leases of single jobs whose rows another
session had locked are tried again every 200 ms. A job under the lease of the process that the process does not run (the
result of its claim was lost) is moved to a lease of its own: otherwise the job would never be released.
"""

import asyncio
import contextlib
import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from windlass.core.jobs.job import Claimed, Fence
from windlass.effects.context import context_of
from windlass.engine.database import Database
from windlass.engine.workers import turn
from windlass.errors import Unavailable
from windlass.runtime.loops.loop import run_periodically
from windlass.runtime.metrics import loop_blocked_total

_log = logging.getLogger("windlass.worker")
SIGN_OF_LIFE = 10.0  # seconds; a worker counts as dead after three of these without an update of its row
SETTLING = 0.5  # seconds; younger claims are not checked, because most jobs end sooner
BLOCKED_AFTER = 1.0  # seconds after which a blocked event loop is logged
WATCH_EVERY = 0.25  # seconds
REMEDY = "write the handler as a plain function, which runs in a thread, or move the call to asyncio.to_thread"
# No claim takes as long: a job that has been under the lease for this time and does not run here is unknown.
UNKNOWN_AFTER = timedelta(seconds=5)
REST = 100  # the search for unknown jobs takes at most one hundredth of the time
AGAIN = timedelta(milliseconds=200)  # after rows were locked, or the database was unavailable

Learn = Callable[[Sequence[Fence], Sequence[Fence]], None]  # lost leases; jobs with a cancellation request


class Leases:
    """The set of leases that a worker keeps alive, shared by its event loop and its heartbeat thread.

    A lease is in the set from the moment its claim returns until the job's report is recorded (or its attempt ends
    without a report): while the job waits to start, while it runs, and while its report waits for a turn or is part of
    one. Whole batches are added and removed under the lock, so the event loop takes it once a turn, not once a job.
    """

    def __init__(self) -> None:
        self._claimed_at: dict[Fence, float] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._claimed_at)

    def add(self, fences: Iterable[Fence]) -> None:
        claimed = dict.fromkeys(fences, time.monotonic())
        with self._lock:
            self._claimed_at.update(claimed)

    def remove(self, fences: Iterable[Fence]) -> None:
        with self._lock:
            for fence in fences:
                self._claimed_at.pop(fence, None)

    def fences(self, *, older_than: float = 0.0) -> list[Fence]:
        """Return the fences of the leases claimed at least `older_than` seconds ago."""
        limit = time.monotonic() - older_than
        with self._lock:
            return [fence for fence, claimed_at in self._claimed_at.items() if claimed_at <= limit]


class Registration:
    """Registers a worker in `windlass.worker` and keeps its row current.

    A worker id should belong to one process, because reports are fenced by the id. An id given on the command line may
    be used twice by mistake; a process that sees another one under its id clears `exclusive` and adopts no orphaned
    claims. The lease belongs to the process, not to the id: a process never keeps the jobs of another one alive. If the
    id is handed over from process to process, there is no such lease, and each job has its own.
    """

    def __init__(self, worker: str, *, lease: timedelta, is_handed_over: bool = False) -> None:
        self.worker = worker
        self.lease = lease
        self.lease_id: int | None = None
        self.done = False
        self._is_handed_over = is_handed_over
        self.exclusive = True  # no other process was seen with this id
        self.state = "running"
        self._here = socket.gethostname(), os.getpid()

    async def register(self, db: Database, *, queues: Sequence[str], types: Sequence[str], concurrency: int) -> None:
        host, pid = self._here
        if not self._is_handed_over and self.lease_id is None:
            self.lease_id = await turn.open_lease(db, self.worker, lease=self.lease)
        other = await turn.register(
            db, id_=self.worker, host=host, pid=pid, queues=queues, types=types, concurrency=concurrency
        )
        if other is not None and other.alive:
            self._compare(other.host, other.pid)
        self.done = True

    async def extend(self, db: Database) -> None:
        """Extend the lease of this process."""
        if self.lease_id is not None:
            await turn.extend_lease(db, self.lease_id, self.worker, lease=self.lease)

    async def record_stop(self, db: Database) -> None:
        """Record that the worker has stopped."""
        await turn.seen(db, id_=self.worker, state="stopped", active=0)
        if self.lease_id is not None:
            await turn.close_lease(db, self.lease_id)

    async def touch(self, db: Database, *, active: int) -> str | None:
        """Update the worker's row; return the operator's directive: `quiet`, `terminate` or None."""
        row = await turn.seen(db, id_=self.worker, state=self.state, active=active)
        if row is None:
            return None
        self._compare(row.host, row.pid)
        return row.directive

    def _compare(self, host: str, pid: int) -> None:
        if (host, pid) != self._here and self.exclusive and not self._is_handed_over:
            self.exclusive = False
            _log.warning(
                "another process (%s, pid %d) uses the worker id %s, or did so until recently: give each worker "
                "its own id (--worker-id)",
                host,
                pid,
                self.worker,
            )


class Watchdog:
    """Detects that the event loop in which it was created is blocked, and logs which handler blocks it.

    An async handler that calls blocking code delays every other job of its worker: no lease is lost, but no job starts,
    ends or is reported until the handler returns. `tick` is called from the heartbeat thread.
    """

    def __init__(self, worker: str, job_of: Callable[[object], Claimed | None]) -> None:
        self._worker = worker
        self._job_of = job_of
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._asked = self._answered = self._ticked = time.monotonic()
        self._blocked = False

    def tick(self) -> None:
        """Schedule a callback in the loop; log once if the last one has not run for BLOCKED_AFTER seconds."""
        now = time.monotonic()
        paused, self._ticked = now - self._ticked > BLOCKED_AFTER, now
        # paused: this thread did not run either, so the whole process was suspended
        if self._answered >= self._asked or paused:
            self._asked, self._blocked = now, False
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._answer, now)
        elif now - self._asked >= BLOCKED_AFTER and not self._blocked:
            self._blocked = True
            self._report(now - self._asked)

    def _answer(self, at: float) -> None:
        self._answered = at

    def _report(self, seconds: float) -> None:
        type_, culprit = self._culprit()
        frame = sys._current_frames().get(self._thread)
        stack = "".join(traceback.format_stack(frame)) if frame is not None else "(it has just ended)"
        loop_blocked_total.labels(type_, self._worker).inc()
        _log.warning(
            "the event loop has been blocked for %.1f s by %s: no other job of this worker can proceed; %s\n%s",
            seconds,
            culprit,
            REMEDY,
            stack,
        )

    def _culprit(self) -> tuple[str, str]:
        """Return the type of the job whose task occupies the loop, and a description of it for the log."""
        task = asyncio.current_task(self._loop)
        if task is not None:
            if job := self._job_of(task):
                return job.type, f"the handler of {job.type} (job {job.id})"
            if context := context_of(task):
                return context.type, f"a task of the handler of {context.type} (job {context.id})"
        return "", "code outside of handlers"


class Heartbeat:
    """The heartbeat thread. `learn` and `obey` are called in the event loop in which this object was created."""

    def __init__(
        self,
        db: Database,
        leases: Leases,
        registration: Registration,
        *,
        learn: Learn,
        obey: Callable[[str | None], None],
    ) -> None:
        self._origin = db
        self._leases = leases
        self._registration = registration
        self._lease = registration.lease
        self._learn = learn
        self._obey = obey
        self._db: Database | None = None
        self._extend_at = self._part_at = float("-inf")
        self._locked: Sequence[Fence] = ()
        self._away = False
        self._home = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop, self._wake, self._ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def start(self, watchdog: Watchdog) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._main, args=(self._loop, watchdog), name="windlass-heartbeat", daemon=True).start()

    def look_soon(self) -> None:
        """Check now whether one of this worker's jobs was cancelled."""
        self._signal(self._wake)

    async def close(self, *, within: float = 5.0) -> None:
        """Stop the thread and wait for its end, at most `within` seconds. It is a daemon thread, so one that hangs in
        the network does not keep the process alive."""
        if self._loop is not None:
            self._signal(self._stop)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await self._ended.wait()

    async def tick(self) -> timedelta | None:
        """Extend the leases if that is due, else check which are still held; return the wait until the next tick."""
        # Not `wait_for`: it would wait for the cancelled round, which may hang in the network.
        round_ = asyncio.ensure_future(self._round())
        done, _ = await asyncio.wait({round_}, timeout=max(1.0, self._interval))
        try:
            if not done:
                raise Unavailable("the database did not answer in time")
            wait, self._away = round_.result(), False
            return wait
        except Unavailable as error:
            if not self._away and error.recovered is None:
                _log.warning("heartbeats cannot be sent: %s; trying again, leases last %s", error, self._lease)
            self._away = True
            await self._disconnect()
            if not round_.done():
                # Retrieve its exception, or asyncio logs that it was never retrieved.
                round_.add_done_callback(lambda late: late.cancelled() or late.exception())
                round_.cancel()
            return AGAIN

    @property
    def _interval(self) -> float:
        return min(SIGN_OF_LIFE, self._lease.total_seconds() / 3)

    async def _round(self) -> timedelta | None:
        if self._db is None:
            self._db = await self._origin.open_apart()
        started = time.monotonic()
        if started >= self._extend_at:
            await self._extend(self._db)
            self._extend_at = started + self._interval  # only now: a round that fails is repeated at once
            await self._touch(self._db)
            await self._part_unknown(self._db)
        elif self._locked:
            await self._extend_jobs(self._db, self._locked)
        else:
            await self._check(self._db, older_than=SETTLING)
        return AGAIN if self._locked else None

    async def _extend(self, db: Database) -> None:
        """Extend the lease of the process, then those of jobs with a lease of their own."""
        if self._registration.lease_id is None:
            await self._extend_jobs(db, self._leases.fences())
            return
        await self._registration.extend(db)
        held = await self._check(db)
        await self._extend_jobs(db, [lease.fence for lease in held if not lease.extended])

    async def _extend_jobs(self, db: Database, fences: Sequence[Fence]) -> None:
        """Extend the leases of single jobs, and remember the fences whose rows another session had locked."""
        self._locked = []
        if fences:
            held = await turn.heartbeat(db, fences, worker=self._registration.worker, lease=self._lease)
            self._locked = [lease.fence for lease in held if not lease.extended]
            self._notify(fences, held)

    async def _check(self, db: Database, *, older_than: float = 0.0) -> Sequence[turn.HeldLease]:
        """Notify the worker of lost leases and of cancellation requests; return the leases that it still holds."""
        fences = self._leases.fences(older_than=older_than)
        held = await turn.held(db, fences, worker=self._registration.worker) if fences else ()
        self._notify(fences, held)
        return held

    async def _part_unknown(self, db: Database) -> None:
        """Move jobs that the process does not run from its lease to leases of their own, which will expire.

        While an old snapshot keeps dead index entries alive, the search can be slow: then it is made less often.
        """
        started, lease_id = time.monotonic(), self._registration.lease_id
        if lease_id is None or started < self._part_at:
            return
        parted = await turn.part_unknown(
            db, lease_id, lambda: set(self._leases.fences()), older_than=UNKNOWN_AFTER, lease=self._lease
        )
        self._part_at = started + REST * (time.monotonic() - started)
        if parted:
            _log.warning(
                "%d jobs are leased to this process and do not run in it: their leases will expire", len(parted)
            )

    async def _touch(self, db: Database) -> None:
        if self._registration.done:
            directive = await self._registration.touch(db, active=len(self._leases))
            self._call_home(self._obey, directive)

    def _notify(self, fences: Sequence[Fence], held: Sequence[turn.HeldLease]) -> None:
        kept = {lease.fence for lease in held}
        lost = [fence for fence in fences if fence not in kept]
        cancelled = [lease.fence for lease in held if lease.cancel_requested]
        if lost or cancelled:
            self._call_home(self._learn, lost, cancelled)

    def _call_home(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._home.call_soon_threadsafe(function, *arguments)

    def _signal(self, event: asyncio.Event) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the thread has ended
                self._loop.call_soon_threadsafe(event.set)

    async def _disconnect(self) -> None:
        if self._db is not None:
            db, self._db = self._db, None
            db.pool.terminate()
            await db.pool.outage.close()  # the worker's own pool logs the outage

    def _main(self, loop: asyncio.AbstractEventLoop, watchdog: Watchdog) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._run(watchdog))
        finally:
            self._call_home(self._ended.set)

    async def _run(self, watchdog: Watchdog) -> None:
        async def watch() -> None:
            watchdog.tick()

        every = timedelta(seconds=min(1.0, self._interval))
        await asyncio.gather(
            run_periodically(self.tick, every=every, stop=self._stop, wake=self._wake),
            run_periodically(watch, every=timedelta(seconds=WATCH_EVERY), stop=self._stop),
        )
        if self._db is not None:
            await self._db.close()
