"""Every string is parsed or refused, and the value of a parsed expression is that of plain Python."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from windlass.core.expressions.expression import Expression, evaluate, parse
from windlass.core.expressions.scope import Facts, JsonText, TaskFacts
from windlass.errors import InvalidExpression

BODY = {"n": 3, "f": 2.5, "t": "abc", "yes": True, "no": False, "nil": None, "list": [1, "a", None, [2]], "o": {"k": 1}}
WORDS = [
    "tasks.a.body",
    "input",
    "'x'",
    "1",
    "(",
    ")",
    "[",
    "]",
    "&&",
    "||",
    "!",
    "==",
    "<",
    "in",
    "len(",
    ",",
    " ",
    ".",
]

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text("ab1é'\\\n", max_size=3)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abn"), inner, max_size=3),
    max_leaves=8,
)

# An expression as its text and the value that it must have.
Meaning = tuple[str, Any]


def quoted(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"'{escaped}'"
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


def typed(value: Any) -> Any:
    """Return a value that equals another in Python exactly if the originals are equal in JSON."""
    if isinstance(value, list):
        return ("list", [typed(item) for item in value])
    if isinstance(value, dict):
        return ("object", {key: typed(member) for key, member in value.items()})
    return ("number" if type(value) is float else "number" if type(value) is int else type(value).__name__, value)


def compared(sign: str, left: Any, right: Any) -> bool:
    if sign in ("==", "!="):
        return (typed(left) == typed(right)) is (sign == "==")
    if sign == "in":
        return within(left, right)
    kinds = {typed(left)[0], typed(right)[0]}
    return kinds in ({"number"}, {"str"}) and bool(eval(f"left {sign} right", {"left": left, "right": right}))


def within(part: Any, whole: Any) -> bool:
    if isinstance(whole, list):
        return typed(part) in [typed(item) for item in whole]
    return isinstance(whole, str | dict) and isinstance(part, str) and part in whole


literals = scalars.map(lambda value: (quoted(value), value))
lists = st.lists(scalars, max_size=3).map(lambda items: (f"[{', '.join(map(quoted, items))}]", items))
paths = st.sampled_from([*BODY, "missing"]).map(lambda key: (f"tasks.a.body.{key}", BODY.get(key)))
operands = literals | lists | paths
signs = st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in"])


def joined(word: str, unite: Callable[[list[bool]], bool]) -> Callable[[list[Meaning]], Meaning]:
    def join(meanings: list[Meaning]) -> Meaning:
        return f" {word} ".join(f"({text})" for text, _ in meanings), unite([bool(value) for _, value in meanings])

    return join


def expressions(inner: st.SearchStrategy[Meaning]) -> st.SearchStrategy[Meaning]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        st.tuples(inner, signs, inner).map(
            lambda m: (f"({m[0][0]}) {m[1]}({m[2][0]})", compared(m[1], m[0][1], m[2][1]))
        ),
        several.map(joined("&&", all)),
        several.map(joined("||", any)),
        inner.map(lambda m: (f"!({m[0]})", not m[1])),
        st.tuples(inner, inner).map(lambda m: (f"contains({m[0][0]},{m[1][0]})", within(m[1][1], m[0][1]))),
        inner.map(lambda m: (f"len( {m[0]} )", len(m[1]) if isinstance(m[1], str | list | dict) else None)),
    )


meanings: st.SearchStrategy[Meaning] = st.recursive(operands, expressions, max_leaves=8)
FACTS = Facts(tasks={"a": TaskFacts(status="success", body=JsonText(json.dumps(BODY)))})


@given(meanings)
def test_the_value_of_an_expression_follows_from_its_operands(meaning: Meaning) -> None:
    text, value = meaning
    verdict = evaluate(parse(text), FACTS)
    assert verdict.holds is bool(value)
    assert verdict.text.startswith(parse(text).summary)


@given(st.text(max_size=80) | st.lists(st.sampled_from(WORDS), max_size=25).map("".join), documents)
@example("tasks.a.body[999999999].0.²", {"a": [1]})
@example("input['²']", [1])
@example("input.٣", [1])
def test_any_string_is_parsed_or_refused_and_can_be_evaluated_with_any_facts(text: str, document: Any) -> None:
    found = read(text)
    if isinstance(found, Expression):
        facts = Facts(trigger_body=document, tasks={"a": TaskFacts(status="failed", body=document)})
        assert evaluate(found, facts) == evaluate(found, facts)
    else:
        assert 1 <= found.column <= len(text) + 1


def read(text: str) -> Expression | InvalidExpression:
    try:
        return parse(text)
    except InvalidExpression as error:
        return error


@given(st.lists(scalars, min_size=2, max_size=4))
def test_at_most_one_of_less_equal_and_greater_holds_for_two_values(values: list[Any]) -> None:
    for left, right in pairwise(values):
        facts = Facts(trigger_body={"l": left, "r": right})
        held = [sign for sign in ("<", "==", ">") if evaluate(parse(f"input.l {sign} input.r"), facts).holds]
        assert len(held) <= 1
        assert evaluate(parse("input.l != input.r"), facts).holds is ("==" not in held)


@given(documents, documents)
def test_equality_is_that_of_json(left: Any, right: Any) -> None:
    facts = Facts(trigger_body={"l": left, "r": right})
    assert evaluate(parse("input.l == input.r"), facts).holds is (typed(left) == typed(right))
    assert evaluate(parse("input.l == input.l && input.r == input.r"), facts).holds
