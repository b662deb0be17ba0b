"""The nodes of a parsed expression, and the comparison of JSON values.

Values of different types are never equal, and no comparison raises a type error. Evaluating a node fails only if the
budget is exceeded: `Budget` counts the cost of comparing large values and stops an evaluation that would take too long.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from operator import ge, gt, le, lt
from typing import Any

from windlass.core.expressions.scope import Facts, Nothing, Path, find

MAX_COST = 100_000  # comparisons of single values
CHARACTERS = 256  # that cost as much to compare as one value
ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {">": gt, ">=": ge, "<": lt, "<=": le}


class TooCostly(Exception):
    """The budget is used up. `evaluate` catches it."""


class Budget:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_COST

    def spend(self, cost: int = 1) -> None:
        self.left -= cost
        if self.left < 0:
            raise TooCostly


def truth(value: Any) -> bool:
    """Return whether a value is true: all but false, null, 0 and empty strings, lists and objects."""
    return bool(value)


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    return "list" if isinstance(value, list | tuple) else "object" if isinstance(value, Mapping) else "other"


def same(left: Any, right: Any, budget: Budget) -> bool:
    """Return whether type and value are equal at every depth. Iterative: untrusted values may be nested deeply."""
    waiting = [(left, right)]
    while waiting:
        left, right = waiting.pop()
        budget.spend()
        if (sort := kind(left)) != kind(right):
            return False
        if sort == "list" or sort == "object":
            if len(left) != len(right):
                return False
            budget.spend(len(left))
            if sort == "list":
                waiting += zip(left, right, strict=True)
            elif left.keys() != right.keys():
                return False
            else:
                waiting += ((left[key], right[key]) for key in left)
        elif sort == "other" or left != right:
            return False
        elif sort == "text":
            budget.spend(len(left) // CHARACTERS)
    return True


def ordered(sign: str, left: Any, right: Any) -> bool:
    """Compare two numbers, or two strings by their characters; False for all other types."""
    sort = kind(left)
    return sort == kind(right) and sort in ("number", "text") and ORDERS[sign](left, right)


def contains(whole: Any, part: Any, budget: Budget) -> bool:
    """Return whether a list has this item, a string this substring or an object this key."""
    match kind(whole):
        case "list":
            return any(same(item, part, budget) for item in whole)
        case "text":
            budget.spend(len(whole) // CHARACTERS)
            return isinstance(part, str) and part in whole
        case "object":
            return isinstance(part, str) and part in whole
        case _:
            return False


def begins(text: Any, start: Any, budget: Budget) -> bool:
    if not isinstance(text, str) or not isinstance(start, str):
        return False
    budget.spend(len(start) // CHARACTERS)
    return text.startswith(start)


def size(value: Any) -> int | None:
    return len(value) if kind(value) in ("text", "list", "object") else None


class Evaluation:
    """The state of one evaluation: the facts, and the values that were read."""

    __slots__ = ("budget", "facts", "seen")

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.seen: dict[str, tuple[Path | None, Any]] = {}
        self.budget = Budget()

    def note(self, text: str, value: Any, path: Path | None = None) -> Any:
        """Record and return a value that was read."""
        self.seen[text] = path, value
        return value


@dataclass(frozen=True, slots=True)
class Literal:
    constant: Any

    def value(self, evaluation: Evaluation) -> Any:
        return self.constant


@dataclass(frozen=True, slots=True)
class Reference:
    path: Path

    def value(self, evaluation: Evaluation) -> Any:
        value = evaluation.note(self.path.text, find(evaluation.facts, self.path), self.path)
        if value.__class__ is Nothing:
            return None
        return None if value.__class__ is float and not isfinite(value) else value


@dataclass(frozen=True, slots=True)
class Compare:
    sign: str
    left: "Node"
    right: "Node"

    def value(self, evaluation: Evaluation) -> bool:
        left, right = self.left.value(evaluation), self.right.value(evaluation)
        match self.sign:
            case "==":
                return same(left, right, evaluation.budget)
            case "!=":
                return not same(left, right, evaluation.budget)
            case "in":
                return contains(right, left, evaluation.budget)
            case _:
                return ordered(self.sign, left, right)


@dataclass(frozen=True, slots=True)
class Not:
    inner: "Node"

    def value(self, evaluation: Evaluation) -> bool:
        return not truth(self.inner.value(evaluation))


@dataclass(frozen=True, slots=True)
class Every:
    """`&&`: stops at the first false item."""

    items: tuple["Node", ...]

    def value(self, evaluation: Evaluation) -> bool:
        return all(truth(item.value(evaluation)) for item in self.items)


@dataclass(frozen=True, slots=True)
class Some:
    """`||`: stops at the first true item."""

    items: tuple["Node", ...]

    def value(self, evaluation: Evaluation) -> bool:
        return any(truth(item.value(evaluation)) for item in self.items)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    arguments: tuple["Node", ...]

    def value(self, evaluation: Evaluation) -> Any:
        values = [argument.value(evaluation) for argument in self.arguments]
        return FUNCTIONS[self.function].work(evaluation, *values)


Node = Literal | Reference | Compare | Not | Every | Some | Call


@dataclass(frozen=True, slots=True)
class Function:
    arity: int
    work: Callable[..., Any]


FUNCTIONS: Mapping[str, Function] = {
    "success": Function(0, lambda evaluation: evaluation.note("success()", evaluation.facts.all_succeeded)),
    "failure": Function(0, lambda evaluation: evaluation.note("failure()", evaluation.facts.ancestors_failed)),
    "always": Function(0, lambda evaluation: True),
    "len": Function(1, lambda evaluation, value: size(value)),
    "contains": Function(2, lambda evaluation, whole, part: contains(whole, part, evaluation.budget)),
    "startsWith": Function(2, lambda evaluation, text, start: begins(text, start, evaluation.budget)),
}
