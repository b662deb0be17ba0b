"""What a trigger started, to be awaited."""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any

from windlass.core import duration
from windlass.core.duration import Duration
from windlass.cron.executions.execution import WorkflowExecution


class Triggered(str):
    """The id of the execution that a trigger began; empty if the entry has no children and its job runs alone.

    Await it, or call `wait` in a thread, for the end: the answer is the execution, of a job that runs alone one with
    just that job. It is not `complete` if the scheduler stopped first.
    """

    _ended: Future[WorkflowExecution]

    def __new__(cls, execution_id: str, ended: Future[WorkflowExecution]) -> "Triggered":
        made = super().__new__(cls, execution_id)
        made._ended = ended
        return made

    def __await__(self) -> Generator[Any, None, WorkflowExecution]:
        # shielded: a waiter that is cancelled must not cancel the future for the others
        return asyncio.shield(asyncio.wrap_future(self._ended)).__await__()

    def wait(self, timeout: Duration | None = None) -> WorkflowExecution | None:
        """For threads: wait for the end; None if it has not come within `timeout`."""
        seconds = None if timeout is None else duration.read(timeout, field="timeout").total_seconds()
        try:
            return self._ended.result(seconds)
        except TimeoutError:
            return None
