"""The language of `if`: its values for the facts of a run. The examples of seed 001 are included unchanged."""

import pytest

from windlass.core.expressions.expression import evaluate, parse
from windlass.core.expressions.scope import Facts, JsonText, TaskFacts

FACTS = Facts(
    trigger_body={"order_id": 123, "tags": ["vip", "new"], "note": "", "none": None, "rate": 0.5, "on": True},
    trigger_headers={"x-kind": "test"},
    tasks={
        "charge": TaskFacts(
            status="success",
            status_code=200,
            body=JsonText('{"approved": true, "amount": 12.5, "items": [{"id": "a"}, {"id": "b"}], "odd key": 1}'),
            headers={"content-type": "application/json"},
            attempt=2,
        ),
        "3-days": TaskFacts(status="success"),
        "odd name": TaskFacts(status="failed", error={"message": "no"}),
        "skipped": TaskFacts(status="skipped"),
        "large": TaskFacts(status="success", status_code=200, body="{", truncated=True),
        "plain": TaskFacts(status="success", body=JsonText("not { json")),
    },
    waits={"paid": "https://w.example/wh/t"},
    run_id="r1",
)


def holds(text: str, facts: Facts = FACTS) -> bool:
    return evaluate(parse(text), facts).holds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # seed 001
        ("tasks.charge.status_code == 200", True),
        ("tasks.charge.status_code != 200", False),
        ("tasks.charge.body.approved == true", True),
        ("tasks.charge.status_code >= 400", False),
        ("tasks.charge.status_code > 199", True),
        ("tasks.charge.status_code < 200", False),
        ("tasks.charge.status_code <= 200", True),
        # literals
        ("true", True),
        ("false", False),
        ("null", False),
        ("0", False),
        ("-1.5e3 == -1500", True),
        ("'it\\'s' == \"it's\"", True),
        ("'a\\n\\t\\r\\\\' == \"a\\n\\t\\r\\\\\"", True),
        ("''", False),
        ("[]", False),
        ("[null]", True),
        # paths
        ("tasks.charge.body.items[0].id == 'a'", True),
        ("tasks.charge.body.items.1.id == 'b'", True),
        ("tasks['charge'].body[\"items\"][1]['id'] == 'b'", True),
        ("tasks['odd name'].status == 'failed'", True),
        ("tasks['odd name'].error.message == 'no'", True),
        ("tasks.3-days.status == 'success'", True),
        ("tasks.charge.body['odd key'] == 1", True),
        ("tasks.charge.output.amount == 12.5", True),
        ("tasks.charge.attempt == 2", True),
        ("tasks.charge.headers.Content-Type == 'application/json'", True),
        ("trigger.headers['X-Kind'] == 'test'", True),
        ("trigger.body.order_id == input.order_id", True),
        ("wait.paid.url == 'https://w.example/wh/t'", True),
        ("run.id == 'r1' && run.attempt == 1", True),
        ("tasks.plain.body == 'not { json'", True),
        # missing values are null
        ("tasks.charge.body.missing == null", True),
        ("tasks.charge.body.items[2].id == null", True),
        ("tasks.charge.body.items.x == null", True),
        ("tasks.charge.body.approved.deeper == null", True),
        ("tasks.plain.body.field == null", True),
        ("tasks.nobody.body == null", True),
        ("trigger.body.none == trigger.body.missing", True),
        ("item == null && index == null", True),
        # operators
        ("1 == 1 && 2 == 2", True),
        ("1 == 2 || 2 == 2", True),
        ("!(1 == 1)", False),
        ("!false && !null && !0 && !'' && ![]", True),
        ("true || true && false", True),
        ("(true || true) && false", False),
        ("!trigger.body.missing", True),
        ("'vip' in trigger.body.tags", True),
        ("'x' in trigger.body.tags", False),
        ("tasks.charge.status in ['success', 'received']", True),
        ("tasks.charge.status_code in [200, 201]", True),
        ("'cc' in 'success'", True),
        ("'order_id' in trigger.body", True),
        ("1 in 'a1'", False),
        ("1 in 1", False),
        # functions
        ("always()", True),
        ("len('abc') == 3 && len(trigger.body.tags) == 2 && len(trigger.body) == 6 && len([]) == 0", True),
        ("len(1) == null && len(null) == null", True),
        ("contains(trigger.body.tags, 'vip')", True),
        ("contains('success', 'cc')", True),
        ("contains(null, null)", False),
        ("startsWith(tasks.charge.status, 'succ')", True),
        ("startsWith('a', 1)", False),
        ("startsWith ( 'a' , '' )", True),
    ],
)
def test_an_expression_is_true_or_false_for_the_facts_of_a_run(text: str, expected: bool) -> None:
    assert holds(text) is expected


@pytest.mark.parametrize("left", ["1", "'1'", "true", "null", "[1]", "trigger.body"])
@pytest.mark.parametrize("right", ["1", "'1'", "true", "null", "[1]", "trigger.body"])
def test_values_of_different_types_are_never_equal_and_have_no_order(left: str, right: str) -> None:
    assert holds(f"{left} == {right}") is (left == right)
    assert holds(f"{left} != {right}") is (left != right)
    if left != right:
        assert not any(holds(f"{left} {sign} {right}") for sign in ("<", "<=", ">", ">="))


@pytest.mark.parametrize("value", ["null", "true", "[1]", "trigger.body"])
def test_only_numbers_and_strings_have_an_order(value: str) -> None:
    assert not any(holds(f"{value} {sign} {value}") for sign in ("<", "<=", ">", ">="))


def test_equality_compares_types_at_every_depth() -> None:
    facts = Facts(trigger_body={"a": [1, {"b": [True]}], "b": [1.0, {"b": [True]}], "c": [1, {"b": [1]}], "d": [1, {}]})
    assert holds("input.a == input.b", facts)
    assert holds("input.a != input.c", facts)
    assert holds("input.a != input.d", facts)
    assert holds("input.a[1] != input.d[1]", facts)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_null(number: float) -> None:
    facts = Facts(trigger_body={"n": number})
    assert holds("input.n == null && input.n == input.n && !(input.n > 0)", facts)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", "[" * 100_000, '{"a":', "9" * 5000])
def test_a_body_that_is_not_valid_json_is_a_string(text: str) -> None:
    assert holds(f"len(input) == {len(text)}", Facts(trigger_body=JsonText(text)))


# Seed 001, Edge Cases


def test_a_skipped_step_has_a_status_and_all_its_other_fields_are_null() -> None:
    assert not holds("tasks.skipped.status_code == 200")
    assert holds("tasks.skipped.status == 'skipped'")
    assert holds("tasks.skipped.status_code == null && tasks.skipped.body == null")


def test_an_if_can_test_for_the_timeout_of_a_webhook() -> None:
    facts = Facts(tasks={"payment-result": TaskFacts(status="timeout")})
    assert holds("tasks.payment-result.status == 'timeout'", facts)
    assert not holds("tasks.payment-result.body.status == 'paid'", facts)


def test_a_truncated_body_is_null_but_the_rest_of_the_response_is_available() -> None:
    assert holds("tasks.large.body == null && tasks.large.body.a == null && tasks.large.output[0] == null")
    assert holds("tasks.large.status_code == 200")


@pytest.mark.parametrize(("failed", "succeeded"), [(True, False), (False, True), (False, False)])
def test_success_and_failure_are_taken_from_the_given_facts(failed: bool, succeeded: bool) -> None:
    facts = Facts(ancestors_failed=failed, all_succeeded=succeeded)
    assert holds("failure()", facts) is failed
    assert holds("success()", facts) is succeeded


# References of an expression


def test_an_expression_lists_the_paths_that_it_references() -> None:
    expression = parse("tasks.a.body.x == 1 || !(len(tasks.b.status) in [1]) && tasks.a.body.x < input.y && wait.w.url")
    assert [path.text for path in expression.paths] == ["tasks.a.body.x", "tasks.b.status", "input.y", "wait.w.url"]


@pytest.mark.parametrize(
    ("text", "asks"), [("success()", True), ("!(failure() || true)", True), ("always()", False), ("1 == 1", False)]
)
def test_an_expression_reports_whether_it_depends_on_ancestors(text: str, asks: bool) -> None:
    assert parse(text).needs_ancestors is asks


# Bounds


@pytest.mark.parametrize(
    "text",
    [
        "input.a == input.b",
        "-1 in input.a",
        "contains(input.a, -1)",
        " || ".join(["'y' in input.text"] * 150),
        " || ".join(["startsWith(input.text, input.text) == 1"] * 90),
    ],
)
def test_an_expression_with_too_many_comparisons_is_false_with_a_reason(text: str) -> None:
    numbers = list(range(200_000))
    facts = Facts(trigger_body={"a": numbers, "b": [*numbers], "text": "x" * 2_000_000})
    verdict = evaluate(parse(text), facts)
    assert not verdict.holds
    assert verdict.text.endswith(" is false: evaluating it would compare too many values")


def test_deeply_nested_values_are_compared() -> None:
    text = "[" * 900 + "]" * 900
    facts = Facts(trigger_body={"a": [JsonText(text).value], "b": [JsonText(text).value]})
    assert holds("input.a == input.b", facts)
