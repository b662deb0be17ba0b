"""Runs the job of an adopted cron entry on a worker, with the context and clock of the in-process scheduler.

The in-process scheduler's rules apply: what counts as a failure, and that a failure is not retried. The job runs again
only if its worker died before it could report the outcome.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from windlass.core.jobs.outcome import Failed, Outcome, Succeeded
from windlass.core.json_value import RESULT_LIMIT, encode
from windlass.cron.clock import SystemClock
from windlass.cron.executions.context import EntryId, JobContext, enter
from windlass.cron.job import Call, Skip
from windlass.effects.context import Context
from windlass.effects.handlers import Handler, failed
from windlass.effects.threads import Threads
from windlass.errors import Invalid

logger = logging.getLogger("windlass.cron")
ATTEMPTS = 3  # failures are final: further attempts happen only after a worker died


class WorkerHost:
    """Replaces the in-process scheduler for a job: provides the system clock, and threads for sync jobs."""

    def __init__(self, threads: int) -> None:
        self.clock = SystemClock()
        self._allowed = threads
        self._threads: Threads | None = None

    def park(self, jobs: int) -> None:
        """Do nothing: on a worker nothing waits for parked jobs."""

    async def in_thread(self, call: Callable[[], Any]) -> Any:
        self._threads = self._threads or Threads(self._allowed)
        return await self._threads.run(call)


def handler(type_: str, name: str, call: Call, host: WorkerHost, *, has_parents: bool) -> Handler:
    """Return a handler that runs `call`, the job with its wrappers applied."""

    async def adopted(ctx: Context) -> Outcome:
        execution_id = "" if ctx.run_id is None else str(ctx.run_id)
        context = JobContext(EntryId(0), name, ctx.created_at, execution_id, host, ctx.upstream)
        enter(context)
        return await _outcome(call, context)

    return Handler.of(type_, adopted, max_attempts=ATTEMPTS, wants_upstream=has_parents)


async def _outcome(call: Call, context: JobContext) -> Outcome:
    try:
        output = await call()
    except Skip as skip:
        return Failed({"type": "Skipped", "message": str(skip) or "skipped by its job"}, retryable=False)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or not task.cancelling():  # the job awaited something that was cancelled
            return failed(error, retryable=False)
        context.cancel()
        raise
    except Exception as error:
        return failed(error, retryable=False)
    if context.recovered is not None and not context.execution_id:
        return failed(context.recovered, retryable=False)
    return Succeeded(_result(context.name, output))


def _result(name: str, output: Any) -> str:
    """Return the job's result as JSON; null, with a warning, if it cannot be encoded.

    The in-process scheduler allows any return value, so this must not fail the job.
    """
    try:
        return encode(output, field="result", limit=RESULT_LIMIT)
    except Invalid as error:
        logger.warning("what job %s returned is not kept: %s", name, error)
        return "null"
