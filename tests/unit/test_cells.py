"""The cell of a run: see docs/explanation/scaling.md."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from bench.cells.routing import Generation, Table, choose, created_at, id_in
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.ids import RANDOM_BYTES, uuid7

BEGINNING, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
names = st.lists(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=6, unique=True)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
dice = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


def made(moment: datetime, random: bytes) -> UUID:
    return uuid7(int(moment.timestamp() * 1000) * 1_000_000, random)


@given(names, moments, dice)
def test_a_run_id_maps_to_a_cell_of_its_generation(cells: list[str], moment: datetime, random: bytes) -> None:
    table = Table((Generation(BEGINNING, tuple(cells)), Generation(LATER, ("new",))))
    run = made(moment, random)
    assert abs(created_at(run) - moment) < timedelta(milliseconds=2)
    assert table.cell_of(run) in (["new"] if created_at(run) >= LATER else cells)


@given(names, moments.filter(lambda moment: moment < LATER), dice)
def test_a_new_generation_moves_no_existing_run(cells: list[str], moment: datetime, random: bytes) -> None:
    before = Table((Generation(BEGINNING, tuple(cells)),))
    after = Table((*before.generations, Generation(LATER, (*cells, "new"))))
    run = made(moment - timedelta(milliseconds=2), random)
    assert before.cell_of(run) == after.cell_of(run)


@given(names, st.binary())
def test_removing_a_cell_moves_only_its_own_keys(cells: list[str], key: bytes) -> None:
    chosen = choose([*cells, "gone"], key)
    assert chosen == "gone" or choose(cells, key) == chosen


def test_runs_are_spread_evenly() -> None:
    table = Table((Generation(BEGINNING, ("a", "b", "c")),))
    cells = [table.cell_of(made(BEGINNING, n.to_bytes(RANDOM_BYTES, "big"))) for n in range(3000)]
    assert all(900 < cells.count(cell) < 1100 for cell in "abc")


@given(names, st.text(min_size=1), dice)
def test_the_id_of_a_run_with_a_key_maps_to_the_cell_of_the_key(cells: list[str], key: str, random: bytes) -> None:
    table = Table((Generation(BEGINNING, tuple(cells)),))
    [home] = table.cells_of_key(key, LATER, BEGINNING)
    numbers = iter(range(10_000))
    run = id_in(table, home, lambda: made(LATER, random[:-2] + next(numbers).to_bytes(2, "big")))
    assert table.cell_of(run) == home


def test_a_key_is_looked_up_in_the_cells_of_older_generations_while_keys_are_retained() -> None:
    table = Table((Generation(BEGINNING, ("a",)), Generation(LATER, ("b",))))
    assert table.cells_of_key("k", LATER - timedelta(days=1), BEGINNING) == ["a"]
    assert table.cells_of_key("k", LATER + timedelta(days=1), LATER - timedelta(days=29)) == ["b", "a"]
    assert table.cells_of_key("k", LATER + timedelta(days=31), LATER + timedelta(days=1)) == ["b"]


def test_no_id_is_created_for_a_cell_that_takes_no_new_runs() -> None:
    table = Table((Generation(BEGINNING, ("a",)), Generation(LATER, ("b",))))
    assert table.cells == ["a", "b"]
    with pytest.raises(LookupError, match="a takes no new runs"):
        id_in(table, "a", lambda: made(LATER, bytes(RANDOM_BYTES)))
