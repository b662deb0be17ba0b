"""Comparison of JSON values. Values of different types are never equal; no comparison raises a type error.

`Budget` counts the cost of comparing large values and stops an evaluation that would take too long.
"""

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any

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
