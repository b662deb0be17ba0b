"""The bounded version of tests/fuzz/fuzz_language.py: random strings that resemble the language, for all of its
parsers."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from windlass.core.expressions.expression import evaluate, parse
from windlass.core.expressions.scope import Facts, JsonText, TaskFacts
from windlass.core.templates import template
from windlass.core.templates.command import compile_command
from windlass.core.templates.url import compile_url
from windlass.errors import Invalid, InvalidExpression, TemplateError

COMPILERS = (template.compile, compile_url, template.compile_header, compile_command)
LONGEST = 5000  # characters of the reason of a result

NAMES = "tasks trigger input wait item index run a body output status headers url id true false null"
SIGNS = (
    "{{ }} { } . [ ] ( ) , ' \" \\ == != < >= && || ! in len( contains( success() failure() always() / ? # $( ` << @"
)
VALUES = "0 -1 1e9 1e999 999999999999 https:// é ٣ ² \U0001f600"
words = st.sampled_from([*NAMES.split(), *SIGNS.split(), *VALUES.split(), "\n", " ", "\t", "\x00"])
texts = st.lists(words, max_size=30).map("".join) | st.text(max_size=60)
bodies = st.sampled_from(
    ['{"a": [1, {"b": null}]}', "[" * 2000, "1" * 5000, "NaN", '"\\ud800"', "", "x", "1e999"]
) | st.text(max_size=20)


def facts_of(body: str, text: str) -> Facts:
    read = JsonText(body)
    task = TaskFacts(status="success", status_code=200, body=read, headers={"x": text})
    return Facts(
        trigger_body=read, trigger_headers={"x": text}, tasks={"a": task}, waits={"a": "u"}, item=text, index=0
    )


@settings(max_examples=5 * settings().max_examples)
@given(texts, bodies)
@example("{{tasks.a.body}}", "[" * 2000)
@example("{{input}}{{input}}", '"\\ud800"')
def test_every_string_is_parsed_or_refused_and_a_parsed_one_can_be_evaluated(text: str, body: str) -> None:
    facts = facts_of(body, text)
    judge(text, facts)
    for compiler in COMPILERS:
        fill(compiler, text, facts)


@settings(max_examples=3 * settings().max_examples)
@given(
    st.recursive(texts, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)), bodies
)
def test_every_document_is_compiled_or_refused_and_an_error_names_one_of_its_references(value: Any, body: str) -> None:
    try:
        made = template.compile(value)
    except Invalid:
        return
    try:
        made.resolve(facts_of(body, "x"))
    except TemplateError as error:
        assert error.path in {path.text for path in made.references}  # noqa: PT017


def judge(text: str, facts: Facts) -> None:
    try:
        expression = parse(text)
    except InvalidExpression as error:
        assert 1 <= error.column <= len(text) + 1  # noqa: PT017
        return
    assert len(evaluate(expression, facts).text) < LONGEST


def fill(compiler: Any, text: str, facts: Facts) -> None:
    try:
        compiler(text).resolve(facts)
    except Invalid:
        return
