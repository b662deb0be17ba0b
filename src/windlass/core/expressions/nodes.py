"""The nodes of a parsed expression. Evaluating a node fails only if the budget is exceeded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from windlass.core.expressions.paths import Path
from windlass.core.expressions.scope import Facts, Nothing, find
from windlass.core.expressions.values import Budget, begins, contains, ordered, same, size, truth


class Sight:
    """The state of one evaluation: the facts, and the values that were read."""

    __slots__ = ("budget", "facts", "seen")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.seen: dict[str, tuple[Path | None, Any]] = {}
        self.budget = Budget()


@dataclass(frozen=True, slots=True)
class Literal:
    constant: Any

    def value(self, sight: Sight) -> Any:
        return self.constant


@dataclass(frozen=True, slots=True)
class Reference:
    path: Path

    def value(self, sight: Sight) -> Any:
        found = find(sight.facts, self.path)
        sight.seen[self.path.text] = self.path, found
        if found.__class__ is Nothing:
            return None
        return None if found.__class__ is float and not isfinite(found) else found


@dataclass(frozen=True, slots=True)
class Compare:
    sign: str
    left: "Node"
    right: "Node"

    def value(self, sight: Sight) -> bool:
        left, right = self.left.value(sight), self.right.value(sight)
        match self.sign:
            case "==":
                return same(left, right, sight.budget)
            case "!=":
                return not same(left, right, sight.budget)
            case "in":
                return contains(right, left, sight.budget)
            case _:
                return ordered(self.sign, left, right)


@dataclass(frozen=True, slots=True)
class Not:
    inner: "Node"

    def value(self, sight: Sight) -> bool:
        return not truth(self.inner.value(sight))


@dataclass(frozen=True, slots=True)
class Every:
    """`&&`: stops at the first false item."""

    items: tuple["Node", ...]

    def value(self, sight: Sight) -> bool:
        return all(truth(item.value(sight)) for item in self.items)


@dataclass(frozen=True, slots=True)
class Some:
    """`||`: stops at the first true item."""

    items: tuple["Node", ...]

    def value(self, sight: Sight) -> bool:
        return any(truth(item.value(sight)) for item in self.items)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple["Node", ...]

    def value(self, sight: Sight) -> Any:
        values = [argument.value(sight) for argument in self.arguments]
        return FUNCTIONS[self.function].work(sight, *values)


Node = Literal | Reference | Compare | Not | Every | Some | Call


@dataclass(frozen=True, slots=True)
class Function:
    arity: int
    work: Callable[..., Any]


def _success(sight: Sight) -> bool:
    sight.seen["success()"] = None, sight.facts.all_succeeded
    return sight.facts.all_succeeded


def _failure(sight: Sight) -> bool:
    sight.seen["failure()"] = None, sight.facts.ancestors_failed
    return sight.facts.ancestors_failed


FUNCTIONS: Mapping[str, Function] = {
    "success": Function(0, _success),
    "failure": Function(0, _failure),
    "always": Function(0, lambda sight: True),
    "len": Function(1, lambda sight, value: size(value)),
    "contains": Function(2, lambda sight, whole, part: contains(whole, part, sight.budget)),
    "startsWith": Function(2, lambda sight, text, start: begins(text, start, sight.budget)),
}
