"""Starts and stops a scheduler, on the current event loop or on one in a background thread.

idle -> running     start(), run(), run_forever(), with, async with
running -> stopping stop(), aclose(), leaving the block, a signal: no more ticks and starts, running jobs continue
stopping -> idle    the last job ended
"""

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from functools import partial

from windlass.cron.errors import AlreadyRunning, StillStopping
from windlass.cron.executions.context import EntryId, job_context
from windlass.cron.scheduler import Scheduler
from windlass.cron.thread_gate import ThreadGate
from windlass.effects.signals import Signals

logger = logging.getLogger("windlass.cron")
TIDY = 1.0  # seconds to wait for async observers after the last job, and then for the thread to close its loop


class Lifecycle:
    def __init__(self, door: ThreadGate, scheduler: Scheduler) -> None:
        self._door, self._scheduler = door, scheduler
        self._serving: asyncio.Task[None] | None = None
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
        self._door.attach()
        self._stop = asyncio.Event()
        self._serving = asyncio.get_running_loop().create_task(self._serve(), name="windlass-cron")
        self._scheduler.activate()

    async def run(self, ready: Callable[[], object] = lambda: None) -> None:
        if self._scheduler.active:
            ready()
            return
        self.begin()
        assert self._serving is not None
        ready()
        try:
            await asyncio.shield(self._serving)
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
            assert self._serving is not None
            hurry = asyncio.create_task(signals.at_once.wait())
            asked = [asyncio.create_task(event.wait()) for event in (signals.stop, self._stop)]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            self.ask_to_stop()
            await asyncio.wait([self._serving, hurry], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            if self._serving.done():
                return True
            running = self._scheduler.runner.running
            logger.warning("stopped although jobs are still running: %s", ", ".join(running))
            return False

    def ask_to_stop(self) -> None:
        """Deactivate the scheduler and wake its loop. Must be called on the scheduler's thread.

        In a signal handler the loop may be blocked until its next event and would not see that `_stop` was set:
        `call_soon_threadsafe` wakes it.
        """
        if self._scheduler.active:
            self._scheduler.deactivate()
            assert self._door.loop is not None, "an active scheduler has a loop"
            self._door.loop.call_soon_threadsafe(self._stop.set)

    def wait(self, timeout: float | None) -> bool:
        """Wait for all jobs to end; return whether they did. On the loop or in a job this does not wait: a deadlock."""
        if self._door.here or self._inside_a_job():
            return not self._scheduler.runner.busy
        if not self._ended.wait(timeout):
            return False
        if self._thread is not None:
            self._thread.join(TIDY)
        return True

    async def close(self) -> None:
        self.ask_to_stop()
        if self._serving is not None:
            await self._serving

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition on the running jobs holds. May be called on any loop."""
        loop = self._door.loop
        if loop is asyncio.get_running_loop():
            await self._scheduler.runner.until(holds)
        elif loop is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._scheduler.runner.until(holds), loop))

    def idle(self, entry: EntryId | None) -> bool:
        runner = self._scheduler.runner
        return not runner.busy if entry is None else not runner.is_running(entry)

    def wait_idle(self, entry: EntryId | None, timeout: float | None) -> bool:
        """Block until no job of the entry (None: no job at all) is running; return whether that is so."""
        loop = self._door.loop
        if loop is None or self._door.here:
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
            self._door.detach()
            self._scheduler.detach()
            self._ended.set()

    def _inside_a_job(self) -> bool:
        context = job_context()
        return context is not None and context.host is self._scheduler.runner
