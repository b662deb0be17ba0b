"""The handle that `trigger` returns: an execution id that can be awaited."""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.cron.executions.execution import WorkflowExecution


class Triggered(str):
    """The id of the execution that a trigger started; empty if the entry has no children and its job runs alone.

    Await it, or call `wait` in a thread, to get the execution when it has ended; for a job that runs alone it has just
    that job. It is not `complete` if the scheduler stopped first.
    """

    _ended: Future[WorkflowExecution]

    def __new__(cls, execution_id: str, ended: Future[WorkflowExecution]) -> "Triggered":
        made = super().__new__(cls, execution_id)
        made._ended = ended
        return made

    def __await__(self) -> Generator[Any, None, WorkflowExecution]:
        # shielded: cancelling one waiter must not cancel the future for the others
        return asyncio.shield(asyncio.wrap_future(self._ended)).__await__()

    def wait(self, timeout: Duration | None = None) -> WorkflowExecution | None:
        """Block until the end and return the execution; None if it has not ended within `timeout`."""
        seconds = None if timeout is None else duration.read(timeout, field="timeout").total_seconds()
        try:
            return self._ended.result(seconds)
        except TimeoutError:
            return None
