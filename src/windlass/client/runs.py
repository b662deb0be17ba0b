"""Operations on /runs and /runs/{run_id}/tasks: list, await, cancel and retry runs, and read their tasks."""

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from windlass.client.descriptors import Group, W, conversation, downloading, downwards, operation, streaming, upwards
from windlass.client.request import NOTHING, Call, Flow, Pause, one, page, perform, present
from windlass.schemas.common import Page
from windlass.schemas.runs import Batch, Explanation, RestartPreview, Run, RunDetail, RunEvent
from windlass.schemas.tasks import Instance, NamedTask, Span, TaskArtifact, TaskLogLine
from windlass.schemas.workflows import Address, Graph

LOOK = 0.1, 2.0  # seconds between polls of a run that is waited for: initial and maximum
RUN = "/runs/{run_id}"
TASKS = "/runs/{run_id}/tasks"
TASK = f"{TASKS}/{{task}}"


class Runs(Group[W]):
    @downwards
    def list(
        self,
        *,
        workflow: str | None = None,
        status: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        inserted_after: datetime | None = None,
        inserted_before: datetime | None = None,
        text: str | None = None,
        retrying: bool | None = None,
        before: str | None = None,
        limit: int | None = None,
    ) -> Call[Page[Run]]:
        """List runs, newest first."""
        filters = present({**locals(), "labels": None})
        return page(Run, "/runs", label=[f"{key}={value}" for key, value in (labels or {}).items()], **filters)

    @operation
    def get(self, run_id: str) -> Call[RunDetail]:
        """Return a run with its tasks."""
        return run_call(run_id)

    @conversation
    def wait(self, run_id: str, *, timeout: float | None = None) -> Flow[RunDetail]:
        """Wait until a run has ended and return it. Raise `TimeoutError` after `timeout` seconds; the run continues."""
        options = self.transport.options
        over = None if timeout is None else time.monotonic() + timeout
        pause, longest = LOOK
        while not (run := (yield from perform(run_call(run_id), options.url, options.retries))).has_ended:
            left = longest if over is None else over - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"run {run_id} is still {run.status} after {timeout:g} s, and continues")
            yield Pause(min(pause, left))
            pause = min(pause * 1.5, longest)
        return run

    @operation
    def output(self, run_id: str) -> Call[Any]:
        """Return the output of a run: that of its last task, or of several last tasks by name."""
        return Call("GET", f"{RUN}/output", lambda answer: answer["data"], {"run_id": run_id})

    @upwards
    def events(
        self, run_id: str, *, attempt: int | None = None, after: str | None = None, limit: int | None = None
    ) -> Call[Page[RunEvent]]:
        """List the events of a run, oldest first; `attempt` selects one attempt of a run that was retried or rerun."""
        return page(RunEvent, f"{RUN}/events", {"run_id": run_id}, attempt=attempt, after=after, limit=limit)

    @operation
    def explain(self, run_id: str) -> Call[Explanation]:
        """Explain in sentences why each task ran, waits, was skipped or failed."""
        return one(Explanation, "GET", f"{RUN}/explain", {"run_id": run_id})

    @upwards
    def logs(
        self,
        run_id: str,
        *,
        attempt: int | None = None,
        tail: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Call[Page[TaskLogLine]]:
        """List the lines that the handlers of all tasks logged, oldest first; with `tail` only the last ones."""
        filters = {"attempt": attempt, "tail": tail, "after": after, "limit": limit}
        return page(TaskLogLine, f"{RUN}/logs", {"run_id": run_id}, **filters)

    @operation
    def log_text(self, run_id: str, *, attempt: int | None = None) -> Call[str]:
        """Return all log lines as one string, task by task."""
        query = present({"attempt": attempt, "format": "text"})
        return Call("GET", f"{RUN}/logs", str, {"run_id": run_id}, query)

    @streaming
    def follow_logs(
        self, run_id: str, *, attempt: int | None = None, tail: int | None = None, after: str | None = None
    ) -> Call[None]:
        """Yield the last log lines and then new ones, as the `data` of `line` events, until the run has ended."""
        query = present({"attempt": attempt, "tail": tail, "after": after})
        return Call("GET", f"{RUN}/logs/stream", lambda _: None, {"run_id": run_id}, query)

    @upwards
    def artifacts(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> Call[Page[TaskArtifact]]:
        """List the files that the tasks wrote, sorted by task, index and name, including those of failed attempts."""
        return page(TaskArtifact, f"{RUN}/artifacts", {"run_id": run_id}, after=after, limit=limit)

    @operation
    def graph(self, run_id: str) -> Call[Graph]:
        """Return the tasks and edges of the version that the run follows."""
        return one(Graph, "GET", f"{RUN}/graph", {"run_id": run_id})

    @upwards
    def timeline(self, run_id: str, *, attempt: int | None = None) -> Call[Page[Span]]:
        """List the periods in which each task was queued, running, in backoff, sleeping or waiting.

        `attempt` selects one attempt of a run that was retried or rerun.
        """
        return page(Span, f"{RUN}/timeline", {"run_id": run_id}, attempt=attempt)

    @streaming
    def stream(self, run_id: str, *, after: str | None = None) -> Call[None]:
        """Yield the events of a run and its tasks as they occur, until the run has ended.

        `after` is `RunDetail.cursor` or the `id` of a `Streamed` event.
        """
        return Call("GET", f"{RUN}/stream", lambda _: None, {"run_id": run_id}, present({"after": after}))

    @operation
    def cancel(self, run_id: str, *, reason: str | None = None, compensate: bool = False) -> Call[Run]:
        """Cancel a run. With `compensate`, the tasks that succeeded are undone before the run ends."""
        body = present({"reason": reason, "compensate": compensate or None})
        return one(Run, "POST", f"{RUN}/cancel", {"run_id": run_id}, body=body)

    @operation
    def pause(self, run_id: str, *, reason: str | None = None) -> Call[Run]:
        """Start no more jobs of a run and of its child runs until it is resumed."""
        return one(Run, "POST", f"{RUN}/pause", {"run_id": run_id}, body=present({"reason": reason}))

    @operation
    def resume(self, run_id: str) -> Call[Run]:
        """Resume a paused run; its jobs keep the times at which they are due."""
        return one(Run, "POST", f"{RUN}/resume", {"run_id": run_id})

    @operation
    def retry(self, run_id: str, *, version: str | None = None) -> Call[Run]:
        """Repeat the tasks that failed and those that depend on them; tasks that succeeded are kept.

        `version="live"` continues with the live version of the workflow.
        """
        return one(Run, "POST", f"{RUN}/retry", {"run_id": run_id}, body=present({"version": version}))

    @operation
    def rerun(
        self,
        run_id: str,
        task: str,
        *,
        input: Any = NOTHING,  # noqa: A002
        version: str | None = None,
    ) -> Call[Run]:
        """Repeat a task and all tasks after it.

        `input` replaces the input of the run; `version="live"` continues with the live version of the workflow.
        """
        changed = present({"version": version}) | ({} if input is NOTHING else {"input": input})
        return one(Run, "POST", f"{RUN}/rerun", {"run_id": run_id}, body={"from": task, **changed})

    @operation
    def restart_preview(
        self, run_id: str, *, task: str | None = None, version: str | None = None
    ) -> Call[RestartPreview]:
        """Return which tasks a retry, or a rerun from `task`, would keep and repeat. Raises the same errors."""
        asked = {"from": task, "version": version}
        return one(RestartPreview, "GET", f"{RUN}/restart", {"run_id": run_id}, query=asked)

    @operation
    def cancel_many(
        self,
        *,
        workflow: str | None = None,
        status: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        inserted_after: datetime | None = None,
        inserted_before: datetime | None = None,
        text: str | None = None,
        retrying: bool | None = None,
        before: str | None = None,
        all: bool | None = None,  # noqa: A002 - the API's word
        dry_run: bool | None = None,
        limit: int | None = None,
        reason: str | None = None,
        compensate: bool | None = None,
    ) -> Call[Batch]:
        """Cancel a batch of the runs that match all filters, newest first.

        Without a filter, `all=True` is required; `dry_run=True` only counts the runs.
        """
        return one(Batch, "POST", "/runs/cancel", body=present(locals()))

    @operation
    def retry_many(
        self,
        *,
        workflow: str | None = None,
        status: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        inserted_after: datetime | None = None,
        inserted_before: datetime | None = None,
        text: str | None = None,
        retrying: bool | None = None,
        before: str | None = None,
        all: bool | None = None,  # noqa: A002 - the API's word
        dry_run: bool | None = None,
        limit: int | None = None,
    ) -> Call[Batch]:
        """Retry a batch of the failed and timed out runs that match all filters, newest first.

        Without a filter, `all=True` is required; `dry_run=True` only counts the runs.
        """
        return one(Batch, "POST", "/runs/retry", body=present(locals()))


class Tasks(Group[W]):
    @upwards
    def list(self, run_id: str) -> Call[Page[NamedTask]]:
        """List the tasks of a run, in the order of the definition."""
        return page(NamedTask, TASKS, {"run_id": run_id})

    @operation
    def get(self, run_id: str, task: str) -> Call[NamedTask]:
        return one(NamedTask, "GET", TASK, {"run_id": run_id, "task": task})

    @upwards
    def instances(
        self, run_id: str, task: str, *, after: int | None = None, limit: int | None = None
    ) -> Call[Page[Instance]]:
        """List the instances of a task with their results, by index."""
        return page(Instance, f"{TASK}/instances", {"run_id": run_id, "task": task}, after=after, limit=limit)

    @operation
    def output(self, run_id: str, task: str) -> Call[Any]:
        """Return the output of a task; for a fanned-out task, a list by index.

        This is the result of a job, the body of an HTTP response or callback, a message, a decision or the output of a
        child run.
        """
        return Call("GET", f"{TASK}/output", lambda answer: answer["data"], {"run_id": run_id, "task": task})

    @upwards
    def logs(
        self,
        run_id: str,
        task: str,
        *,
        index: int | None = None,
        attempt: int | None = None,
        tail: int | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Call[Page[TaskLogLine]]:
        """List the lines that the handler logged, oldest first; of all instances and attempts unless one is given."""
        filters = {"index": index, "attempt": attempt, "tail": tail, "after": after, "limit": limit}
        return page(TaskLogLine, f"{TASK}/logs", {"run_id": run_id, "task": task}, **filters)

    @operation
    def log_text(self, run_id: str, task: str, *, index: int | None = None, attempt: int | None = None) -> Call[str]:
        """Return all log lines of a task as one string."""
        query = present({"index": index, "attempt": attempt, "format": "text"})
        return Call("GET", f"{TASK}/logs", str, {"run_id": run_id, "task": task}, query)

    @streaming
    def follow_logs(
        self,
        run_id: str,
        task: str,
        *,
        index: int | None = None,
        attempt: int | None = None,
        tail: int | None = None,
        after: str | None = None,
    ) -> Call[None]:
        """Yield the last log lines and then new ones, as the `data` of `line` events, until the task has ended."""
        query = present({"index": index, "attempt": attempt, "tail": tail, "after": after})
        return Call("GET", f"{TASK}/logs/stream", lambda _: None, {"run_id": run_id, "task": task}, query)

    @upwards
    def artifacts(
        self, run_id: str, task: str, *, after: str | None = None, limit: int | None = None
    ) -> Call[Page[TaskArtifact]]:
        """List the files that the task wrote, sorted by index and name, including those of failed attempts."""
        return page(TaskArtifact, f"{TASK}/artifacts", {"run_id": run_id, "task": task}, after=after, limit=limit)

    @downloading
    def download(
        self, run_id: str, task: str, name: str, *, index: int | None = None, attempt: int | None = None
    ) -> Call[None]:
        """Yield the content of an artifact in chunks, by default of the attempt that succeeded, else of the latest."""
        query, values = present({"index": index, "attempt": attempt}), {"run_id": run_id, "task": task, "name": name}
        return Call("GET", f"{TASK}/artifacts/{{name}}/content", lambda _: None, values, query)

    @operation
    def callback(self, run_id: str, task: str) -> Call[Address]:
        """Return the callback URL of a waiting task."""
        return one(Address, "GET", f"{TASK}/callback", {"run_id": run_id, "task": task})


def run_call(run_id: str) -> Call[RunDetail]:
    return one(RunDetail, "GET", RUN, {"run_id": run_id})
