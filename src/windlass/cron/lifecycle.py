"""Starts and stops a scheduler, on the current event loop or on one in a background thread.

idle -> running     start(), run(), run_forever(), with, async with
running -> stopping stop(), aclose(), leaving the block, a signal: no more ticks and starts, running jobs continue
stopping -> idle    the last job ended
"""

import asyncio
import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from windlass.cron.context import EntryId, job_context
from windlass.cron.errors import AlreadyRunning, StillStopping
from windlass.cron.scheduler import Scheduler
from windlass.effects.signals import Signals

T = TypeVar("T")
logger = logging.getLogger("windlass.cron")
TIDY = 1.0  # seconds to wait for async observers after the last job, and then for the thread to close its loop


class ThreadGate:
    """Serializes calls to the scheduler across threads.

    While a loop is attached, all calls run on its thread; other threads queue theirs and block until the result is
    available. Without a loop, before the start and after the stop, a call runs in the caller's thread under the lock. A
    call is queued under the same lock that `detach` holds while it empties the queue, so no call is left behind.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None
        self._lock = threading.RLock()
        self._queued: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def attach(self) -> None:
        with self._lock:
            self.loop = asyncio.get_running_loop()
            self._thread = threading.get_ident()

    def detach(self) -> None:
        """Run the calls that are still queued, then release the loop."""
        with self._lock:
            self._serve()
            self.loop = self._thread = None

    @property
    def here(self) -> bool:
        """Whether the caller is on the attached loop's thread."""
        return self._thread == threading.get_ident()

    def __call__(self, work: Callable[[], T]) -> T:
        if self.here:
            return work()
        with self._lock:
            if self.loop is None:
                return work()
            answer: Future[T] = Future()
            self._queued.append((work, answer))
            self.loop.call_soon_threadsafe(self._serve)
        return answer.result()

    def _serve(self) -> None:
        while self._queued:
            work, answer = self._queued.popleft()
            try:
                answer.set_result(work())
            except BaseException as error:
                answer.set_exception(error)


class Lifecycle:
    def __init__(self, gate: ThreadGate, scheduler: Scheduler) -> None:
        self._gate, self._scheduler = gate, scheduler
        self._server: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._ended = threading.Event()
        self._ended.set()
        self._starting, self._beginning = threading.Lock(), threading.Lock()
        self._thread: threading.Thread | None = None

    def start_thread(self) -> None:
        with self._starting:
            if self._scheduler.active:
                return
            if not self._ended.is_set():
                raise StillStopping
            ready = threading.Event()
            main = partial(contextvars.copy_context().run, self._main, ready)
            self._thread = threading.Thread(target=main, name="windlass-cron", daemon=True)
            self._thread.start()
            ready.wait()

    def begin(self) -> None:
        """Start on the running event loop and return; the scheduler runs in a task until it is stopped."""
        with self._beginning:
            if self._scheduler.active:
                return
            if not self._ended.is_set():
                raise StillStopping
            self._ended.clear()
        self._gate.attach()
        self._stop = asyncio.Event()
        self._server = asyncio.get_running_loop().create_task(self._serve(), name="windlass-cron")
        self._scheduler.activate()

    async def run(self, ready: Callable[[], object] = lambda: None) -> None:
        if self._scheduler.active:
            ready()
            return
        self.begin()
        assert self._server is not None
        ready()
        try:
            await asyncio.shield(self._server)
        except asyncio.CancelledError:
            await self.close()
            raise

    def run_forever(self, limit: float | None) -> bool:
        """Run in this thread until stopped or until SIGINT or SIGTERM; return whether all jobs have ended."""
        if self._scheduler.active:
            raise AlreadyRunning
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._forever(limit))
        raise AlreadyRunning("an event loop is running in this thread: use `await cron.run()` there")

    async def _forever(self, limit: float | None) -> bool:
        with Signals() as signals:
            self.begin()
            assert self._server is not None
            hurry = asyncio.create_task(signals.at_once.wait())
            stops = [asyncio.create_task(event.wait()) for event in (signals.stop, self._stop)]
            await asyncio.wait(stops, return_when=asyncio.FIRST_COMPLETED)
            self.request_stop()
            await asyncio.wait([self._server, hurry], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self._server.done():
                return True
            running = self._scheduler.runner.running
            logger.warning("stopped although jobs are still running: %s", ", ".join(running))
            return False

    def request_stop(self) -> None:
        """Deactivate the scheduler and wake its loop. Must be called on the scheduler's thread.

        In a signal handler the loop may be blocked until its next event and would not see that `_stop` was set:
        `call_soon_threadsafe` wakes it.
        """
        if self._scheduler.active:
            self._scheduler.deactivate()
            assert self._gate.loop is not None, "an active scheduler has a loop"
            self._gate.loop.call_soon_threadsafe(self._stop.set)

    def wait(self, timeout: float | None) -> bool:
        """Wait for all jobs to end; return whether they did. On the loop or in a job, do not wait: a deadlock."""
        if self._gate.here or self._in_job():
            return not self._scheduler.runner.busy
        if not self._ended.wait(timeout):
            return False
        if self._thread is not None:
            self._thread.join(TIDY)
        return True

    async def close(self) -> None:
        self.request_stop()
        if self._server is not None:
            await self._server

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the running jobs holds. May be called on any loop."""
        loop = self._gate.loop
        if loop is asyncio.get_running_loop():
            await self._scheduler.runner.until(holds)
        elif loop is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._scheduler.runner.until(holds), loop))

    def idle(self, entry: EntryId | None) -> bool:
        runner = self._scheduler.runner
        return not runner.busy if entry is None else not runner.is_running(entry)

    def wait_idle(self, entry: EntryId | None, timeout: float | None) -> bool:
        """Block until no job of the entry (None: no job at all) is running; return whether none is running."""
        loop = self._gate.loop
        if loop is None or self._gate.here:
            return self.idle(entry)
        waiting = asyncio.run_coroutine_threadsafe(self._scheduler.runner.until(lambda: self.idle(entry)), loop)
        try:
            waiting.result(timeout)
        except TimeoutError:
            waiting.cancel()
        return self.idle(entry)

    def _main(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self.run(ready.set))
        finally:
            ready.set()

    async def _serve(self) -> None:
        runner = self._scheduler.runner
        try:
            await self._stop.wait()
            await runner.until(lambda: not runner.busy)
            await self._scheduler.notices.drain(TIDY)
        finally:
            self._scheduler.deactivate()
            self._gate.detach()
            self._scheduler.detach()
            self._ended.set()

    def _in_job(self) -> bool:
        context = job_context()
        return context is not None and context.host is self._scheduler.runner
