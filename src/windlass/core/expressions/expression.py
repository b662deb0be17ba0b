"""The language of `if`: small, total, with explained results.

    tasks.charge.status_code == 200 && (tasks.charge.body.total > 0 || 'vip' in trigger.body.tags)

`parse` rejects invalid expressions with the column. `evaluate` never fails: missing values are null, values of
different types are neither equal nor ordered, and an expression that would take too long is false.
The manual: docs/reference/expressions.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from windlass.core.expressions.explain import LONGEST_EXPRESSION, cut, told
from windlass.core.expressions.nodes import Call, Compare, Every, Literal, Node, Not, Reference, Sight, Some
from windlass.core.expressions.parser import tree
from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import Facts
from windlass.core.expressions.values import TooCostly, truth

ABOUT_ANCESTORS = frozenset({"success", "failure"})


@dataclass(frozen=True, eq=False)
class Expression:
    text: str  # the source
    root: Node

    @cached_property
    def shown(self) -> str:
        """The source on one line, shortened."""
        return cut(" ".join(self.text.split()), LONGEST_EXPRESSION)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The paths that it may read, without duplicates."""
        found = (node.path for node in _nodes(self.root) if isinstance(node, Reference))
        return tuple(dict.fromkeys(found))

    @cached_property
    def steps(self) -> frozenset[str]:
        """The steps whose results it may read."""
        return frozenset(path.name for path in self.paths if path.root == "tasks")

    @cached_property
    def asks_about_ancestors(self) -> bool:
        """Whether `ancestors_failed` and `all_succeeded` are needed."""
        return any(isinstance(node, Call) and node.function in ABOUT_ANCESTORS for node in _nodes(self.root))


@dataclass(frozen=True, slots=True)
class Verdict:
    holds: bool
    text: str  # the explanation


def parse(text: str) -> Expression:
    return Expression(text, tree(text))


def evaluate(expression: Expression, facts: Facts) -> Verdict:
    sight = Sight(facts)
    try:
        holds = truth(expression.root.value(sight))
    except TooCostly:
        return Verdict(False, f"{expression.shown} counts as false: it would compare too much")
    return Verdict(holds, told(expression.shown, holds, sight.seen))


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(_inner(node))


def _inner(node: Node) -> tuple[Node, ...]:
    match node:
        case Literal() | Reference():
            return ()
        case Compare(_, left, right):
            return (left, right)
        case Not(inner):
            return (inner,)
        case Every(items) | Some(items):
            return items
        case Call(_, arguments):
            return arguments
