"""Writes a step in the canonical form of the document: one spelling for each key, no empty values."""

from typing import Any, assert_never

from windlass.core import duration
from windlass.core.jobs.spec import DEFAULT_PRIORITY
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    Condition,
    Edge,
    FanOut,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Join,
    Parallel,
    SleepAction,
    Step,
)


def step_document(step: Step) -> dict[str, Any]:
    return {"name": step.name} | _when(step) | _action(step.action) | _copies(step) | _attempts(step)


def _when(step: Step) -> dict[str, Any]:
    plain = Condition.SUCCESS if step.condition is None else Condition.COMPLETE
    found: dict[str, Any] = {}
    if step.edges:
        found["needs"] = [_need(edge, plain) for edge in step.edges]
    if step.join is not Join.ALL:
        found["join"] = str(step.join)
    if step.condition is not None:
        found["if"] = step.condition
    if step.final:
        found["final"] = True
    if step.allow_failure:
        found["allow_failure"] = True
    return found


def _need(edge: Edge, plain: Condition) -> str | dict[str, str]:
    return edge.parent if edge.condition is plain else {"step": edge.parent, "on": str(edge.condition)}


def _action(action: Action) -> dict[str, Any]:
    match action:
        case JobAction():
            return _job(action)
        case HttpAction():
            return _http(action)
        case SleepAction(span):
            return {"sleep": duration.text(span)}
        case HookAction():
            return {"wait_for_webhook": _hook(action) or True}
        case CommandAction():
            return {"run": action.run, "runs_on": action.runs_on} | _input(action.input)
        case ChildAction():
            return {"workflow": action.workflow} | _input(action.input)
        case _:
            assert_never(action)


def _job(action: JobAction) -> dict[str, Any]:
    found = {"job": action.type, "queue": action.queue} | _input(action.input)
    return found if action.priority == DEFAULT_PRIORITY else found | {"priority": action.priority}


def _http(action: HttpAction) -> dict[str, Any]:
    found: dict[str, Any] = {"url": action.url, "method": action.method}
    if action.headers:
        found["headers"] = dict(action.headers)
    if action.query:
        found["query"] = dict(action.query)
    return found if action.body is None else found | {"body": action.body}


def _hook(action: HookAction) -> dict[str, str]:
    found = {} if action.timeout is None else {"timeout": duration.text(action.timeout)}
    return found if action.secret is None else found | {"secret": action.secret}


def _input(value: Any) -> dict[str, Any]:
    return {} if value == {} else {"input": value}


def _copies(step: Step) -> dict[str, Any]:
    found = {} if step.fan_out is None else _fan_out(step.fan_out)
    return found if step.concurrency is None else found | {"concurrency": step.concurrency}


def _fan_out(fan_out: FanOut) -> dict[str, Any]:
    match fan_out:
        case Parallel(count):
            return {"parallel": count}
        case Foreach(items):
            return {"foreach": items}
        case _:
            assert_never(fan_out)


def _attempts(step: Step) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if step.max_attempts != 1 or isinstance(step.action, HttpAction | JobAction | CommandAction):
        found["max_attempts"] = step.max_attempts
    if step.retry is not None:
        policy = step.retry.to_json() | {"kind": str(step.retry.kind)}
        found["retry"] = {key: value for key, value in policy.items() if value is not None}
    if step.timeout is not None:
        found["timeout"] = duration.text(step.timeout)
    return found
