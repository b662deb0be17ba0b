"""Reads a step of a document: its action, conditions, attempts and fan-out."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from windlass.core.definition.action import (
    ACTION_KEYS,
    ACTIONS,
    ALL_ACTION_KEYS,
    FAN_OUT_KEYS,
    MILLISECOND,
    read_action,
)
from windlass.core.definition.fields import Fields, format_value, inside, is_number
from windlass.core.jobs.retry import Retry
from windlass.core.workflows.step import (
    Action,
    ChildAction,
    CommandAction,
    Condition,
    Edge,
    FanOut,
    Foreach,
    HttpAction,
    JobAction,
    Join,
    Parallel,
    Step,
    UndoAction,
    compensation_name,
)
from windlass.errors import Invalid

HTTP_TIMEOUT = timedelta(seconds=30)
HTTP_ATTEMPTS = 6  # retry_attempts 5
JOB_ATTEMPTS = 3  # as for any job: one crashed worker must not fail the run
MAX_ATTEMPTS = 1000
MAX_INSTANCES = 1_000_000
MAX_CONDITION = 4096

NEED_KEYS = ("step", "on")
RETRY_KEYS = ("kind", "base", "factor", "cap", "jitter")
WHEN_KEYS = frozenset({"name", "needs", "depends_on", "on_failure", "join", "if", "final", "allow_failure"})
COMPENSATING = ("job", "url", "run", "workflow")  # the actions that a compensation may have
STEP_KEYS = WHEN_KEYS | ALL_ACTION_KEYS | {"compensate"}


def read_step(name: str, fields: Fields) -> Step:
    fields.refuse_unknown(STEP_KEYS)
    action = read_action(fields)
    return Step(
        name=name,
        action=action,
        edges=_edges(fields),
        join=fields.choice("join", Join, Join.ALL),
        condition=fields.text("if", limit=MAX_CONDITION),
        final=_final(fields),
        allow_failure=fields.flag("allow_failure"),
        fan_out=_fan_out(fields),
        concurrency=_concurrency(fields),
        max_attempts=_max_attempts(fields, action),
        retry=_retry(fields),
        timeout=_timeout(fields, action),
    )


# Compensation


def read_compensation(step: Step, fields: Fields) -> Step | None:
    """Return the compensation of a step as a step of its own."""
    value = fields.values.get("compensate")
    if value is None or value is False:
        return None
    name = compensation_name(step.name)
    if value is True:
        if isinstance(step.action, ChildAction):
            return Step(name=name, action=UndoAction(step.action.workflow), compensates=step.name)
        fields.refuse("compensate", "true undoes the run of a `workflow` step: give an action, for example {job: TYPE}")
        return None
    undo = fields.object("compensate")
    if undo is None:
        return None
    if step.final:
        fields.refuse("compensate", "the final step cannot have one: it runs before the other steps are undone")
    undo.refuse_unknown(frozenset[str]().union(*(ACTION_KEYS[key] for key in COMPENSATING)) - FAN_OUT_KEYS)
    if not any(key in undo for key in ACTIONS):
        undo.mistakes.unreadable(undo.path, f"it has no action: give one of {', '.join(COMPENSATING)}")
        return None
    action = read_action(undo)
    return Step(
        name=name,
        action=action,
        max_attempts=_max_attempts(undo, action),
        retry=_retry(undo),
        timeout=_timeout(undo, action),
        compensates=step.name,
    )


# Conditions


def _final(fields: Fields) -> bool:
    final = fields.flag("final")
    for key in ("needs", "depends_on", "join"):
        if final and key in fields:
            fields.refuse(key, "a final step cannot have it: it runs when all other steps have ended")
    return final


def _edges(fields: Fields) -> tuple[Edge, ...]:
    key = fields.one_of("needs", "depends_on")
    run_always = fields.values.get("on_failure") == "run"
    if not run_always and fields.values.get("on_failure", "skip") != "skip":
        fields.unreadable("on_failure", "run or skip")
    if key is None:
        return ()
    plain = Condition.COMPLETE if run_always or "if" in fields else Condition.SUCCESS
    edges = _needs(fields, key, plain)
    if run_always and any(edge.condition is not Condition.COMPLETE for edge in edges):
        fields.refuse("on_failure", f"`{key}` contradicts it: `run` means that the step runs however the others end")
    return edges


def _needs(fields: Fields, key: str, plain: Condition) -> tuple[Edge, ...]:
    needs, path = fields.values[key], fields.at(key)
    if isinstance(needs, str):
        return (Edge(needs, plain),)
    if isinstance(needs, Mapping):
        edges = [_edge(fields, inside(path, parent), parent, condition) for parent, condition in needs.items()]
    elif isinstance(needs, list | tuple):
        edges = [_need(fields, f"{path}[{n}]", need, plain) for n, need in enumerate(needs)]
    else:
        fields.unreadable(key, "a list of step names, or an object such as {charge: failure}")
        return ()
    return tuple(edge for edge in edges if edge is not None)


def _need(fields: Fields, path: str, need: object, plain: Condition) -> Edge | None:
    if isinstance(need, str):
        return Edge(need, plain)
    if not isinstance(need, Mapping):
        fields.mistakes.unreadable(path, f"it is {format_value(need)}: it must be the name of a step")
        return None
    Fields(need, path, fields.mistakes).refuse_unknown(NEED_KEYS)
    condition = need.get("on")
    return _edge(fields, path, need.get("step"), plain if condition is None else condition)


def _edge(fields: Fields, path: str, parent: object, condition: object) -> Edge | None:
    if not isinstance(parent, str):
        fields.mistakes.unreadable(path, f"the step is {format_value(parent)}: it must be the name of a step")
        return None
    if not isinstance(condition, str) or condition not in list(Condition):
        message = f"the condition is {format_value(condition)}: it must be one of {', '.join(Condition)}"
        fields.mistakes.unreadable(path, message)
        return Edge(parent)
    return Edge(parent, Condition(condition))


# Fan-out


def _fan_out(fields: Fields) -> FanOut | None:
    if "parallel" in fields and "foreach" in fields:
        fields.refuse("foreach", "`parallel` is given too: give one of them")
    if "foreach" in fields:
        input_ = fields.values.get("input", {})
        if not isinstance(input_, Mapping) and not (isinstance(input_, str) and "{{" in input_):
            fields.refuse("input", "each instance receives its `item` in it, so it must be an object")
        if isinstance(fields.values["foreach"], list | tuple):
            fields.refuse("foreach", "it is a list: give the path to one, for example input.files or discover.files")
            return None
        items = fields.text("foreach")
        return None if items is None else Foreach(items)
    parallel = fields.values.get("parallel")
    if isinstance(parallel, str) and parallel.isascii() and parallel.isdecimal() and len(parallel) < 10:
        fields.values["parallel"] = int(parallel)  # quoted in YAML, or substituted from an environment variable
    path = isinstance(fields.values.get("parallel"), str)
    count = fields.text("parallel") if path else fields.whole("parallel", 0, MAX_INSTANCES)
    return None if count is None else Parallel(count)


def _concurrency(fields: Fields) -> int | None:
    if "concurrency" in fields and "parallel" not in fields and "foreach" not in fields:
        fields.refuse("concurrency", "it limits the instances of a fanned-out step: give `parallel` or `foreach` too")
    return fields.whole("concurrency", 1, MAX_INSTANCES)


# Attempts and timeout


def _max_attempts(fields: Fields, action: Action) -> int:
    key = fields.one_of("max_attempts", "retries", "retry_attempts", "max_retries")
    default = _attempts(action)
    if key is None:
        return default
    if key == "max_attempts":
        return fields.whole(key, 1, MAX_ATTEMPTS) or default
    if key == "max_retries":  # despite its name the total number of attempts; 0 counts as 1
        total = fields.whole(key, 0, MAX_ATTEMPTS)
        return default if total is None else max(total, 1)
    again = fields.whole(key, 0, MAX_ATTEMPTS - 1)
    return default if again is None else again + 1


def _attempts(action: Action) -> int:
    match action:
        case HttpAction():
            return HTTP_ATTEMPTS
        case JobAction() | CommandAction():
            return JOB_ATTEMPTS
        case _:
            return 1


def _retry(fields: Fields) -> Retry | None:
    policy = fields.object("retry")
    if policy is None:
        return None
    policy.refuse_unknown(RETRY_KEYS)
    good: dict[str, Any] = {}
    for key in RETRY_KEYS:
        try:
            if key in policy:
                value = _seconds(policy, key)
                Retry(**{key: value})
                good[key] = value
        except Invalid as error:
            policy.mistakes.unreadable_invalid(policy.at(key), error, f"retry.{key}")
    return Retry(**good)


def _seconds(policy: Fields, key: str) -> Any:
    if key not in ("base", "cap") or not isinstance(policy.values[key], str):
        return policy.values[key]
    span = policy.span(key, unit=None, positive=False)
    return 0 if span is None else span.total_seconds()


def _timeout(fields: Fields, action: Action) -> timedelta | None:
    key = fields.one_of("timeout", "timeout_ms")
    if key == "timeout_ms" and not is_number(fields.values[key]):
        fields.refuse_value(key, "a number of milliseconds")
    elif key is not None:
        return fields.span(key, unit=MILLISECOND)
    return HTTP_TIMEOUT if isinstance(action, HttpAction) else None
