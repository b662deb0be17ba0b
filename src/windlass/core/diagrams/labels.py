"""The labels of steps and edges, shared by all diagram formats. Nothing here is escaped."""

from dataclasses import dataclass
from typing import assert_never

from windlass.core import duration
from windlass.core.runs.run import Letter
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
    Parallel,
    SleepAction,
    Step,
)
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger, Trigger, WebhookTrigger, Workflow
from windlass.errors import Invalid

STATES = {letter: letter.name.lower().replace("_", " ") for letter in Letter}


@dataclass(frozen=True, slots=True)
class Line:
    """An edge to draw, by the numbers of its steps."""

    parent: int
    child: int
    condition: Condition


def kind(action: Action) -> str:
    match action:
        case JobAction():
            return "job"
        case HttpAction():
            return "http"
        case SleepAction():
            return "sleep"
        case HookAction():
            return "wait"
        case CommandAction():
            return "command"
        case ChildAction():
            return "workflow"
        case _:
            assert_never(action)


def doing(action: Action) -> str:
    """Return a short description of an action."""
    match action:
        case JobAction():
            return f"job {action.type}"
        case HttpAction():
            return f"{action.method} {action.url}"
        case SleepAction(span):
            return f"sleep {duration.text(span)}"
        case HookAction(timeout):
            return "wait for a callback" + (f", {duration.text(timeout)} at most" if timeout is not None else "")
        case CommandAction():
            return f"run {action.run}" + (f" on {action.runs_on}" if action.runs_on != "local" else "")
        case ChildAction():
            return f"workflow {action.workflow}"
        case _:
            assert_never(action)


def conditions(step: Step) -> list[str]:
    """Return the labels for conditions, fan-out and failure handling of a step."""
    found = ["final"] if step.final else []
    if step.allow_failure:
        found.append("may fail")
    if step.fan_out is not None:
        at_a_time = f", {step.concurrency} at a time" if step.concurrency is not None else ""
        found.append(_copies(step.fan_out) + at_a_time)
    if step.condition is not None:
        found.append(f"if {step.condition}")
    return found


def need(edge: Edge) -> str:
    return edge.parent if edge.condition is Condition.SUCCESS else f"{edge.parent} ({edge.condition})"


def lines(workflow: Workflow) -> list[Line]:
    """Return all edges, including those from every step without children to the final step."""
    plan = workflow.plan
    found = [Line(parent, child, condition) for child, edges in enumerate(plan.parents) for parent, condition in edges]
    if plan.final is not None:
        ends = [n for n, children in enumerate(plan.children) if not children and n != plan.final]
        found += [Line(n, plan.final, Condition.COMPLETE) for n in ends]
    return found


def trigger(value: Trigger) -> str:
    match value:
        case ApiTrigger():
            return "on request"
        case WebhookTrigger():
            return "on a webhook"
        case CronTrigger():
            return f"cron {value.cron}, {value.timezone}"
        case _:
            assert_never(value)


def states(workflow: Workflow, letters: str | None) -> list[str | None]:
    """Return the state of each step from a run's letters; without letters, None for each."""
    if letters is None:
        return [None] * len(workflow.steps)
    if len(letters) != len(workflow.steps):
        raise Invalid(f"there are {len(letters)} letters for the {len(workflow.steps)} steps of {workflow.name}")
    return [STATES[Letter(letter)] for letter in letters]


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def printable(text: str) -> str:
    """Escape line breaks and terminal control characters."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _copies(fan_out: FanOut) -> str:
    match fan_out:
        case Parallel(count):
            return f"{count} instances"
        case Foreach(items):
            return f"for each of {items}"
        case _:
            assert_never(fan_out)
