"""Cursors of the trail: they cover what a reader has received, in any order of commits."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.events.cursor import Cursor, Snapshot, places
from windlass.errors import Invalid


@dataclass(frozen=True)
class Line:
    xid: int
    id: int
    of_job: bool = False


SNAPSHOTS = st.builds(
    lambda xmax, back: Snapshot(xmax, frozenset(xmax - one for one in back if one <= xmax)),
    st.integers(100, 2**60),
    st.sets(st.integers(1, 99), max_size=20),
)


def test_a_snapshot_sees_what_was_committed() -> None:
    found = Snapshot.parse("7:10:7,9")
    assert [xid for xid in range(12) if found.sees(xid)] == [0, 1, 2, 3, 4, 5, 6, 8]
    assert Snapshot.parse("10:10:") == Snapshot(10)
    assert found.below(9) == Snapshot(9, frozenset({7}))


@given(SNAPSHOTS, SNAPSHOTS, st.integers(0, 2**60))
def test_a_snapshot_that_covers_another_sees_everything_that_it_sees(one: Snapshot, other: Snapshot, xid: int) -> None:
    assert not (one.covers(other) and other.sees(xid)) or one.sees(xid)
    assert one.covers(one)


@given(SNAPSHOTS, SNAPSHOTS, st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_cursors_round_trip_through_strings(upto: Snapshot, before: Snapshot, run_line: int, job_line: int) -> None:
    for cursor in (Cursor(upto), Cursor(upto, before, run_line, job_line)):
        assert Cursor.parse(str(cursor)) == cursor


@pytest.mark.parametrize("text", ["", "x", "1", "1+1;1+1", "1+1;1+1;x;1", "3+1,4", "1+1;1+1;1;1;1", "9" * 12_001])
def test_an_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="not a cursor of this stream"):
        Cursor.parse(text)


@given(st.data())
def test_the_cursor_after_a_line_covers_that_line_and_all_before_it(data: st.DataObject) -> None:
    base, upto = Snapshot(10, frozenset({7, 8})), Snapshot(14, frozenset({12}))
    kinds = st.tuples(st.sampled_from([7, 8, 10, 11, 13]), st.booleans())
    drawn = data.draw(st.lists(kinds, max_size=12))
    lines = [Line(xid, n, of_job) for n, (xid, of_job) in enumerate(drawn, 1)]
    for had, cursor in enumerate(places(lines, Cursor(base), upto), 1):
        assert [cursor.has(line) for line in lines] == [n < had for n in range(len(lines))]
        assert cursor.has(Line(9, 999))
        assert not cursor.has(Line(12, 0))
