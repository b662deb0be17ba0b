"""Detects from another thread that the worker's event loop is blocked, and logs which handler blocks it.

An async handler that calls blocking code delays every other job of its worker. Heartbeats continue in their own
thread, so no lease is lost; but no job starts, ends or is reported until the handler returns.
"""

import asyncio
import contextlib
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable

from windlass.core.jobs.job import Claimed
from windlass.effects.context import context_of
from windlass.runtime.metrics import loop_blocked_total

_log = logging.getLogger("windlass.worker")
LIMIT = 1.0  # seconds
EVERY = 0.25  # seconds
REMEDY = "write the handler as a plain function, which runs in a thread, or move the call to asyncio.to_thread"


class Watchdog:
    """Watches the event loop in which it was created; `tick` is called from another thread."""

    def __init__(self, worker: str, job_of: Callable[[object], Claimed | None]) -> None:
        self._worker = worker
        self._job_of = job_of
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._asked = self._answered = self._ticked = time.monotonic()
        self._blocked = False

    def tick(self) -> None:
        """Schedule a callback in the loop; log once if the last one has not run for LIMIT seconds."""
        now = time.monotonic()
        paused, self._ticked = now - self._ticked > LIMIT, now
        if (
            self._answered >= self._asked or paused
        ):  # paused: this thread did not run either, so the whole process was suspended
            self._asked, self._blocked = now, False
            with contextlib.suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._answer, now)
        elif now - self._asked >= LIMIT and not self._blocked:
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
            "the event loop has been blocked for %.1f s by %s: no other job of this worker can go on; %s\n%s",
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
