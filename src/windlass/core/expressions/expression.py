"""The expression language of `if`. Every evaluation returns a result and its explanation.

    tasks.charge.status_code == 200 && (tasks.charge.body.total > 0 || 'vip' in trigger.body.tags)

`parse` rejects invalid expressions with the column. `evaluate` never fails: missing values are null, values of
different types are neither equal nor ordered, and an expression that would take too long is false. An explanation
contains the values that were read, shortened and without credentials in headers, since it is stored, shown and logged.
The manual: docs/reference/expressions.md.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from windlass.core.expressions.nodes import (
    Call,
    Compare,
    Evaluation,
    Every,
    Literal,
    Node,
    Not,
    Reference,
    Some,
    TooCostly,
    truth,
)
from windlass.core.expressions.parser import tree
from windlass.core.expressions.scope import Facts, Nothing, Path, cut
from windlass.core.json_value import is_secret, plain

ABOUT_ANCESTORS = frozenset({"success", "failure"})
LONGEST_VALUE = 60
LONGEST_EXPRESSION = 200
MOST_VALUES = 8
LITERALS = {None: "null", True: "true", False: "false"}
FUNCTION_WORDS = {
    ("success()", True): "every step before it succeeded",
    ("success()", False): "not every step before it succeeded",
    ("failure()", True): "a step before it failed",
    ("failure()", False): "no step before it failed",
}
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(", ", ": "), check_circular=True)


@dataclass(frozen=True, eq=False)
class Expression:
    text: str  # the source
    root: Node

    @cached_property
    def summary(self) -> str:
        """The source on one line, shortened."""
        return cut(" ".join(self.text.split()), LONGEST_EXPRESSION)

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """The paths that it may read, without duplicates."""
        references = (node.path for node in _nodes(self.root) if isinstance(node, Reference))
        return tuple(dict.fromkeys(references))

    @cached_property
    def needs_ancestors(self) -> bool:
        """Whether `ancestors_failed` and `all_succeeded` are needed."""
        return any(isinstance(node, Call) and node.function in ABOUT_ANCESTORS for node in _nodes(self.root))


@dataclass(frozen=True, slots=True)
class Verdict:
    holds: bool
    text: str  # the explanation


def parse(text: str) -> Expression:
    return Expression(text, tree(text))


def evaluate(expression: Expression, facts: Facts) -> Verdict:
    evaluation = Evaluation(facts)
    try:
        holds = truth(expression.root.value(evaluation))
    except TooCostly:
        return Verdict(False, f"{expression.summary} is false: evaluating it would compare too many values")
    return Verdict(holds, _explained(expression.summary, holds, evaluation.seen))


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


def _explained(expression: str, holds: bool, seen: Mapping[str, tuple[Path | None, Any]]) -> str:
    head = f"{expression} is {'true' if holds else 'false'}"
    if not seen:
        return head
    values = [_reading(text, path, value) for text, (path, value) in islice(seen.items(), MOST_VALUES)]
    more = len(seen) - MOST_VALUES
    return f"{head}: {', '.join(values)}" + (f" and {more} more" if more > 0 else "")


def _short(value: Any) -> str:
    """Return a value as a short string. Encoding stops as soon as the limit is reached."""
    if value is None or isinstance(value, bool):
        return LITERALS[value]
    if isinstance(value, str):
        return f"'{plain(cut(value, LONGEST_VALUE))}'"
    return plain(cut(_beginning(value), LONGEST_VALUE))


def _reading(text: str, path: Path | None, value: Any) -> str:
    if path is None:
        return FUNCTION_WORDS[text, value]
    text = cut(text, LONGEST_EXPRESSION)
    if value is Nothing.TRUNCATED:
        return f"{text} is null, because the response from {path.name!r} was truncated"
    if value is Nothing.MISSING:
        return f"{text} is null"
    if path.field == "headers" and (not path.rest or is_secret(str(path.rest[0]))):
        return f"{text} is not shown"
    return f"{text} is {_short(value)}"


def _beginning(value: Any) -> str:
    text = ""
    try:
        if isinstance(value, int | float):
            return str(value)
        for piece in _encoder.iterencode(value):
            text += piece
            if len(text) > LONGEST_VALUE:
                break
    except (TypeError, ValueError, RecursionError):
        return "a value that cannot be shown"
    return text
