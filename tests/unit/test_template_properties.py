"""Any string is parsed or refused, and the values of templates are never parsed as templates."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.expressions.scope import Facts, JsonText
from windlass.core.json_value import cleaned
from windlass.core.templates import template
from windlass.core.templates.command import compile_command
from windlass.core.templates.url import compile_url
from windlass.errors import Invalid, TemplateError

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["{{", "}}", "{{run.id}}", "{{x"]
)
documents = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
plain = words.filter(lambda text: "{{" not in text and not text.endswith("{"))
snippets = st.lists(st.sampled_from(["{{", "}}", "run", ".id", " ", "input", "['", "']", "[0]", "'", '"', "\\", "x"]))


@given(documents)
def test_a_single_template_is_the_value_itself(value: Any) -> None:
    found = template.compile("{{ input }}").resolve(Facts(trigger_body=value))
    assert found is value


@given(documents)
def test_unparsed_json_resolves_like_the_parsed_value(value: Any) -> None:
    """Except for characters that Postgres cannot store: responses and callbacks may have them; they are replaced."""
    text = JsonText(json.dumps(value))
    found = template.compile({"a": "{{ input }}"}).resolve(Facts(trigger_body=text))
    assert json.dumps(found) == json.dumps({"a": cleaned(value)})


@given(plain, words, plain)
def test_a_value_is_inserted_into_a_string_once_and_unchanged(before: str, value: str, after: str) -> None:
    made = template.compile([before + "{{ input }}" + after])
    assert made.resolve(Facts(trigger_body=value)) == [before + value + after]


@given(documents, words)
def test_any_json_is_resolved_or_refused(value: Any, text: str) -> None:
    try:
        found = template.compile(value).resolve(Facts(trigger_body=text, run_id=text))
    except Invalid:
        return
    assert type(found) is type(value) or "{{" in value


@given(documents)
def test_a_constant_resolves_to_the_value_it_was_compiled_from(value: Any) -> None:
    if "{{" not in json.dumps(value):
        made = template.compile(value)
        assert not made.references
        assert made.resolve(Facts()) == value


@given(st.text(max_size=60) | snippets.map("".join))
def test_any_string_is_compiled_or_refused(text: str) -> None:
    for compile_ in (template.compile, compile_url, template.compile_header, compile_command):
        try:
            compile_(text).resolve(Facts(trigger_body=["x"], run_id="r"))
        except TemplateError as error:
            assert error.path  # noqa: PT017
        except Invalid:
            pass
