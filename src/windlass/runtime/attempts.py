"""The attempts a worker has under way: started, timed, told to stop, and what became of them."""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Protocol
from uuid import UUID

from windlass.core.document import decode
from windlass.core.job import Claimed, Report, after
from windlass.core.outcome import Cancelled, Outcome, Released
from windlass.effects.context import Context, enter
from windlass.effects.handlers import Handler, Handlers, failed, perform, timed_out
from windlass.effects.tracing import span, tracer
from windlass.engine.work import Line
from windlass.runtime.ledger import Ledger

MARGIN = 5.0  # seconds beyond its timeout for a handler that ends by itself


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

    @property
    def timeout(self) -> timedelta | None:
        return self.job.timeout or self.handler.timeout


class Prepare(Protocol):
    """Fills in what a step's handler is told about its run."""

    async def __call__(self, job: Claimed, context: Context, *, upstream: bool) -> None: ...


class Attempts:
    """`ended` is called with each attempt, its report (None if it no longer matters) and how long it ran."""

    def __init__(
        self,
        handlers: Handlers,
        concurrency: int,
        ended: Callable[[Claimed, Report | None, float], None],
        prepare: Prepare,
        ledger: Ledger,
    ) -> None:
        self._prepare = prepare
        self._ledger = ledger
        self.lines: deque[Line] = deque()  # what handlers logged; appended from any thread
        self._handlers = handlers
        self._concurrency = concurrency
        self._ended = ended
        self._running: dict[UUID, Attempt] = {}
        self._per_handler: Counter[str] = Counter()
        self.suspects = 0  # jobs here that may have killed their workers before
        self._threads = ledger.threads
        self._tracer = tracer()
        self._loop = asyncio.get_running_loop()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def free(self) -> int:
        return self._concurrency - len(self._running) - self._threads.abandoned

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
        attempt = Attempt(job, handler, context, time.monotonic())
        context.epoch, context.timeout, context._ledger = job.epoch, attempt.timeout, self._ledger
        self._running[job.id] = attempt
        self._per_handler[handler.type] += 1
        self.suspects += job.alone
        attempt.task = self._loop.create_task(self._run(attempt))
        if attempt.timeout is not None:
            patience = attempt.timeout.total_seconds() + (MARGIN if handler.keeps_time else 0)
            attempt.timer = self._loop.call_later(patience, attempt.end, Stop.TIMEOUT)

    def told(self, reports: Iterable[Report]) -> bool:
        """These were recorded. A suspect that ended counts until then, for the next may take us down; was there one?"""
        cleared = sum(report.job.alone for report in reports)
        self.suspects -= cleared
        return cleared > 0

    def jobs(self, *, older_than: float = 0.0) -> list[Claimed]:
        now = time.monotonic()
        return [attempt.job for attempt in self._running.values() if now - attempt.started >= older_than]

    def keep_only(self, held: Container[UUID], of: Sequence[Claimed]) -> list[UUID]:
        """Stop those of `of` that are no longer held; returns their ids."""
        lost = [job.id for job in of if job.id not in held and self._is_running(job)]
        for id_ in lost:
            self._running[id_].end(Stop.LOST)
        return lost

    def ask(self, ids: Iterable[UUID]) -> None:
        """Their runs were cancelled: they should stop."""
        for id_ in ids:
            if attempt := self._running.get(id_):
                attempt.end(Stop.ASKED)

    def stop_all(self, why: Stop) -> None:
        for attempt in tuple(self._running.values()):
            attempt.end(why)

    def tasks(self) -> list["asyncio.Task[None]"]:
        return [attempt.task for attempt in self._running.values() if attempt.task is not None]

    def close(self) -> None:
        self._threads.close()

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
        enter(None)  # what the worker says from here on is not the handler's
        self._end(attempt, outcome)

    async def _perform(self, attempt: Attempt) -> Outcome:
        payload = decode(attempt.job.payload)
        if attempt.job.meta is not None:
            attempt.context.meta = decode(attempt.job.meta)
        if attempt.job.run_id is not None and attempt.handler.wants_context:
            if isinstance(payload, dict):
                attempt.context.item = payload.get("item")
            await self._prepare(attempt.job, attempt.context, upstream=attempt.handler.wants_upstream)
        return await perform(attempt.handler, attempt.context, payload, self._threads)

    def _end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        del self._running[attempt.job.id]
        self._per_handler[attempt.handler.type] -= 1
        report = None
        if outcome is not None and attempt.stop is not Stop.LOST:
            report = after(attempt.job, outcome, attempt.handler.retry, random.random())
        if report is None:
            self.suspects -= attempt.job.alone
        self._ended(attempt.job, report, time.monotonic() - attempt.started)

    def _is_running(self, job: Claimed) -> bool:
        attempt = self._running.get(job.id)
        return attempt is not None and attempt.job is job


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
