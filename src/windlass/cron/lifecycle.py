"""When a scheduler lives: on the loop it is started on, or on one in a thread of its own.

idle -> running     start(), run(), async with
running -> stopping stop(), aclose(), leaving the block: no more ticks and starts, jobs under way go on
stopping -> idle    the last job ended
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial

from windlass.cron.context import EntryId, job_context
from windlass.cron.door import Door
from windlass.cron.errors import StillStopping
from windlass.cron.scheduler import Scheduler

TIDY = 1.0  # seconds for a loop to close after its last job; it may hold tasks that nobody waits for


class Lifecycle:
    def __init__(self, door: Door, scheduler: Scheduler) -> None:
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
        """Live on the loop that runs here, until told otherwise."""
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

    def ask_to_stop(self) -> None:
        """On the scheduler's thread."""
        if self._scheduler.active:
            self._scheduler.deactivate()
            self._stop.set()

    def wait(self, timeout: float | None) -> bool:
        """Whether all jobs have ended. On the loop or inside a job it only looks: waiting would be for ever."""
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
        """Wait for something about the running jobs, from whatever loop we are on."""
        loop = self._door.loop
        if loop is asyncio.get_running_loop():
            await self._scheduler.runner.until(holds)
        elif loop is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._scheduler.runner.until(holds), loop))

    def idle(self, entry: EntryId | None) -> bool:
        runner = self._scheduler.runner
        return not runner.busy if entry is None else not runner.is_running(entry)

    def wait_idle(self, entry: EntryId | None, timeout: float | None) -> bool:
        """The same for threads."""
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
        finally:
            self.ask_to_stop()
            self._door.detach()
            runner.detach()
            self._ended.set()

    def _inside_a_job(self) -> bool:
        context = job_context()
        return context is not None and context.host is self._scheduler.runner
