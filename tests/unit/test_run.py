"""The letters of steps and the states of runs are tables; these tests cover all of their cells."""

import json
from collections.abc import Mapping
from enum import StrEnum
from itertools import product
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.reference import node
from windlass.core.runs.run import (
    BAD,
    NO_UNDO,
    OPEN,
    RUN_EDGES,
    STEP_EDGES,
    Fan,
    Letter,
    Run,
    RunMove,
    RunState,
    StepMove,
    read_counters,
)
from windlass.core.workflows.graph import Plan

PLAN = Plan([node("a"), node("b", "a")])
State = TypeVar("State", bound=StrEnum)
Move = TypeVar("Move", bound=StrEnum)

# Read by column: what each move does to each letter. A dash is a refusal.
LETTERS = """
    start  succeed  fail  time-out  skip  cancel  reopen
.   a      s        f     -         k     c       -
a   -      s        f     t         k     c       -
s   -      -        -     -         -     -       .
f   -      -        -     -         -     -       .
t   -      -        -     -         -     -       .
k   -      -        -     -         -     -       .
c   -      -        -     -         -     -       .
"""

STATES = """
           begin    complete   fail    cancel     expire   retry    rerun    undo     wait
pending    running  -          -       cancelled  timeout  -        -        -        -
running    -        completed  failed  cancelled  timeout  -        -        -        -
completed  -        -          -       -          -        -        running  running  pending
failed     -        -          -       -          -        running  running  -        pending
cancelled  -        -          -       -          -        -        -        -        -
timeout    -        -          -       -          -        running  running  -        pending
"""


def square(text: str, states: type[State], moves: type[Move]) -> Mapping[tuple[State, Move], State | None]:
    head, *lines = text.strip("\n").splitlines()
    columns = [moves(word.replace("-", " ")) for word in head.split()]
    return {
        (states(state), move): None if word == "-" else states(word)
        for state, *words in map(str.split, lines)
        for move, word in zip(columns, words, strict=True)
    }


@pytest.mark.parametrize(("letter", "move"), [*product(Letter, StepMove)], ids=str)
def test_every_pair_of_letter_and_move_has_the_result_of_the_table(letter: Letter, move: StepMove) -> None:
    assert STEP_EDGES.get((letter, move)) == square(LETTERS, Letter, StepMove)[letter, move]


@pytest.mark.parametrize(("state", "move"), [*product(RunState, RunMove)], ids=str)
def test_every_pair_of_run_state_and_move_has_the_result_of_the_table(state: RunState, move: RunMove) -> None:
    assert RUN_EDGES.get((state, move)) == square(STATES, RunState, RunMove)[state, move]


def test_a_terminal_letter_leaves_only_by_an_explicit_reopen() -> None:
    assert {move for letter, move in STEP_EDGES if letter not in OPEN} == {StepMove.REOPEN}
    assert {letter for letter, move in STEP_EDGES if move is StepMove.REOPEN} == set(Letter) - OPEN


def test_a_step_starts_only_from_waiting() -> None:
    assert [letter for letter, move in STEP_EDGES if move is StepMove.START] == [Letter.WAITING]


def test_an_active_step_may_end_in_every_way() -> None:
    ends = set(Letter) - OPEN
    assert {to for (letter, _), to in STEP_EDGES.items() if letter is Letter.ACTIVE} == ends


def test_a_cancelled_run_has_no_further_moves() -> None:
    assert not [move for state, move in RUN_EDGES if state is RunState.CANCELLED]


def test_the_only_moves_of_an_ended_run_are_retry_rerun_undo_and_wait() -> None:
    ended = set(RunState) - {RunState.PENDING, RunState.RUNNING}
    assert {move for state, move in RUN_EDGES if state in ended} == {
        RunMove.RETRY,
        RunMove.RERUN,
        RunMove.UNDO,
        RunMove.WAIT,
    }


def test_a_completed_run_cannot_be_retried() -> None:
    assert (RunState.COMPLETED, RunMove.RETRY) not in RUN_EDGES


def test_failures_are_failed_timed_out_and_cancelled_steps() -> None:
    assert {Letter.FAILED, Letter.TIMED_OUT, Letter.CANCELLED} == BAD


@pytest.mark.parametrize(("held", "state"), [(False, RunState.RUNNING), (True, RunState.PENDING)])
def test_all_steps_of_a_new_run_wait_and_the_run_is_pending_only_while_it_is_held(held: bool, state: RunState) -> None:
    run = Run.new(Plan([node("a"), node("b", "a")]), held=held)
    assert (run.state, run.letters, dict(run.fans)) == (state, "..", {})


@pytest.mark.parametrize(
    ("fan", "letter", "words"),
    [
        (Fan(count=3, created=3, succeeded=3), Letter.SUCCEEDED, None),
        (Fan(count=3, created=3, succeeded=2, failed=1), Letter.FAILED, "1 of 3 instances failed"),
        (Fan(count=3, created=3, failed=1, cancelled=2), Letter.FAILED, "1 of 3 instances failed"),
        (Fan(count=3, created=3, succeeded=1, cancelled=2), Letter.CANCELLED, "2 of 3 instances were cancelled"),
        (Fan(count=3, created=2, succeeded=2), Letter.CANCELLED, "1 of 3 instances were cancelled"),  # stopped midway
    ],
)
def test_a_fanned_out_step_ends_like_its_worst_instance_with_a_reason(
    fan: Fan, letter: Letter, words: str | None
) -> None:
    assert fan.active == 0
    assert fan.letter is letter
    assert (fan.reason and fan.reason.text) == words


def test_a_timed_out_instance_counts_as_failed() -> None:
    assert Fan(count=1, created=1).after(Letter.TIMED_OUT, 1) == Fan(count=1, created=1, failed=1)


def test_instances_that_wait_for_their_retry_are_neither_active_nor_ended() -> None:
    fan = Fan(count=5, created=5, succeeded=1, parked=2)
    assert (fan.ended, fan.active) == (1, 2)


@pytest.mark.parametrize(
    "fans",
    [
        {},
        {0: Fan(count=3)},
        {4: Fan(count=9, created=8, succeeded=3, failed=2, cancelled=1, parked=1), 17: Fan(count=1, created=1)},
    ],
)
def test_counters_round_trip_through_json(fans: dict[int, Fan]) -> None:
    text = Run(PLAN, RunState.RUNNING, "..", fans).counters
    assert read_counters(json.loads(text or "{}")) == (fans, NO_UNDO, None)
    assert (text is None) is (not fans)  # a run without fan-outs stores no counters


@given(st.dictionaries(st.integers(0, 5000), st.builds(Fan, *[st.integers(0, 10**6) for _ in range(6)]), max_size=5))
def test_any_counters_round_trip_through_json(fans: dict[int, Fan]) -> None:
    text = Run(PLAN, RunState.RUNNING, "..", fans).counters
    assert read_counters(json.loads(text or "{}")) == (fans, NO_UNDO, None)


def test_the_count_is_the_first_number_in_the_json_where_sql_reads_it() -> None:
    """store/sql/steps.sql reads `fans -> step ->> 0`."""
    assert Run(PLAN, RunState.RUNNING, "..", {2: Fan(count=7, created=5)}).counters == '{"2": [7, 5, 0, 0, 0, 0]}'
