"""Wrappers around a job. The first of a list is the outermost.

A wrapper takes an async call and returns one. The built-in wrappers wait on the scheduler's clock, pass the job's
context on, raise `Skip` if they do not run the job (result: skipped) and `JobTimedOut` on a timeout (result: failure).
"""

import asyncio
import logging
import random
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.cron.context import JobContext, Wait, enter, here, pause
from windlass.cron.job import Call, JobTimedOut, LocalWrapper, Skip, Wrapper, notify
from windlass.errors import Invalid

logger = logging.getLogger("windlass.cron")
_abandoned: "set[asyncio.Task[Any]]" = set()
LONG_WAIT = timedelta(minutes=1)


class Semaphore:
    """A semaphore for jobs; waiters get slots in order. Thread-safe: several schedulers may share it."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._queue: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def try_take(self) -> bool:
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            return False

    async def take(self) -> bool:
        """Wait for a slot; return False if the job was cancelled meanwhile."""
        if self.try_take():
            return True
        waiter = _Waiter(Wait(here()))
        with self._lock:
            self._queue.append(waiter)
        self._hand_on()  # a slot may have been released after `try_take`, before this waiter was queued
        granted = False
        try:
            granted = await waiter.wait.ended()
        finally:
            if not granted:
                self._leave(waiter)
        return granted

    def give(self) -> None:
        with self._lock:
            self._free += 1
        self._hand_on()

    def _hand_on(self) -> None:
        with self._lock:
            if not self._free or not self._queue:
                return
            self._free -= 1
            waiter = self._queue.popleft()
            waiter.granted = True
        waiter.wait.end()

    def _leave(self, waiter: "_Waiter") -> None:
        """Leave the queue; if a slot was granted after the wait had ended, release it to the next waiter."""
        with self._lock:
            if not waiter.granted:
                self._queue.remove(waiter)
                return
        self.give()


class _Waiter:
    __slots__ = ("granted", "wait")

    def __init__(self, wait: Wait) -> None:
        self.wait, self.granted = wait, False


def recover(*, level: int = logging.ERROR) -> Wrapper:
    """Log a failure and let outer wrappers see a success. Executions and observers still see the failure.

    In a workflow execution the exception is raised again, so there outer wrappers see it, too.
    """

    def wrapper(call: Call) -> Call:
        async def recovering() -> Any:
            context = here()
            try:
                return await call()
            except Skip:
                raise
            except Exception as error:
                logger.log(level, "job %s failed", context.name, exc_info=error)
                context.recovered = error
                if context.execution_id:
                    raise
                return None

        return recovering

    return wrapper


def skip_if_running() -> Wrapper:
    """Skip a start while an earlier one of the same entry is running."""
    reason = "an earlier start of it is still running"
    return LocalWrapper("skip_if_running", lambda call: _skipping(call, Semaphore(1), reason))


def delay_if_running() -> Wrapper:
    """Run starts of the same entry one after the other; a wait of more than a minute is logged."""
    return LocalWrapper("delay_if_running", lambda call: _queueing(call, Semaphore(1)))


def max_instances(count: int) -> Wrapper:
    """Skip a start while `count` earlier ones of the same entry are running. Used for the option `max_instances`."""
    if positive_integer(count, "max_instances") == 1:
        return skip_if_running()
    reason = f"{count} earlier starts of it are still running"
    return LocalWrapper("max_instances", lambda call: _skipping(call, Semaphore(count), reason))


def max_concurrent(count: int) -> Wrapper:
    """Run at most `count` of the jobs that share this wrapper concurrently; the others wait."""
    slots = Semaphore(positive_integer(count))
    return LocalWrapper("max_concurrent", lambda call: _queueing(call, slots))


def max_concurrent_skip(count: int) -> Wrapper:
    """Run at most `count` of the jobs that share this wrapper concurrently; the others are skipped."""
    slots = Semaphore(positive_integer(count))
    reason = f"{count} jobs are running already"
    return LocalWrapper("max_concurrent_skip", lambda call: _skipping(call, slots, reason))


def jitter(longest: Duration) -> Wrapper:
    """Delay each start by a random part of `longest`, to spread starts of the same second; zero means no delay."""
    limit = duration.read(longest, field="longest")

    def wrapper(call: Call) -> Call:
        async def late() -> Any:
            if not await pause(random.random() * limit.total_seconds()):
                raise Skip("cancelled before it began")
            return await call()

        return late if limit > timedelta() else call

    return wrapper


def timeout(
    limit: Duration, *, grace: Duration = 0, on_timeout: Callable[[JobContext], object] | None = None
) -> Wrapper:
    """Fail a job that takes longer than `limit`. Zero or less means no limit.

    Async jobs are cancelled. A job in a thread sees `job_context().cancelled` and is not waited for. `grace` is
    additional time for the job to clean up before the failure is reported.
    """
    longest, patience = duration.read(limit, field="limit"), duration.read(grace, field="grace")

    def wrapper(call: Call) -> Call:
        async def limited() -> Any:
            outer = here()
            context = outer.attempt()
            task = asyncio.ensure_future(_inside(context, call))
            try:
                if await _ended(task, longest):
                    outer.recovered = context.recovered
                    return task.result()
                context.cancel()
                task.cancel()
                notify(on_timeout, context)
                await _ended(task, patience)
            finally:
                task.cancel()
                _abandon(task)
            raise JobTimedOut(f"it took longer than {longest.total_seconds():g} s")

        return limited if longest > timedelta() else call

    return wrapper


def _skipping(call: Call, slots: Semaphore, reason: str) -> Call:
    async def skipping() -> Any:
        if not slots.try_take():
            raise Skip(reason)
        try:
            return await call()
        finally:
            slots.give()

    return skipping


def _queueing(call: Call, slots: Semaphore) -> Call:
    async def queueing() -> Any:
        context = here()
        began = context.host.clock.now()
        if not await slots.take():
            raise Skip("cancelled before it began")
        try:
            waited = context.host.clock.now() - began
            if waited > LONG_WAIT:
                logger.warning("job %s waited %s for others to end", context.name, waited)
            return await call()
        finally:
            slots.give()

    return queueing


async def _inside(context: JobContext, call: Call) -> Any:
    enter(context)
    return await call()


async def _ended(task: "asyncio.Task[Any]", within: timedelta) -> bool:
    """Wait for a task and return whether it ended in time on the scheduler's clock.

    Another thread may move that clock, so the timer resolves the future through `call_soon_threadsafe`.
    """
    loop = asyncio.get_running_loop()
    late = loop.create_future()
    ring = partial(loop.call_soon_threadsafe, _resolve, late)
    timer = here().host.clock.call_later(within.total_seconds(), ring)
    try:
        await asyncio.wait({task, late}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()
    return task.done()


def _resolve(late: "asyncio.Future[None]") -> None:
    if not late.done():
        late.set_result(None)


def _abandon(task: "asyncio.Task[Any]") -> None:
    """Keep a reference until the task ends, and retrieve its exception so that asyncio does not log it as unhandled."""
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())


def positive_integer(value: int, field: str = "count") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Invalid(f"{field} is {value!r}; it must be an integer, at least 1", field=field)
    return value
