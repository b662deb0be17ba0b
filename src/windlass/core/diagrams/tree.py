"""Draws a workflow as a text tree. A step below another in the same column runs after it; `├─` begins a side branch.

The largest branch continues in the column of its parent, so that neither a long chain nor a comb gets too wide: the
depth of branches grows with the logarithm of the number of steps.
"""

from collections.abc import Sequence

from windlass.core.diagrams.labels import conditions, cut, doing, need, printable, states, trigger
from windlass.core.runs.run import Letter
from windlass.core.workflows.step import Condition, Join, Step
from windlass.core.workflows.workflow import Workflow

LONGEST = 100
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
assert len(MARKS) == len(Letter)


def draw_tree(workflow: Workflow, letters: str | None = None) -> str:
    """Return the tree. Each step appears once, under its deepest parent; others are named. The final step is last."""
    step_states = states(workflow, letters)
    tree = [f"{printable(workflow.name)}  {cut(printable(trigger(workflow.trigger)), LONGEST)}"]
    for left, n, above in places(workflow):
        over = workflow.steps[above].name if above is not None else None
        tree.append(f"{left}{_line(workflow.steps[n], over, step_states[n])}")
    return "\n".join(tree) + "\n"


def places(workflow: Workflow) -> list[tuple[str, int, int | None]]:
    """Return (prefix, step, the step above it) for each line, top down."""
    depth = _depths(workflow)
    parent = [_main_parent(workflow, n, depth) for n in range(len(workflow.steps))]
    branches = _branches(parent, depth, workflow.plan.final)
    found = [(f"{prefix}{joint}", n, parent[n]) for prefix, joint, n in _walk(branches)]
    return found if workflow.plan.final is None else [*found, ("", workflow.plan.final, parent[workflow.plan.final])]


def _line(step: Step, above: str | None, state: str | None) -> str:
    mark = ("◆" if step.final else "●") if state is None else MARKS[state]
    more = [*([] if state is None else [state]), *conditions(step), *_needs(step, above)]
    text = "; ".join(cut(printable(part), LONGEST) for part in (doing(step.action), *more))
    return f"{mark} {printable(step.name)}  {text}"


def _needs(step: Step, above: str | None) -> list[str]:
    """Return the dependencies that the position in the tree does not show."""
    plain = Condition.SUCCESS if step.condition is None else Condition.COMPLETE
    if not step.edges or [(edge.parent, edge.condition) for edge in step.edges] == [(above, plain)]:
        return []
    shown = ", ".join(need(edge) for edge in step.edges[:MOST_NEEDS])
    more = f" and {len(step.edges) - MOST_NEEDS} more" if len(step.edges) > MOST_NEEDS else ""
    return [f"needs {'any of ' if step.join is Join.ANY else ''}{shown}{more}"]


def _depths(workflow: Workflow) -> list[int]:
    """Return the length of the longest path to each step."""
    plan = workflow.plan
    depth = [0] * len(workflow.steps)
    wanting = [len({parent for parent, _ in edges}) for edges in plan.parents]
    ready = [n for n, count in enumerate(wanting) if not count]
    for n in ready:
        for child in plan.children[n]:
            depth[child] = max(depth[child], depth[n] + 1)
            wanting[child] -= 1
            if not wanting[child]:
                ready.append(child)
    return depth


def _main_parent(workflow: Workflow, n: int, depth: Sequence[int]) -> int | None:
    parents = [parent for parent, _ in workflow.plan.parents[n]]
    return max(parents, key=lambda parent: (depth[parent], parent)) if parents else None


def _branches(parent: Sequence[int | None], depth: Sequence[int], final: int | None) -> dict[int | None, list[int]]:
    """Return the children of each step in the tree, the largest branch last; the key None has the roots."""
    size = [1] * len(parent)
    for n in sorted(range(len(parent)), key=lambda n: -depth[n]):
        above = parent[n]
        if above is not None:
            size[above] += size[n]
    found: dict[int | None, list[int]] = {None: []}
    for n, above in enumerate(parent):
        if n != final:
            found.setdefault(above, []).append(n)
    for children in found.values():
        largest = max(children, key=lambda n: (size[n], n)) if children else None
        children.sort(key=lambda n: n == largest)
    return found


def _walk(branches: dict[int | None, list[int]]) -> list[tuple[str, str, int]]:
    """Return (prefix, joint, step) for each line, top down."""
    found: list[tuple[str, str, int]] = []
    waiting = _hung(branches.get(None, []), "")
    while waiting:
        prefix, joint, n = waiting.pop()
        found.append((prefix, joint, n))
        inside = prefix + ("│ " if joint else "")
        waiting += _hung(branches.get(n, []), inside)
    return found


def _hung(children: list[int], prefix: str) -> list[tuple[str, str, int]]:
    """Return the entries of the children in reverse order, since the caller pops from the end."""
    return [(prefix, "" if n == children[-1] else "├─", n) for n in reversed(children)]
