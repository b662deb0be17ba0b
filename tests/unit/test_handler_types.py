"""The handler that serves a job type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.effects.context import Context
from windlass.effects.handlers import Handler, Handlers, like
from windlass.errors import Invalid


def nothing() -> None: ...


def only_context(ctx: Context) -> None: ...


def test_an_exact_type_precedes_patterns_and_patterns_match_in_order_of_registration() -> None:
    handlers = Handlers()
    for type_ in ("billing.%", "%", "billing.invoice.v1"):
        handlers.add(Handler.of(type_, nothing))
    found = [handlers.find(type_) for type_ in ("billing.invoice.v1", "billing.refund.v1", "other")]
    assert [handler.type if handler else None for handler in found] == ["billing.invoice.v1", "billing.%", "%"]
    assert set(handlers.types()) == {"billing.%", "%", "billing.invoice.v1"}


def test_an_unregistered_type_has_no_handler() -> None:
    assert Handlers().find("a.b.v1") is None


@pytest.mark.parametrize("type_", ["a.b.v1", "a.%"])
def test_a_second_handler_for_a_type_is_refused(type_: str) -> None:
    handlers = Handlers()
    handlers.add(Handler.of(type_, nothing))
    with pytest.raises(Invalid, match="already has a handler"):
        handlers.add(Handler.of(type_, only_context))


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("billing.%", "billing.invoice.v1", True),
        ("billing.%", "billing.", True),
        ("billing.%", "billing", False),
        ("billing.%", "xbilling.a", False),
        ("billing.%", "billingXa", False),
        ("%.v1", "a.b.v1", True),
        ("%.v1", "a.b.v10", False),
        ("a_c", "abc", True),
        ("a_c", "ac", False),
        ("a%", "a\nb", True),
        ("a.b+c", "a.b+c", True),
        ("a.b+c", "a.bbc", False),
        ("plain", "plain", True),
        (r"100\%", "100%", True),
        (r"a\_c", "abc", False),
        ("%", "", True),
        ("%%", "", True),
        ("a%b%c", "a-b-b-c", True),
        ("a%b%c", "a-c-b", False),
        ("%ab%ab", "ab", False),
        ("%a_%a", "aaa", True),
    ],
)
def test_patterns_match_like_sql_like(pattern: str, text: str, matches: bool) -> None:
    assert bool(like(pattern).fullmatch(text)) is matches


@given(st.text(st.characters(exclude_characters="%_\\")))
def test_a_pattern_without_wildcards_matches_only_itself(text: str) -> None:
    assert like(text).fullmatch(text)
    assert not like(text).fullmatch(text + "x")
