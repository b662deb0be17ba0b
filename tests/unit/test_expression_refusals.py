"""An invalid expression is refused, with its path, the column and how to fix it."""

import pytest

from windlass.core.expressions.expression import parse
from windlass.core.expressions.parser import MAX_DEPTH, MAX_LENGTH
from windlass.errors import Invalid, InvalidExpression


def refusal(text: str) -> InvalidExpression:
    with pytest.raises(InvalidExpression) as refused:
        parse(text)
    return refused.value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: a value is missing before the end"),
        ("  ", "column 1: a value is missing before the end"),
        ("tasks.a.body ==", "column 16: a value is missing before the end"),
        ("== 1", "column 1: a value is missing before =="),
        ("1 && && 2", "column 6: a value is missing before &&"),
        ("(1", "column 3: a ) is missing before the end"),
        ("1)", "column 2: unmatched )"),
        ("1 2", "column 3: an operator such as == or && is missing before the value"),
        ("1 item", "column 3: an operator such as == or && is missing before the path"),
        ("1 len(2)", "column 3: an operator such as == or && is missing before len"),
        ("1 == 1 == 1", "column 8: comparisons cannot follow each other: join them with &&"),
        ("1 in [1] in [2]", "column 10: comparisons cannot follow each other"),
        # operators of other languages
        ("input.a = 1", "column 9: write == to compare"),
        ("true and true", "column 6: write && instead of `and`"),
        ("true or true", "column 6: write || instead of `or`"),
        ("not true", "column 1: write ! instead of `not`"),
        ("true & true", "column 6: write && for `and`"),
        ("true | true", "column 6: write || for `or`"),
        ("{{input.a}} == 1", "column 1: an `if` needs no {{ }}: write the path alone"),
        ("${{ input.a }}", "column 1: an `if` needs no ${{ }}: write the path alone"),
        ("1 + 1", "column 3: '+' is not valid here"),
        # literals
        ("'abc", "column 1: the string is not closed"),
        ('input == "abc\\"', "column 10: the string is not closed"),
        ("'a\\d'", "column 3: invalid escape"),
        ("200abc", "column 1: '200abc' is not valid here"),
        ("007", "column 1: '007' is not valid here"),
        ("1.", "column 1: '1.' is not valid here"),
        ("1e999", "column 1: the number is too large"),
        ("[input.a]", "column 2: a list may contain numbers, strings, true, false and null"),
        ("[1, [2]]", "column 5: a list may contain numbers, strings, true, false and null"),
        ("[1", "column 3: a ] is missing before the end"),
        ("[1,]", "column 4: a list may contain"),
        # paths
        ("task.a.body", "column 1: unknown name 'task': did you mean 'tasks'?"),
        ("xyz", "column 1: unknown name 'xyz': it must be one of tasks, trigger, input"),
        ("tasks", "column 1: tasks must be followed by the name of a step"),
        ("tasks.a", "column 1: tasks.a must be followed by a field of `tasks`: one of status, status_code"),
        ("tasks.a.bdy", "column 9: unknown field of `tasks` 'bdy': did you mean 'body'?"),
        ("tasks[0].body", "column 6: a step must be given by its name"),
        ("trigger", "column 1: trigger must be followed by a field of `trigger`: one of body, headers"),
        ("1 == trigger.order", "column 14: unknown field of `trigger` 'order'"),
        ("wait.a.body", "column 8: unknown field of `wait` 'body'"),
        ("run.id.x", "column 8: the value has no members"),
        ("index.x", "column 7: the value has no members"),
        ("input.", "column 6: a name must follow the dot"),
        ("input..a", "column 6: a name must follow the dot"),
        ("input. a", "column 6: a name must follow the dot"),
        ("input[-1]", "column 6: [ ] must contain a number or a quoted string"),
        ("input[a]", "column 6: [ ] must contain a number or a quoted string"),
        ("input['a", "column 6: [ ] must contain a number or a quoted string"),
        ("input['\\x']", "column 8: invalid escape"),
        ("input" + ".a" * 64, "column 1: the path has 65 parts, the limit is 64"),
        # functions
        ("lne(1)", "column 1: unknown function 'lne': did you mean 'len'?"),
        ("eval('1')", "column 1: unknown function 'eval'"),
        ("len()", "column 1: len() takes 1 value, not 0"),
        ("always(1)", "column 1: always() takes 0 values, not 1"),
        ("contains(1, 2, 3)", "column 1: contains() takes 2 values, not 3"),
        ("len(1", "column 6: a ) is missing before the end"),
        ("len(1,)", "column 7: a value is missing before )"),
        ("always", "column 1: unknown name 'always'"),
        # bounds
        ("!" * MAX_DEPTH + "1", f"column {MAX_DEPTH + 1}: it is nested deeper than {MAX_DEPTH} levels"),
        ("(" * 1000, f"column {MAX_DEPTH + 1}: it is nested deeper than {MAX_DEPTH} levels"),
        ("len(" * 1000, "it is nested deeper than"),
        ("1" + " " * MAX_LENGTH, f"it is {MAX_LENGTH + 1} characters long, the limit is {MAX_LENGTH}"),
    ],
)
def test_the_error_has_the_column_and_the_problem(text: str, message: str) -> None:
    assert message in str(refusal(text))


def test_the_column_of_an_error_counts_across_lines() -> None:
    error = refusal("tasks.charge.status_code == 200 &&\n  tasks.charge.bdy == 1 &&\n  true")
    assert (error.column, error.problem) == (51, "unknown field of `tasks` 'bdy': did you mean 'body'?")


def test_an_invalid_expression_raises_a_subclass_of_invalid() -> None:
    assert isinstance(refusal("("), Invalid)


def test_a_long_list_of_terms_does_not_count_as_nesting() -> None:
    assert parse(" || ".join(["1 == 1"] * 400)).paths == ()
    assert parse("1 in [" + ", ".join(["1"] * 1000) + "]").paths == ()
