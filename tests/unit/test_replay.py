"""Durable calls are matched with recorded ones by name and occurrence, and changed code is detected."""

import pytest

from windlass.core.jobs.replay import CallKind, Mismatch, Recorded, Replay

STEP, SLEEP = CallKind.STEP, CallKind.SLEEP


def recorded(*names: str, kind: CallKind = STEP) -> list[Recorded]:
    return [
        Recorded(name, kind, place, f"value of {name}", waits=False, over=False) for place, name in enumerate(names)
    ]


def made(replay: Replay, *names: str, in_order: bool = True) -> list[str | None]:
    calls = [replay.call(name, STEP, in_order=in_order) for name in names]
    return [call.recorded.name if call.recorded is not None else None for call in calls]


def test_repeated_calls_with_the_same_name_are_numbered() -> None:
    replay = Replay(recorded("pack", "pack#2"))
    assert made(replay, "pack", "pack", "pack") == ["pack", "pack#2", None]


def test_a_replay_ends_with_the_first_new_call() -> None:
    replay = Replay(recorded("a", "b"))
    assert replay.is_behind
    made(replay, "a")
    assert replay.is_behind
    made(replay, "b")
    assert not replay.is_behind
    assert made(replay, "c") == [None]


@pytest.mark.parametrize(
    ("before", "after", "reached", "expected"),
    [
        (["a", "b"], ["a", "x", "b"], "x", "b"),
        (["a", "b"], ["a", "x"], "x", "b"),
        (["a", "b", "c"], ["b", "c", "d"], "d", "a"),
        (["a", "a#2"], ["a", "b"], "b", "a#2"),
    ],
    ids=["inserted", "renamed", "removed", "shorter loop"],
)
def test_a_new_call_in_the_place_of_a_recorded_one_is_a_mismatch(
    before: list[str], after: list[str], reached: str, expected: str
) -> None:
    with pytest.raises(Mismatch) as raised:
        made(Replay(recorded(*before)), *after)
    text = str(raised.value)
    assert f"reached step '{reached}'" in text
    assert f"recorded step '{expected}' there" in text
    assert "windlass jobs retry --fresh" in text
    assert ".v2" in text


def test_a_call_of_another_kind_is_a_mismatch() -> None:
    replay = Replay(recorded("pause"))
    with pytest.raises(Mismatch, match="reached sleep 'pause', but an earlier attempt recorded step 'pause'"):
        replay.call("pause", SLEEP, in_order=True)


def test_a_call_that_was_not_recorded_may_precede_recorded_ones() -> None:
    """The function of `a` raised; the handler caught the exception and continued."""
    rows = [Recorded("b", STEP, 1, 1, waits=False, over=False)]
    assert made(Replay(rows), "a", "b", "c") == [None, "b", None]


def test_calls_in_tasks_of_the_handler_may_come_in_any_order() -> None:
    rows = [Recorded(name, STEP, None, 1, waits=False, over=False) for name in ("a", "b")]
    assert made(Replay(rows), "c", "b", "a", in_order=False) == [None, "b", "a"]
