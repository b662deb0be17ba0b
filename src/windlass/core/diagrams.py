"""Diagrams of a workflow as text: a tree and a Mermaid flowchart, and the labels that all formats share.

In the tree a step below another in the same column runs after it; `├─` begins a side branch. The largest branch
continues in the column of its parent, so that neither a long chain nor a comb gets too wide: the depth of branches
grows with the logarithm of the number of steps.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from windlass.core import duration
from windlass.core.events.message import Awaited
from windlass.core.orgs import role_text
from windlass.core.runs.run import WORDS, Letter
from windlass.core.workflows.step import (
    Action,
    ApprovalAction,
    ChildAction,
    CommandAction,
    Condition,
    Edge,
    EventAction,
    FanOut,
    Foreach,
    HookAction,
    HttpAction,
    JobAction,
    Join,
    Parallel,
    Placement,
    SleepAction,
    Step,
    UndoAction,
)
from windlass.core.workflows.workflow import ApiTrigger, CronTrigger, EventTrigger, Trigger, WebhookTrigger, Workflow
from windlass.errors import Invalid

LONGEST_LINE = 100
MOST_NEEDS = 5
MARKS = {
    "waiting": "○",
    "active": "▶",
    "succeeded": "✔",
    "failed": "✘",
    "timed out": "⧖",
    "skipped": "⊘",
    "cancelled": "■",
}

LONGEST_LABEL = 60
UNESCAPED = " _.,:/=-"  # in Mermaid, besides letters and digits
SHAPES = {
    "job": ("[", "]"),
    "http": ("([", "])"),
    "sleep": ("((", "))"),
    "wait": ("{{", "}}"),
    "command": ("[/", "/]"),
    "workflow": ("[[", "]]"),
}
COLOURS = {
    "waiting": "fill:#f1f5f9,stroke:#94a3b8",
    "active": "fill:#dbeafe,stroke:#2563eb",
    "succeeded": "fill:#dcfce7,stroke:#16a34a",
    "failed": "fill:#fee2e2,stroke:#dc2626",
    "timed out": "fill:#ffedd5,stroke:#ea580c",
    "skipped": "fill:#f8fafc,stroke:#cbd5e1,stroke-dasharray:4",
    "cancelled": "fill:#e5e7eb,stroke:#6b7280",
}
assert set(MARKS) == set(COLOURS) == set(WORDS.values())


@dataclass(frozen=True, slots=True)
class Line:
    """An edge to draw, by the numbers of its steps."""

    parent: int
    child: int
    condition: Condition | None  # None: the child is the compensation of the parent


def kind(action: Action) -> str:
    match action:
        case JobAction():
            return "job"
        case HttpAction():
            return "http"
        case SleepAction():
            return "sleep"
        case HookAction() | EventAction() | ApprovalAction():
            return "wait"
        case CommandAction():
            return "command"
        case ChildAction():
            return "workflow"
        case UndoAction():
            return "workflow"
        case _:
            assert_never(action)


def doing(action: Action) -> str:
    """Return a short description of an action."""
    match action:
        case JobAction():
            return f"job {action.type}" + _on(action.placement)
        case HttpAction():
            return f"{action.method} {action.url}"
        case SleepAction(span):
            return f"sleep {duration.text(span)}"
        case HookAction(timeout):
            return "wait for a callback" + (f", {duration.text(timeout)} at most" if timeout is not None else "")
        case EventAction(name, key, timeout, count):
            often = f"{count} times " if count > 1 else ""
            most = f", {duration.text(timeout)} at most" if timeout is not None else ""
            return f"wait for {often}{Awaited(name, key).text}{most}"
        case ApprovalAction(_, _, roles, timeout):
            most = f", {duration.text(timeout)} at most" if timeout is not None else ""
            return f"wait for the approval of {role_text(roles)}{most}"
        case CommandAction():
            return f"run {action.run}" + _on(action.placement)
        case ChildAction():
            return f"workflow {action.workflow}"
        case UndoAction():
            return f"undo the run of {action.workflow}"
        case _:
            assert_never(action)


def _on(placement: Placement) -> str:
    return "" if placement.is_local else f" on {placement.runs_on}"


def conditions(step: Step) -> list[str]:
    """Return the labels for conditions, fan-out and failure handling of a step."""
    labels = ["final"] if step.final else []
    if step.compensates is not None:
        labels.append(f"compensates {step.compensates}")
    if step.allow_failure:
        labels.append("may fail")
    if step.fan_out is not None:
        at_a_time = f", {step.concurrency} at a time" if step.concurrency is not None else ""
        labels.append(_copies(step.fan_out) + at_a_time)
    if step.condition is not None:
        labels.append(f"if {step.condition}")
    return labels


def need(edge: Edge) -> str:
    return edge.parent if edge.condition is Condition.SUCCESS else f"{edge.parent} ({edge.condition})"


def lines(workflow: Workflow) -> list[Line]:
    """Return all edges, including those from every step without children to the final step, and to compensations."""
    plan = workflow.plan
    drawn = [Line(parent, child, condition) for child, edges in enumerate(plan.parents) for parent, condition in edges]
    if plan.final is not None:
        others = plan.compensations | {plan.final}
        ends = [n for n, children in enumerate(plan.children) if not children and n not in others]
        drawn += [Line(n, plan.final, Condition.COMPLETE) for n in ends]
    return drawn + [Line(step, compensation, None) for step, compensation in plan.undo.items()]


def depths(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Return the length of the longest path to each of `count` steps; edges are (parent, child)."""
    children: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count  # parents without a final depth
    for parent, child in edges:
        children[parent].append(child)
        missing[child] += 1
    depth = [0] * count
    ready = [n for n, parents in enumerate(missing) if not parents]
    for n in ready:
        for child in children[n]:
            depth[child] = max(depth[child], depth[n] + 1)
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    return depth


def trigger(value: Trigger) -> str:
    match value:
        case ApiTrigger():
            return "on request"
        case WebhookTrigger():
            return "on a webhook"
        case EventTrigger(event, condition):
            return f"on event {event}" + (f" if {condition}" if condition is not None else "")
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
    return [WORDS[Letter(letter)] for letter in letters]


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


# The tree


def draw_tree(workflow: Workflow, letters: str | None = None) -> str:
    """Draw a tree. Each step appears once, under its deepest parent, with the others named. The final step is last."""
    step_states = states(workflow, letters)
    tree = [f"{printable(workflow.name)}  {cut(printable(trigger(workflow.trigger)), LONGEST_LINE)}"]
    for left, n, above in places(workflow):
        over = workflow.steps[above].name if above is not None else None
        tree.append(f"{left}{_line(workflow.steps[n], over, step_states[n])}")
    return "\n".join(tree) + "\n"


def places(workflow: Workflow) -> list[tuple[str, int, int | None]]:
    """Return (prefix, step, the step above it) for each line, top down."""
    final = workflow.plan.final
    parents = [set[int]() if n == final else workflow.plan.before(n) for n in range(len(workflow.steps))]
    depth = depths(len(parents), ((above, n) for n, needs in enumerate(parents) for above in needs))
    parent = [max(needs, key=lambda n: (depth[n], n), default=None) for needs in parents]
    branches = _branches(parent, depth, workflow.plan.final)
    rows = [(f"{prefix}{joint}", n, parent[n]) for prefix, joint, n in _walk(branches)]
    return rows if workflow.plan.final is None else [*rows, ("", workflow.plan.final, parent[workflow.plan.final])]


def _line(step: Step, above: str | None, state: str | None) -> str:
    mark = ("◆" if step.final else "●") if state is None else MARKS[state]
    more = [*([] if state is None else [state]), *conditions(step), *_needs(step, above)]
    text = "; ".join(cut(printable(part), LONGEST_LINE) for part in (doing(step.action), *more))
    return f"{mark} {printable(step.name)}  {text}"


def _needs(step: Step, above: str | None) -> list[str]:
    """Return the dependencies that the position in the tree does not show."""
    plain = Condition.SUCCESS if step.condition is None else Condition.COMPLETE
    if not step.edges or [(edge.parent, edge.condition) for edge in step.edges] == [(above, plain)]:
        return []
    names = ", ".join(need(edge) for edge in step.edges[:MOST_NEEDS])
    more = f" and {len(step.edges) - MOST_NEEDS} more" if len(step.edges) > MOST_NEEDS else ""
    return [f"needs {'any of ' if step.join is Join.ANY else ''}{names}{more}"]


def _branches(parent: Sequence[int | None], depth: Sequence[int], final: int | None) -> dict[int | None, list[int]]:
    """Return the children of each step in the tree, the largest branch last; the key None has the roots."""
    size = [1] * len(parent)
    for n in sorted(range(len(parent)), key=lambda n: -depth[n]):
        above = parent[n]
        if above is not None:
            size[above] += size[n]
    branches: dict[int | None, list[int]] = {None: []}
    for n, above in enumerate(parent):
        if n != final:
            branches.setdefault(above, []).append(n)
    for children in branches.values():
        largest = max(children, key=lambda n: (size[n], n)) if children else None
        children.sort(key=lambda n: n == largest)
    return branches


def _walk(branches: dict[int | None, list[int]]) -> list[tuple[str, str, int]]:
    """Return (prefix, joint, step) for each line, top down."""
    entries: list[tuple[str, str, int]] = []
    waiting = _child_entries(branches.get(None, []), "")
    while waiting:
        prefix, joint, n = waiting.pop()
        entries.append((prefix, joint, n))
        inside = prefix + ("│ " if joint else "")
        waiting += _child_entries(branches.get(n, []), inside)
    return entries


def _child_entries(children: list[int], prefix: str) -> list[tuple[str, str, int]]:
    """Return the entries of the children in reverse order, since the caller pops from the end."""
    return [(prefix, "" if n == children[-1] else "├─", n) for n in reversed(children)]


# Mermaid


def draw_mermaid(workflow: Workflow, letters: str | None = None) -> str:
    chart = ["flowchart TD"]
    for n, step in enumerate(workflow.steps):
        left, right = SHAPES[kind(step.action)]
        words = [step.name, doing(step.action), *conditions(step)]
        label = "<br/>".join(_escaped(cut(word, LONGEST_LABEL)) for word in words)
        chart.append(f'  s{n}{left}"{label}"{right}')
    chart += [f"  s{line.parent} {_arrow(line.condition)} s{line.child}" for line in lines(workflow)]
    return "\n".join([*chart, *_coloured(states(workflow, letters))]) + "\n"


def _arrow(condition: Condition | None) -> str:
    return "-->" if condition is Condition.SUCCESS else f"-. {condition or 'compensate'} .->"


def _coloured(step_states: list[str | None]) -> Iterator[str]:
    for state, style in COLOURS.items():
        if members := [f"s{n}" for n, known in enumerate(step_states) if known == state]:
            name = state.replace(" ", "_")
            yield f"  classDef {name} {style}"
            yield f"  class {','.join(members)} {name}"


def _escaped(text: str) -> str:
    """Escape with Mermaid's entity codes: a number between # and ;"""
    return "".join(char if char.isalnum() or char in UNESCAPED else f"#{ord(char)};" for char in text)
