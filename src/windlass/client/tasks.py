"""/runs/{run_id}/tasks: what became of each task, its instances, its output and its logs."""

from typing import Any

from windlass.client.descriptors import Group, W, operation, streaming, upwards
from windlass.client.request import Call, Page, given, one, page
from windlass.client.values_runs import Instance, NamedTask, TaskLogLine
from windlass.client.values_workflows import Address

TASKS = "/runs/{run_id}/tasks"
TASK = f"{TASKS}/{{task}}"


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
        wanted = {"index": index, "attempt": attempt, "tail": tail, "after": after, "limit": limit}
        return page(TaskLogLine, f"{TASK}/logs", {"run_id": run_id, "task": task}, **wanted)

    @operation
    def log_text(self, run_id: str, task: str, *, index: int | None = None, attempt: int | None = None) -> Call[str]:
        """All lines as text."""
        query = given({"index": index, "attempt": attempt, "format": "text"})
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
        query = given({"index": index, "attempt": attempt, "tail": tail, "after": after})
        return Call("GET", f"{TASK}/logs/stream", lambda _: None, {"run_id": run_id, "task": task}, query)

    @operation
    def callback(self, run_id: str, task: str) -> Call[Address]:
        """Where a task that waits is to be called."""
        return one(Address, "GET", f"{TASK}/callback", {"run_id": run_id, "task": task})
