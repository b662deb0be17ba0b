"""Every result has a reason: the expression and the values that it read, short enough to be stored and shown."""

from typing import Any

import pytest

from windlass.core.expressions.expression import evaluate, parse
from windlass.core.expressions.scope import Facts, TaskFacts

FACTS = Facts(
    trigger_body={"tags": ["vip", "new"], "none": None, "on": True},
    trigger_headers={"x-kind": "test"},
    tasks={
        "charge": TaskFacts(status="success", status_code=200),
        "large": TaskFacts(status="success", truncated=True),
    },
)
CUT = "because the response from 'large' was truncated"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("always()", "always() is true"),
        ("tasks.charge.status_code == 201", " is false: tasks.charge.status_code is 200"),
        (
            "tasks.charge.status\n  ==   'failed'",
            "tasks.charge.status == 'failed' is false: tasks.charge.status is 'success'",
        ),
        ("trigger.body.tags == []", ' is false: trigger.body.tags is ["vip", "new"]'),
        ("trigger.body.on && trigger.body.none", " is false: trigger.body.on is true, trigger.body.none is null"),
        ("trigger.body.none && trigger.body.on", " is false: trigger.body.none is null"),
        ("input.x == input.x", " is true: input.x is null"),
        ("failure()", "failure() is false: no step before it failed"),
        ("success()", "success() is true: every step before it succeeded"),
        (
            "tasks.large.body.a",
            " is false: tasks.large.body.a is null, because the response from 'large' was truncated",
        ),
        ("len(trigger.headers) == 1", " is true: trigger.headers is not shown"),
    ],
)
def test_the_reason_shows_the_values_that_were_read(text: str, told: str) -> None:
    assert evaluate(parse(text), FACTS).text.endswith(told)


@pytest.mark.parametrize(
    "value",
    ["x" * 10_000_000, list(range(1_000_000)), {"k" * 999: {"a": "x"}}, 10**300, [[[]]] * 100, {1, 2}, 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_long_values_are_shortened(value: Any) -> None:
    text = evaluate(parse("input.x == 1"), Facts(trigger_body={"x": value})).text
    assert len(text) < 120


def test_long_expressions_and_many_values_are_shortened() -> None:
    text = " || ".join(f"input.a{n} == 1" for n in range(100))
    told = evaluate(parse(text), Facts()).text
    assert told.endswith("input.a7 is null and 92 more")
    assert len(told) < 500


def test_the_reason_never_shows_headers_with_credentials() -> None:
    facts = Facts(trigger_headers={"authorization": "Bearer s3cret", "x-kind": "test"})
    verdict = evaluate(parse("trigger.headers.Authorization == 'x' || trigger.headers == 1"), facts)
    assert "s3cret" not in verdict.text
    assert "trigger.headers.Authorization is not shown" in verdict.text
