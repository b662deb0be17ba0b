"""The delay of a job after its n-th failure."""

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.jobs.retry import MAX_DELAY, SQUARED_MINUTES, Backoff, Retry
from windlass.errors import Invalid

seconds = st.floats(0, 1e9)
policies = st.builds(
    Retry,
    st.sampled_from(Backoff),
    base=seconds,
    factor=st.floats(0, 1e6, exclude_min=True),
    cap=st.none() | seconds,
    jitter=st.floats(0, 1),
)
rolls = st.floats(0, 1, exclude_max=True)
failures = st.integers(1, 1000)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (Retry(Backoff.CONSTANT, base=5), [5, 5, 5, 5]),
        (Retry(Backoff.LINEAR, base=5), [5, 10, 15, 20]),
        (Retry(Backoff.EXPONENTIAL, base=1, factor=2), [1, 2, 4, 8]),
        (Retry(Backoff.EXPONENTIAL, base=3, factor=10), [3, 30, 300, 3000]),
        (Retry(Backoff.EXPONENTIAL, base=8, factor=0.5), [8, 4, 2, 1]),
        (Retry(Backoff.POLYNOMIAL, base=2, factor=3), [2, 16, 54, 128]),
        (Retry(Backoff.LINEAR, base=5, cap=12), [5, 10, 12, 12]),
        (Retry(Backoff.CONSTANT, base=0), [0, 0, 0, 0]),
        (Retry(cap=0), [0, 0, 0, 0]),
        (SQUARED_MINUTES, [60, 240, 540, 960]),
    ],
    ids=repr,
)
def test_each_kind_of_backoff_follows_its_formula(policy: Retry, waits: list[float]) -> None:
    assert [policy.delay(n, 0.0).total_seconds() for n in (1, 2, 3, 4)] == waits


@pytest.mark.parametrize(("failed", "minutes"), [(1, 1), (2, 4)])
@pytest.mark.parametrize("roll", [0.0, 0.25, 0.999])
def test_the_sql_contract_waits_one_then_four_minutes_and_up_to_a_tenth_more(
    failed: int, minutes: int, roll: float
) -> None:
    wait = SQUARED_MINUTES.delay(failed, roll)
    assert wait == timedelta(minutes=minutes * (1 + 0.1 * roll))
    assert timedelta(minutes=minutes) <= wait < timedelta(minutes=minutes * 1.1)


def test_the_default_doubles_from_a_second() -> None:
    assert [Retry().delay(n, 0.0).total_seconds() for n in (1, 2, 3)] == [1, 2, 4]


@given(policies, failures, rolls)
def test_jitter_only_adds_and_never_more_than_its_share(policy: Retry, failed: int, roll: float) -> None:
    plain, rolled = policy.delay(failed, 0.0), policy.delay(failed, roll)
    assert plain <= rolled <= plain * (1 + policy.jitter) + timedelta(microseconds=1)


@given(policies, failures)
def test_no_wait_is_longer_than_the_cap_or_a_year(policy: Retry, failed: int) -> None:
    limit = MAX_DELAY if policy.cap is None else min(policy.cap, MAX_DELAY)
    assert timedelta() <= policy.delay(failed, 0.0) <= timedelta(seconds=limit)


@given(policies.filter(lambda p: p.kind is not Backoff.EXPONENTIAL or p.factor >= 1), failures)
def test_a_later_failure_never_waits_less(policy: Retry, failed: int) -> None:
    assert policy.delay(failed, 0.0) <= policy.delay(failed + 1, 0.0)


@pytest.mark.parametrize(
    "policy",
    [
        Retry(Backoff.EXPONENTIAL, base=1, factor=10),
        Retry(Backoff.EXPONENTIAL, base=1e300, factor=1e300),
        Retry(Backoff.POLYNOMIAL, base=1, factor=1e6),
        Retry(Backoff.LINEAR, base=1e308),
        Retry(Backoff.EXPONENTIAL, base=1, factor=10, cap=1e300),
    ],
    ids=repr,
)
@pytest.mark.parametrize("failed", [1000, 10**9])
def test_a_delay_that_overflows_a_float_is_limited_to_a_year(policy: Retry, failed: int) -> None:
    assert policy.delay(failed, 0.0) == timedelta(seconds=MAX_DELAY)


def test_an_exponential_backoff_with_base_zero_has_no_delay() -> None:
    assert Retry(Backoff.EXPONENTIAL, base=0, factor=10).delay(1000, 0.5) == timedelta()


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"kind": "fibonacci"}, "retry.kind"),
        ({"kind": None}, "retry.kind"),
        ({"kind": []}, "retry.kind"),
        ({"base": -1}, "retry.base"),
        ({"base": math.nan}, "retry.base"),
        ({"base": math.inf}, "retry.base"),
        ({"base": "5"}, "retry.base"),
        ({"base": None}, "retry.base"),
        ({"base": True}, "retry.base"),
        ({"factor": 0}, "retry.factor"),
        ({"factor": -2}, "retry.factor"),
        ({"factor": math.nan}, "retry.factor"),
        ({"factor": math.inf}, "retry.factor"),
        ({"factor": [2]}, "retry.factor"),
        ({"cap": -1}, "retry.cap"),
        ({"cap": math.nan}, "retry.cap"),
        ({"cap": "1h"}, "retry.cap"),
        ({"jitter": -0.1}, "retry.jitter"),
        ({"jitter": 1.1}, "retry.jitter"),
        ({"jitter": math.nan}, "retry.jitter"),
        ({"jitter": "some"}, "retry.jitter"),
        ({"wait": 5}, "retry"),
    ],
    ids=str,
)
def test_the_error_of_an_invalid_value_names_its_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid, match=field) as refusal:
        Retry.from_json(values)
    assert refusal.value.field == field


@pytest.mark.parametrize("document", [[], 5, "constant", None], ids=repr)
def test_a_policy_must_be_an_object(document: Any) -> None:
    with pytest.raises(Invalid, match="retry"):
        Retry.from_json(document)


@given(policies)
def test_a_policy_round_trips_through_json(policy: Retry) -> None:
    assert Retry.from_json(policy.to_json()) == policy


def test_a_kind_may_be_given_as_a_string() -> None:
    assert Retry.from_json({"kind": "linear", "base": 2}) == Retry(Backoff.LINEAR, base=2)
    assert Retry.from_json({}) == Retry()


def test_jitter_both_ways_spreads_around_the_delay_and_keeps_to_the_cap() -> None:
    policy = Retry(Backoff.CONSTANT, base=2.0, jitter=0.5, both_ways=True, cap=2.5)
    assert [policy.delay(1, roll).total_seconds() for roll in (0.0, 0.5, 0.999)] == [1.0, 2.0, 2.5]


@pytest.mark.parametrize(
    ("names", "final"),
    [
        (["ValueError"], True),
        (["auth.expired"], True),
        (["auth"], False),
        (["authority"], False),
        ([None, "Value"], False),
    ],
    ids=str,
)
def test_errors_that_match_non_retryable_are_final(names: list[str | None], final: bool) -> None:
    assert Retry(non_retryable=("ValueError", "auth.*")).is_final(*names) is final


def test_rarely_used_fields_are_written_only_if_they_are_set() -> None:
    assert set(Retry().to_json()) == {"kind", "base", "factor", "cap", "jitter"}
    rare = Retry(both_ways=True, non_retryable=["A"], dead_letter=True)  # type: ignore[arg-type]  # as JSON has it
    assert Retry.from_json(rare.to_json()) == rare
    for wrong in ({"non_retryable": "A"}, {"non_retryable": [1]}, {"dead_letter": 1}, {"both_ways": "no"}):
        with pytest.raises(Invalid, match="retry"):
            Retry.from_json(wrong)
