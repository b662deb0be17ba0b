"""What the jobs of a step have in common, made once for each version: a turn that makes hundreds of jobs of the same
step says it once."""

from typing import Any, assert_never

from windlass.core.document import encode
from windlass.core.step import (
    ChildAction,
    CommandAction,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    SleepAction,
    Step,
)
from windlass.store.steps import Shape

OWN_QUEUE = "windlass"
HTTP_TYPE = "windlass.http.v1"
COMMAND_TYPE = "windlass.command.v1"
PRIORITY = 100
ROOM = 10_000


class Shapes:
    """Shapes of one database, by version and step."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Shape] = {}

    def of(self, version_id: int, number: int, step: Step) -> Shape:
        known = self._known.get((version_id, number))
        if known is None:
            if len(self._known) >= ROOM:
                self._known.clear()
            known = self._known[version_id, number] = shape(version_id, number, step)
        return known


def shape(version_id: int, number: int, step: Step) -> Shape:
    type_, queue, priority, payload = _work(step)
    return Shape(
        version_id=version_id,
        step=number,
        type=type_,
        payload=encode(payload, field=f"the input of {step.name}"),
        queue=queue,
        priority=priority,
        max_attempts=step.max_attempts,
        timeout=step.timeout,
        retry=encode(step.retry.to_json(), field="retry") if step.retry else None,
        foreach=isinstance(step.fan_out, Foreach),
    )


def _work(step: Step) -> tuple[str, str, int, Any]:
    """Type, queue, priority, and the payload as written, templates and all."""
    action = step.action
    match action:
        case JobAction():
            return action.type, action.queue, action.priority, action.input
        case HttpAction():
            wanted = {"url": action.url, "method": action.method, "headers": dict(action.headers)}
            return HTTP_TYPE, OWN_QUEUE, PRIORITY, wanted | {"query": dict(action.query), "body": action.body}
        case CommandAction():
            return COMMAND_TYPE, OWN_QUEUE, PRIORITY, {"run": action.run, "input": action.input}
        case SleepAction() | HookAction() | ChildAction():
            raise TypeError(f"step {step.name} needs no job")
        case _:
            assert_never(action)
