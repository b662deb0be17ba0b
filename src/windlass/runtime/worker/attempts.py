"""Runs a worker's attempts: starts handlers, enforces timeouts, stops handlers and converts outcomes into reports."""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from uuid import UUID

from windlass.core.jobs.job import Cancelled, Claimed, Fence, JobMove, Outcome, Released, Report, Setback, after
from windlass.core.json_value import decode
from windlass.core.orgs import owner
from windlass.effects.context import Context, enter
from windlass.effects.handlers import Handler, Handlers, perform
from windlass.effects.outcomes import failed, timed_out
from windlass.effects.tracing import span, tracer
from windlass.engine.workers.turn import NewLogLine
from windlass.runtime.worker.context_data import ContextData
from windlass.runtime.worker.lanes import Suspects

_log = logging.getLogger("windlass.worker")
MARGIN = 5.0  # extra seconds for a handler that enforces its timeout itself (`keeps_time`)
PATIENCE = 5.0  # seconds that a new claim of a job waits for the earlier attempt to stop, before it is released
STILL_RUNNING = Released(
    "an earlier attempt is still running on this worker and cannot be stopped", timedelta(seconds=5)
)


class Stop(Enum):
    """Why a running handler is stopped."""

    TIMEOUT = "timeout"
    LOST = "lost"  # the job was cancelled or its lease expired: this worker no longer owns the row
    CANCELLED = "cancelled"  # its run was cancelled: this worker still owns the row, and the actual outcome is recorded
    DRAIN = "drain"
    DETACH = "detach"  # the worker stops, the launched job continues: another process takes over the lease


@dataclass(slots=True, eq=False)
class Attempt:
    job: Claimed
    handler: Handler
    context: Context
    started: float
    timeout: timedelta | None
    task: "asyncio.Task[None] | None" = None
    timer: asyncio.TimerHandle | None = None
    stop: Stop | None = None
    begun: bool = False

    def end(self, why: Stop) -> None:
        if why is Stop.CANCELLED and not self.handler.is_async:
            self.context.cancel()  # a thread cannot be stopped: it may check the flag, and its outcome is recorded
        elif self.stop is None and self.task is not None:
            self.stop = why
            self.context._detached = why is Stop.DETACH
            self.context.cancel()
            # A task that is cancelled before its first step never executes `_run`, and so would never report.
            if self.begun:
                self.task.cancel()


class Attempts:
    """The attempts of one worker. At most one attempt of a job runs at a time.

    A job may be claimed again while an attempt of an earlier claim still runs here: its lease was lost. The earlier
    attempt is then stopped, and the new one starts when it has ended. If the handler does not stop (a thread cannot be
    stopped, a coroutine may ignore its cancellation), the new claim is released without counting the attempt.

    `ended` is called exactly once for each claim passed to `start`, with the job, its report (None if the outcome is
    dropped) and the seconds since `start`.
    """

    def __init__(
        self,
        handlers: Handlers,
        concurrency: int,
        ended: Callable[[Claimed, Report | None, float], None],
        context_data: ContextData,
    ) -> None:
        self._context_data = context_data
        self.lines: deque[NewLogLine] = deque()  # handlers' log lines; appended from any thread
        self._handlers = handlers
        self._concurrency = concurrency
        self._ended = ended
        self._running: dict[UUID, Attempt] = {}
        self._waiting: dict[UUID, Attempt] = {}  # not started: the earlier attempt of the same job still runs
        self._per_handler: Counter[str] = Counter()
        self.suspects = Suspects()
        self._threads = context_data.threads
        self._tracer = tracer()
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    @property
    def free(self) -> int:
        return self._concurrency - len(self) - self._threads.abandoned

    @property
    def stuck(self) -> int:
        """Number of handler threads that did not stop when cancelled."""
        return self._threads.abandoned

    def room(self, type_: str) -> int | None:
        """Return how many more jobs of this type may run; None if its handler has no concurrency limit."""
        handler = self._handlers.find(type_)
        if handler is None or handler.concurrency is None:
            return None
        return handler.concurrency - self._per_handler[handler.type]

    def room_beside(self, type_: str) -> int | None:
        """Return the room of a type while another turn is claiming: 0 if its handler has a concurrency limit."""
        return None if self.room(type_) is None else 0

    def start(self, job: Claimed) -> None:
        handler = self._handlers.find(job.type)
        assert handler is not None  # only lanes of served types are claimed
        org, queue = owner(job.queue)
        context = Context(
            job.id,
            job.type,
            job.number,
            job.max_attempts,
            queue,
            job.priority,
            job.claim_no,
            job.created_at,
            {},
            self.lines.append,
        )
        timeout = job.timeout or handler.timeout
        context.epoch, context.timeout, context._context_data = job.epoch, timeout, self._context_data
        context.org, context._job = org, job
        attempt = Attempt(job, handler, context, time.monotonic(), timeout)
        self._per_handler[handler.type] += 1
        if job.alone:
            self.suspects.add(job)
        if job.id in self._running or self._threads.occupied_by(job.id):
            self._queue(attempt)
        else:
            self._begin(attempt)

    def lose(self, fences: Iterable[Fence]) -> list[Fence]:
        """Stop attempts whose lease is lost or whose job was cancelled; return those not yet known to be lost."""
        known = [attempt for fence in fences if (attempt := self._find(fence)) and attempt.stop is not Stop.LOST]
        for attempt in known:
            self._stop(attempt, Stop.LOST)
        return [attempt.job.fence for attempt in known]

    def cancel(self, fences: Iterable[Fence]) -> None:
        """Stop attempts whose runs were cancelled; their outcomes are still recorded."""
        for fence in fences:
            if attempt := self._find(fence):
                self._stop(attempt, Stop.CANCELLED)

    def stop_all(self, why: Stop) -> None:
        for attempt in (*self._waiting.values(), *self._running.values()):
            self._stop(attempt, why)

    def detach(self) -> None:
        """Stop the attempts whose launched jobs continue without this process; they keep their leases."""
        for attempt in (*self._waiting.values(), *self._running.values()):
            if attempt.handler.is_detached:
                self._stop(attempt, Stop.DETACH)

    def tasks(self) -> list["asyncio.Task[None]"]:
        return [attempt.task for attempt in self._running.values() if attempt.task is not None]

    def of_task(self, task: object) -> Claimed | None:
        """Return the job whose handler this task runs. May be called from any thread."""
        running = tuple(self._running.values())
        return next((attempt.job for attempt in running if attempt.task is task), None)

    def close(self) -> None:
        self._threads.close()

    def _find(self, fence: Fence) -> Attempt | None:
        attempts = self._running.get(fence[0]), self._waiting.get(fence[0])
        return next((attempt for attempt in attempts if attempt is not None and attempt.job.fence == fence), None)

    def _queue(self, attempt: Attempt) -> None:
        """Stop the earlier attempt of the job and keep this claim waiting until it has ended.

        Only the claim with the highest number is kept: an older one ends without a report.
        """
        job, earlier = attempt.job, self._running.get(attempt.job.id)
        latest = self._waiting.get(job.id) or earlier
        if latest is not None and latest.job.claim_no > job.claim_no:  # two turns returned in reverse order
            return self._end(attempt, None)
        if waiting := self._waiting.pop(job.id, None):
            self._end(waiting, None)
        if earlier is None:
            return self._end(attempt, STILL_RUNNING)  # its task has ended, but its thread has not
        _log.warning("job %s was claimed again while its earlier attempt runs: stopping that one first", job.id)
        self._waiting[job.id] = attempt
        attempt.timer = self._loop.call_later(PATIENCE, self._give_up, attempt)
        earlier.end(Stop.LOST)
        return None

    def _give_up(self, attempt: Attempt) -> None:
        """Release a waiting claim whose earlier attempt did not stop in time."""
        if self._waiting.get(attempt.job.id) is attempt:
            del self._waiting[attempt.job.id]
            self._end(attempt, STILL_RUNNING)

    def _begin(self, attempt: Attempt) -> None:
        self._running[attempt.job.id] = attempt
        attempt.task = task = self._loop.create_task(self._run(attempt))
        if attempt.handler.is_async:
            attempt.context._executor = task
        if attempt.timeout is not None and not attempt.handler.is_detached:
            patience = attempt.timeout.total_seconds() + (MARGIN if attempt.handler.keeps_time else 0)
            attempt.timer = self._loop.call_later(patience, attempt.end, Stop.TIMEOUT)

    def _stop(self, attempt: Attempt, why: Stop) -> None:
        if self._waiting.get(attempt.job.id) is attempt:
            del self._waiting[attempt.job.id]
            attempt.stop = why
            self._end(attempt, _meaning(attempt, asyncio.CancelledError()))
        else:
            attempt.end(why)

    async def _run(self, attempt: Attempt) -> None:
        outcome: Outcome | None
        attempt.begun = True
        try:
            if attempt.stop is not None:
                raise asyncio.CancelledError
            if self._tracer is None:
                outcome = await self._perform(attempt)
            else:
                with span(self._tracer, attempt.job):
                    outcome = await self._perform(attempt)
        except asyncio.CancelledError as error:
            outcome = _meaning(attempt, error)
        except Exception as error:
            outcome = failed(error)
        enter(None)  # what the worker logs from here on must not be attributed to the handler
        del self._running[attempt.job.id]
        try:
            self._end(attempt, outcome)
        finally:  # even if `_end` raises: the waiting claim holds a lease and must start or be released
            if following := self._waiting.pop(attempt.job.id, None):
                self._follow(following)

    async def _perform(self, attempt: Attempt) -> Outcome:
        payload = decode(attempt.job.payload)
        if attempt.job.meta is not None:
            attempt.context.meta = decode(attempt.job.meta)
        if attempt.job.run_id is not None and attempt.handler.wants_context:
            if isinstance(payload, dict):
                attempt.context.item = payload.get("item")
            await self._context_data.prepare(attempt.job, attempt.context, upstream=attempt.handler.wants_upstream)
        if attempt.job.claim_no > 1 and attempt.handler.wants_context:  # the first claim has nothing recorded
            attempt.context._recorded = await self._context_data.recorded(attempt.job.id)
        try:
            return await perform(attempt.handler, attempt.context, payload, self._threads)
        finally:
            if attempt.context._stream is not None:  # while the job is held: the fence refuses later chunks
                await self._context_data.streams.flush()

    def _follow(self, attempt: Attempt) -> None:
        """Start a waiting claim after the earlier attempt has ended; release it if that attempt's thread still runs."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        if self._threads.occupied_by(attempt.job.id):
            self._end(attempt, STILL_RUNNING)
        else:
            self._begin(attempt)

    def _end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Account for the end of an attempt, started or not, and pass its report on.

        Every attempt ends here exactly once: no other code decrements `_per_handler`.
        """
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._per_handler[attempt.handler.type] -= 1
        superseded = attempt.job.id in self._waiting
        report: Report | None = None
        if outcome is not None and attempt.stop not in (Stop.LOST, Stop.DETACH) and not superseded:
            try:
                report = after(attempt.job, outcome, attempt.handler.retry, random.random())
            except Exception as error:  # for example an invalid retry policy written by plain SQL: free the slot anyway
                report = Setback(attempt.job, JobMove.FAIL, failed(error).error, timedelta())
        if report is None:
            self.suspects.drop(attempt.job)
        elif isinstance(report, Setback):
            _log_setback(report)
        self._ended(attempt.job, report, time.monotonic() - attempt.started)


def _meaning(attempt: Attempt, error: BaseException) -> Outcome | None:
    """Return the outcome of a cancelled handler, by the reason it was stopped; None drops it."""
    match attempt.stop:
        case Stop.TIMEOUT:
            return timed_out(attempt.timeout or timedelta())
        case Stop.LOST | Stop.DETACH:
            return None
        case Stop.DRAIN:
            return Released()
        case Stop.CANCELLED:
            return Cancelled()
        case None:
            return failed(error)  # the handler awaited something that was cancelled


def _log_setback(report: Setback) -> None:
    if report.error is not None:
        job = report.job
        ending = "failed" if report.move is JobMove.FAIL else f"again in {report.delay.total_seconds():.1f} s"
        _log.warning("job %s (%s) attempt %d: %s; %s", job.id, job.type, job.number, report.error["message"], ending)
