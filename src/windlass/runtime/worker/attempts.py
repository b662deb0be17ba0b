"""The attempts of a worker: starts handlers, enforces time limits, stops them and turns their ends into reports."""

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Protocol
from uuid import UUID

from windlass.core.jobs.job import Claimed, Fence, JobMove, Report, Setback, after
from windlass.core.jobs.outcome import Cancelled, Outcome, Released
from windlass.core.json_value import decode
from windlass.effects.context import Context, enter
from windlass.effects.handlers import Handler, Handlers, failed, perform, timed_out
from windlass.effects.tracing import span, tracer
from windlass.engine.workers.turn import Line
from windlass.runtime.worker.context_data import ContextData
from windlass.runtime.worker.suspects import Suspects

_log = logging.getLogger("windlass.worker")
MARGIN = 5.0  # seconds beyond its timeout for a handler that ends by itself
PATIENCE = 5.0  # seconds for an attempt that lost its lease to stop before a new claim of its job is handed back
STILL_RUNNING = Released(
    "an earlier attempt is still running on this worker and cannot be stopped", timedelta(seconds=5)
)


class Stop(Enum):
    """Why a running handler was told to stop."""

    TIMEOUT = "timeout"
    LOST = "lost"  # cancelled, or the lease ran out: the row is no longer ours
    ASKED = "asked"  # its run was cancelled: the row is ours, and what really becomes of it is recorded
    DRAIN = "drain"


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
        if why is Stop.ASKED and not self.handler.is_async:
            self.context.cancel()  # a thread cannot be stopped; it may look, and its end counts
        elif self.stop is None and self.task is not None:
            self.stop = why
            self.context.cancel()
            if self.begun:  # a task that is cancelled before its first step ends without a word
                self.task.cancel()


class Prepare(Protocol):
    """Fills in what a step's handler is told about its run."""

    async def __call__(self, job: Claimed, context: Context, *, upstream: bool) -> None: ...


class Attempts:
    """The attempts of one worker by job and claim number. A job has at most one that runs.

    A job may be claimed again while an attempt of an earlier claim still runs here: its lease was lost. The earlier
    attempt is then told to stop, and the new one begins when it is over. A handler that does not stop (a thread cannot
    be stopped, a coroutine may ignore its cancellation) keeps the new claim from running here: the job is handed back
    uncharged.

    `ended` is called once for each claim that was given to `start`: with the job, its report (None if the outcome no
    longer matters) and how long it ran.
    """

    def __init__(
        self,
        handlers: Handlers,
        concurrency: int,
        ended: Callable[[Claimed, Report | None, float], None],
        prepare: Prepare,
        context_data: ContextData,
    ) -> None:
        self._prepare = prepare
        self._context_data = context_data
        self.lines: deque[Line] = deque()  # what handlers logged; appended from any thread
        self._handlers = handlers
        self._concurrency = concurrency
        self._ended = ended
        self._running: dict[UUID, Attempt] = {}
        self._waiting: dict[UUID, Attempt] = {}  # for the earlier attempt of the same job to end
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
        """Threads that did not stop when told."""
        return self._threads.abandoned

    def room(self, type_: str) -> int | None:
        """How many more of this type may run; None: no limit of its own."""
        handler = self._handlers.find(type_)
        if handler is None or handler.concurrency is None:
            return None
        return handler.concurrency - self._per_handler[handler.type]

    def start(self, job: Claimed) -> None:
        handler = self._handlers.find(job.type)
        assert handler is not None  # only lanes we serve are claimed
        context = Context(
            job.id,
            job.type,
            job.number,
            job.max_attempts,
            job.queue,
            job.priority,
            job.claim_no,
            job.created_at,
            {},
            self.lines.append,
        )
        timeout = job.timeout or handler.timeout
        context.epoch, context.timeout, context._context_data = job.epoch, timeout, self._context_data
        attempt = Attempt(job, handler, context, time.monotonic(), timeout)
        self._per_handler[handler.type] += 1
        if job.alone:
            self.suspects.add(job)
        if job.id in self._running or self._threads.occupied_by(job.id):
            self._queue(attempt)
        else:
            self._begin(attempt)

    def lose(self, fences: Iterable[Fence]) -> list[Fence]:
        """Stop attempts whose lease is lost or whose job was cancelled; return those that were not stopped before."""
        known = [attempt for fence in fences if (attempt := self._find(fence)) and attempt.stop is not Stop.LOST]
        for attempt in known:
            self._stop(attempt, Stop.LOST)
        return [attempt.job.fence for attempt in known]

    def ask(self, fences: Iterable[Fence]) -> None:
        """Ask attempts to stop whose runs were cancelled."""
        for fence in fences:
            if attempt := self._find(fence):
                self._stop(attempt, Stop.ASKED)

    def stop_all(self, why: Stop) -> None:
        for attempt in (*self._waiting.values(), *self._running.values()):
            self._stop(attempt, why)

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
        """Let a claim wait for the earlier attempt of its job to stop."""
        job, earlier = attempt.job, self._running.get(attempt.job.id)
        latest = self._waiting.get(job.id) or earlier
        if latest is not None and latest.job.claim_no > job.claim_no:  # the answers of two turns overtook each other
            return self._end(attempt, None)
        if waiting := self._waiting.pop(job.id, None):
            self._end(waiting, None)
        if earlier is None:
            return self._end(attempt, STILL_RUNNING)  # in a thread
        _log.warning("job %s was claimed again while its earlier attempt runs: stopping that one first", job.id)
        self._waiting[job.id] = attempt
        attempt.timer = self._loop.call_later(PATIENCE, self._give_up, attempt)
        earlier.end(Stop.LOST)
        return None

    def _give_up(self, attempt: Attempt) -> None:
        """The earlier attempt did not stop in time."""
        if self._waiting.get(attempt.job.id) is attempt:
            del self._waiting[attempt.job.id]
            self._end(attempt, STILL_RUNNING)

    def _begin(self, attempt: Attempt) -> None:
        self._running[attempt.job.id] = attempt
        attempt.task = self._loop.create_task(self._run(attempt))
        if attempt.timeout is not None:
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
        enter(None)  # what the worker logs from here on is not the handler's
        del self._running[attempt.job.id]
        try:
            self._end(attempt, outcome)
        finally:
            if following := self._waiting.pop(attempt.job.id, None):
                self._follow(following)

    async def _perform(self, attempt: Attempt) -> Outcome:
        payload = decode(attempt.job.payload)
        if attempt.job.meta is not None:
            attempt.context.meta = decode(attempt.job.meta)
        if attempt.job.run_id is not None and attempt.handler.wants_context:
            if isinstance(payload, dict):
                attempt.context.item = payload.get("item")
            await self._prepare(attempt.job, attempt.context, upstream=attempt.handler.wants_upstream)
        return await perform(attempt.handler, attempt.context, payload, self._threads)

    def _follow(self, attempt: Attempt) -> None:
        """The earlier attempt of the same job is over, unless its thread goes on without it."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        if self._threads.occupied_by(attempt.job.id):
            self._end(attempt, STILL_RUNNING)
        else:
            self._begin(attempt)

    def _end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """Forget an attempt, begun or not, and pass its report on. The only place where counters go down."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._per_handler[attempt.handler.type] -= 1
        superseded = attempt.job.id in self._waiting
        report: Report | None = None
        if outcome is not None and attempt.stop is not Stop.LOST and not superseded:
            try:
                report = after(attempt.job, outcome, attempt.handler.retry, random.random())
            except Exception as error:  # a retry policy that plain SQL wrote: it must not cost the worker a slot
                report = Setback(attempt.job, JobMove.FAIL, failed(error).error, timedelta())
        if report is None:
            self.suspects.drop(attempt.job)
        self._ended(attempt.job, report, time.monotonic() - attempt.started)


def _meaning(attempt: Attempt, error: BaseException) -> Outcome | None:
    """What a cancelled handler's end means."""
    match attempt.stop:
        case Stop.TIMEOUT:
            return timed_out(attempt.timeout or timedelta())
        case Stop.LOST:
            return None
        case Stop.DRAIN:
            return Released()
        case Stop.ASKED:
            return Cancelled()
        case None:
            return failed(error)  # the handler awaited something that was cancelled
