"""A definition may only refer to values that can be known: invalid `if`s and templates are listed with their paths."""

from typing import Any

import pytest

from windlass.core.definition.parser import parse
from windlass.core.definition.shape import ENOUGH
from windlass.errors import InvalidWorkflow

JOB = {"job": "a.b.v1"}
HTTP = {"url": "https://x.example"}
HOOK = {"wait_for_webhook": True}


def mistakes(**tasks: Any) -> list[str]:
    try:
        parse({"name": "w", "tasks": tasks})
    except InvalidWorkflow as refusal:
        return [f"{path}: {message}" for path, message in refusal.errors]
    return []


def of(step: dict[str, Any]) -> list[str]:
    """Return the errors of a step that needs `near`, which needs `far`; `paid` needs it, `other` has no edges."""
    near = {**JOB, "needs": ["far"]}
    return mistakes(far=JOB, near=near, other=JOB, paid={**HOOK, "needs": ["it"]}, it={"needs": ["near"], **step})


@pytest.mark.parametrize(
    "step",
    [
        {**JOB, "if": "tasks.near.status == 'success' && tasks.far.body.x > 1 || failure()"},
        {**JOB, "input": {"a": ["{{tasks.far.body.x}}", "{{trigger.body.y}}"], "b": "{{run.id}}/{{run.attempt}}"}},
        {**JOB, "foreach": "far.files", "input": {"f": "{{item.name}}", "n": "{{index}}"}},
        {**JOB, "parallel": 3, "input": "{{index}}"},
        {**HTTP, "body": {"callback": "{{wait.paid.url}}"}},
        {"url": "{{tasks.near.body.url}}", "headers": {"X-A": "{{tasks.far.status}}"}, "query": {"q": ["{{input}}"]}},
        {"run": "./x.sh {{tasks.near.body.n}}", "input": "{{tasks.near.body}}"},
        {"workflow": "other", "input": "{{tasks.near.body}}"},
        {**JOB, "input": {"{{tasks.nobody.body}}": "keys are not templates"}},
    ],
)
def test_references_to_values_that_are_known_in_time_are_accepted(step: dict[str, Any]) -> None:
    assert of(step) == []


@pytest.mark.parametrize(
    ("step", "told"),
    [
        # syntax
        ({**JOB, "if": "tasks.near.status = 1"}, "tasks.it.if: column 19: write == to compare"),
        ({**JOB, "input": {"a": [{"b": "{{"}]}}, "tasks.it.input.a[0].b: column 1: the template is not closed"),
        ({**JOB, "input": "{{}}"}, "tasks.it.input: column 1: the template is empty"),
        (
            {"url": "https://x.example/{{inptu.a}}"},
            "tasks.it.url: column 21: unknown name 'inptu': did you mean 'input'?",
        ),
        ({"url": "{{"}, "tasks.it.url: column 1: the template is not closed"),
        ({**HTTP, "headers": {"X-A": "{{a}}"}}, "tasks.it.headers.X-A: column 3: unknown name 'a'"),
        ({**HTTP, "query": {"odd key": ["{{a}}"]}}, "tasks.it.query['odd key'][0]: column 3: unknown name 'a'"),
        ({**HTTP, "body": "{{a}}"}, "tasks.it.body: column 3: unknown name 'a'"),
        ({"run": "x", "input": ["{{a}}"]}, "tasks.it.input[0]: column 3: unknown name 'a'"),
        ({"workflow": "w2", "input": {"a": "{{a}}"}}, "tasks.it.input.a: column 3: unknown name 'a'"),
        # steps
        ({**JOB, "if": "tasks.naer.status == 1"}, "tasks.it.if: unknown step 'naer': did you mean 'near'?"),
        ({**JOB, "input": "{{tasks.zzz.body}}"}, "tasks.it.input: unknown step 'zzz'"),
        ({**JOB, "if": "tasks.other.status == 1"}, "tasks.it.if: 'other' must run before this step: add it to `needs`"),
        ({**HTTP, "body": ["{{tasks.paid.body}}"]}, "tasks.it.body[0]: 'paid' must run before this step"),
        ({**JOB, "if": "tasks.it.status == 1"}, "tasks.it.if: 'it' is the step itself, which has not run yet"),
        # callbacks
        ({**JOB, "input": "{{wait.piad.url}}"}, "tasks.it.input: unknown step 'piad': did you mean 'paid'?"),
        (
            {**JOB, "input": "{{wait.near.url}}"},
            "tasks.it.input: 'near' has no callback: it is not a `wait_for_webhook` step",
        ),
        # fan-out
        ({**JOB, "input": "{{item}}"}, "tasks.it.input: `item` is known only in steps with `foreach` or `parallel`"),
        ({**JOB, "input": "{{index}}"}, "tasks.it.input: `index` is known only in steps with `foreach` or `parallel`"),
        ({**JOB, "parallel": 2, "input": "{{item}}"}, "tasks.it.input: `item` is known only in steps with `foreach`:"),
        (
            {**JOB, "foreach": "input", "if": "item == 1"},
            "tasks.it.if: `item` is not known here: an `if` is evaluated once",
        ),
    ],
)
def test_an_invalid_reference_is_refused_with_its_path(step: dict[str, Any], told: str) -> None:
    found = of(step)
    assert len(found) == 1
    assert found[0].startswith(told)


def test_every_invalid_reference_is_reported() -> None:
    step = {**HTTP, "if": "tasks.x.status", "headers": {"A": "{{a}}"}, "body": {"b": "{{b}}", "c": "{{tasks.y.body}}"}}
    assert [line.split(": ")[0] for line in of(step)] == [
        "tasks.it.if",
        "tasks.it.headers.A",
        "tasks.it.body.b",
        "tasks.it.body.c",
    ]


def test_an_error_is_reported_only_once() -> None:
    assert len(of({**HTTP, "url": 5})) == 1
    assert len(of({**HTTP, "headers": {"A": 5}})) == 1


def test_the_final_step_may_reference_every_step() -> None:
    clean = {**JOB, "final": True, "if": "tasks.a.status == 'failed'", "input": "{{tasks.b.body}}"}
    assert mistakes(a=JOB, b=JOB, clean=clean) == []


def test_in_a_dependency_cycle_only_the_cycle_is_reported() -> None:
    a, b = {**JOB, "needs": ["b"], "input": "{{tasks.c.body}}"}, {**JOB, "needs": ["a"]}
    assert [line.split(": ")[0] for line in mistakes(a=a, b=b, c=JOB)] == ["tasks.a.needs"]


def test_a_secret_in_a_header_is_not_repeated_in_the_error() -> None:
    told = of({**HTTP, "headers": {"Authorization": "Bearer s3cret {{trigger.bdy.x}}"}})
    assert told == ["tasks.it.headers.Authorization: column 25: unknown field of `trigger` 'bdy': did you mean 'body'?"]


def test_the_number_of_reported_errors_is_limited() -> None:
    found = mistakes(a={**JOB, "input": [f"{{{{x{n}}}}}" for n in range(50_000)]})
    assert len(found) == ENOUGH + 2
    assert found[-1] == "tasks: there are more errors like these"
