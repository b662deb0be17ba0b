"""A workflow as text. What stands below a step in its column comes after it; `├─` begins a branch beside that column.

The largest branch goes on in the column of its parent, so that neither a long chain nor a comb runs out of the page:
the depth of branches grows with the logarithm of the number of steps.
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
    """Each step once, under the latest of those it needs, the others being named; the final step comes last."""
    told = states(workflow, letters)
    found = [f"{printable(workflow.name)}  {cut(printable(trigger(workflow.trigger)), LONGEST)}"]
    for left, n, above in places(workflow):
        over = workflow.steps[above].name if above is not None else None
        found.append(f"{left}{_line(workflow.steps[n], over, told[n])}")
    return "\n".join(found) + "\n"


def places(workflow: Workflow) -> list[tuple[str, int, int | None]]:
    """(what stands left of it, step, the step it stands under), top down."""
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
    """What the place in the tree does not tell."""
    plain = Condition.SUCCESS if step.condition is None else Condition.COMPLETE
    if not step.edges or [(edge.parent, edge.condition) for edge in step.edges] == [(above, plain)]:
        return []
    shown = ", ".join(need(edge) for edge in step.edges[:MOST_NEEDS])
    more = f" and {len(step.edges) - MOST_NEEDS} more" if len(step.edges) > MOST_NEEDS else ""
    return [f"needs {'any of ' if step.join is Join.ANY else ''}{shown}{more}"]


def _depths(workflow: Workflow) -> list[int]:
    """How many steps are before each, on the longest way."""
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
    """The children of each step in the tree, the largest branch last; None has the roots."""
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
    """(what stands left of it, how it hangs there, step), top down."""
    found: list[tuple[str, str, int]] = []
    waiting = _hung(branches.get(None, []), "")
    while waiting:
        prefix, joint, n = waiting.pop()
        found.append((prefix, joint, n))
        inside = prefix + ("│ " if joint else "")
        waiting += _hung(branches.get(n, []), inside)
    return found


def _hung(children: list[int], prefix: str) -> list[tuple[str, str, int]]:
    """The last to come first: it is a stack."""
    return [(prefix, "" if n == children[-1] else "├─", n) for n in reversed(children)]
