"""Draws a workflow as a Mermaid flowchart. Node ids are step numbers; labels are escaped."""

from collections.abc import Iterator

from windlass.core.diagrams.labels import STATES, conditions, cut, doing, kind, lines, states
from windlass.core.workflows.step import Condition
from windlass.core.workflows.workflow import Workflow

LONGEST = 60
PLAIN = " _.,:/=-"  # not escaped, like letters and digits
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
assert set(COLOURS) == set(STATES.values())


def draw_mermaid(workflow: Workflow, letters: str | None = None) -> str:
    chart = ["flowchart TD"]
    for n, step in enumerate(workflow.steps):
        left, right = SHAPES[kind(step.action)]
        words = [step.name, doing(step.action), *conditions(step)]
        label = "<br/>".join(_escaped(cut(word, LONGEST)) for word in words)
        chart.append(f'  s{n}{left}"{label}"{right}')
    chart += [f"  s{line.parent} {_arrow(line.condition)} s{line.child}" for line in lines(workflow)]
    return "\n".join([*chart, *_coloured(states(workflow, letters))]) + "\n"


def _arrow(condition: Condition) -> str:
    return "-->" if condition is Condition.SUCCESS else f"-. {condition} .->"


def _coloured(step_states: list[str | None]) -> Iterator[str]:
    for state, style in COLOURS.items():
        if members := [f"s{n}" for n, known in enumerate(step_states) if known == state]:
            name = state.replace(" ", "_")
            yield f"  classDef {name} {style}"
            yield f"  class {','.join(members)} {name}"


def _escaped(text: str) -> str:
    """Escape with Mermaid's entity codes: a number between # and ;"""
    return "".join(char if char.isalnum() or char in PLAIN else f"#{ord(char)};" for char in text)
