"""/runs and /runs/{run_id}/tasks: list runs, wait for them, cancel and retry them, and read their tasks."""

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

LOOK = 0.1, 2.0  # seconds between two looks at a run that is waited for: at first, and at most
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
        """Newest first."""
        filters = present({**locals(), "labels": None})
        return page(Run, "/runs", label=[f"{key}={value}" for key, value in (labels or {}).items()], **filters)

    @operation
    def get(self, run_id: str) -> Call[RunDetail]:
        """With what became of each task."""
        return run_call(run_id)

    @conversation
    def wait(self, run_id: str, *, timeout: float | None = None) -> Flow[RunDetail]:
        """Wait until it has ended. `TimeoutError` after `timeout` seconds; the run goes on."""
        options = self.transport.options
        over = None if timeout is None else time.monotonic() + timeout
        pause, longest = LOOK
        while not (run := (yield from perform(run_call(run_id), options.url, options.retries))).has_ended:
            left = longest if over is None else over - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"run {run_id} is still {run.status} after {timeout:g} s, and goes on")
            yield Pause(min(pause, left))
            pause = min(pause * 1.5, longest)
        return run

    @operation
    def output(self, run_id: str) -> Call[Any]:
        """What its last task gave, or its last tasks by name."""
        return Call("GET", f"{RUN}/output", lambda answer: answer["data"], {"run_id": run_id})

    @upwards
    def events(
        self, run_id: str, *, attempt: int | None = None, after: str | None = None, limit: int | None = None
    ) -> Call[Page[RunEvent]]:
        """The trail, oldest first; of a run that was retried or rerun, all of it or that of one attempt."""
        return page(RunEvent, f"{RUN}/events", {"run_id": run_id}, attempt=attempt, after=after, limit=limit)

    @operation
    def explain(self, run_id: str) -> Call[Explanation]:
        """Why each task ran, waits, was skipped or failed, in sentences."""
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
        """What the handlers of its tasks logged, in the order of time; with `tail` only that many of the last lines."""
        filters = {"attempt": attempt, "tail": tail, "after": after, "limit": limit}
        return page(TaskLogLine, f"{RUN}/logs", {"run_id": run_id}, **filters)

    @operation
    def log_text(self, run_id: str, *, attempt: int | None = None) -> Call[str]:
        """All lines as text, task by task."""
        query = present({"attempt": attempt, "format": "text"})
        return Call("GET", f"{RUN}/logs", str, {"run_id": run_id}, query)

    @streaming
    def follow_logs(
        self, run_id: str, *, attempt: int | None = None, tail: int | None = None, after: str | None = None
    ) -> Call[None]:
        """Lines as they come, until the run has ended: `data` of events `line`."""
        query = present({"attempt": attempt, "tail": tail, "after": after})
        return Call("GET", f"{RUN}/logs/stream", lambda _: None, {"run_id": run_id}, query)

    @upwards
    def artifacts(self, run_id: str, *, after: str | None = None, limit: int | None = None) -> Call[Page[TaskArtifact]]:
        """The files that its tasks wrote, by task, index and name, also those of attempts that failed."""
        return page(TaskArtifact, f"{RUN}/artifacts", {"run_id": run_id}, after=after, limit=limit)

    @operation
    def graph(self, run_id: str) -> Call[Graph]:
        """Tasks and edges of the version that it runs."""
        return one(Graph, "GET", f"{RUN}/graph", {"run_id": run_id})

    @upwards
    def timeline(self, run_id: str, *, attempt: int | None = None) -> Call[Page[Span]]:
        """When its tasks were queued, running, in backoff, sleeping or waiting; in all attempts or in one."""
        return page(Span, f"{RUN}/timeline", {"run_id": run_id}, attempt=attempt)

    @streaming
    def stream(self, run_id: str, *, after: str | None = None) -> Call[None]:
        """What happens to it, as it happens, until it has ended; `after` is `RunDetail.cursor` or an event's id."""
        return Call("GET", f"{RUN}/stream", lambda _: None, {"run_id": run_id}, present({"after": after}))

    @operation
    def cancel(self, run_id: str, *, reason: str | None = None, compensate: bool = False) -> Call[Run]:
        """Stop a run. With `compensate`, undo the tasks that succeeded before it ends."""
        body = present({"reason": reason, "compensate": compensate or None})
        return one(Run, "POST", f"{RUN}/cancel", {"run_id": run_id}, body=body)

    @operation
    def pause(self, run_id: str, *, reason: str | None = None) -> Call[Run]:
        """Start no more jobs of a run and of its child runs until it is resumed."""
        return one(Run, "POST", f"{RUN}/pause", {"run_id": run_id}, body=present({"reason": reason}))

    @operation
    def resume(self, run_id: str) -> Call[Run]:
        """Let a paused run go on: its jobs start at the times they had."""
        return one(Run, "POST", f"{RUN}/resume", {"run_id": run_id})

    @operation
    def retry(self, run_id: str, *, version: str | None = None) -> Call[Run]:
        """Run the tasks that failed again, and those that depend on them; what succeeded is kept. `version="live"`: on
        the live version."""
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
        """Do a task and everything after it again, with another input if one is given, or on the live version."""
        changed = present({"version": version}) | ({} if input is NOTHING else {"input": input})
        return one(Run, "POST", f"{RUN}/rerun", {"run_id": run_id}, body={"from": task, **changed})

    @operation
    def restart_preview(
        self, run_id: str, *, task: str | None = None, version: str | None = None
    ) -> Call[RestartPreview]:
        """Which tasks a retry, or a rerun from a task, would keep and do again. Fails like that would."""
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
        """A batch of those that all of this is true of; `all=True` for no filter, `dry_run=True` to count them."""
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
        """A batch of the failed and timed out ones that all of this is true of."""
        return one(Batch, "POST", "/runs/retry", body=present(locals()))


class Tasks(Group[W]):
    @upwards
    def list(self, run_id: str) -> Call[Page[NamedTask]]:
        """All of them, in the order of the definition."""
        return page(NamedTask, TASKS, {"run_id": run_id})

    @operation
    def get(self, run_id: str, task: str) -> Call[NamedTask]:
        return one(NamedTask, "GET", TASK, {"run_id": run_id, "task": task})

    @upwards
    def instances(
        self, run_id: str, task: str, *, after: int | None = None, limit: int | None = None
    ) -> Call[Page[Instance]]:
        """In order, with the result of each."""
        return page(Instance, f"{TASK}/instances", {"run_id": run_id, "task": task}, after=after, limit=limit)

    @operation
    def output(self, run_id: str, task: str) -> Call[Any]:
        """A job's result, the body of an answer or a callback; of a fanned-out task the list by index."""
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
        """What its handler logged; of all instances and attempts unless one is named."""
        filters = {"index": index, "attempt": attempt, "tail": tail, "after": after, "limit": limit}
        return page(TaskLogLine, f"{TASK}/logs", {"run_id": run_id, "task": task}, **filters)

    @operation
    def log_text(self, run_id: str, task: str, *, index: int | None = None, attempt: int | None = None) -> Call[str]:
        """All lines as text."""
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
        """Lines as they come, until the task has ended: `data` of events `line`."""
        query = present({"index": index, "attempt": attempt, "tail": tail, "after": after})
        return Call("GET", f"{TASK}/logs/stream", lambda _: None, {"run_id": run_id, "task": task}, query)

    @upwards
    def artifacts(
        self, run_id: str, task: str, *, after: str | None = None, limit: int | None = None
    ) -> Call[Page[TaskArtifact]]:
        """The files that it wrote, by index and name, also those of attempts that failed."""
        return page(TaskArtifact, f"{TASK}/artifacts", {"run_id": run_id, "task": task}, after=after, limit=limit)

    @downloading
    def download(
        self, run_id: str, task: str, name: str, *, index: int | None = None, attempt: int | None = None
    ) -> Call[None]:
        """The content of an artifact in chunks; of the attempt that succeeded, or the latest, unless one is named."""
        query, values = present({"index": index, "attempt": attempt}), {"run_id": run_id, "task": task, "name": name}
        return Call("GET", f"{TASK}/artifacts/{{name}}/content", lambda _: None, values, query)

    @operation
    def callback(self, run_id: str, task: str) -> Call[Address]:
        """Where a task that waits is to be called."""
        return one(Address, "GET", f"{TASK}/callback", {"run_id": run_id, "task": task})


def run_call(run_id: str) -> Call[RunDetail]:
    return one(RunDetail, "GET", RUN, {"run_id": run_id})
