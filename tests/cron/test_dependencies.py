"""Edges between entries: adding, removing, listing, and refused edges."""

from collections.abc import Iterable

import pytest

from tests.cron.recorder import Recorder, chain, pairs, run
from windlass.cron import (
    Condition,
    Cron,
    CronError,
    CycleDetected,
    Dependency,
    EntryId,
    EntryNotFound,
    FakeClock,
    InvalidCondition,
)
from windlass.errors import Invalid, NotFound, WindlassError


def entries(cron: Cron, names: Iterable[str]) -> list[EntryId]:
    return [cron.add("@triggered", print, name=name) for name in names]


@pytest.fixture
def idle() -> Cron:
    """A scheduler that was never started."""
    return Cron(clock=FakeClock())


@pytest.mark.parametrize(
    "edges",
    [[], ["ab", "bc", "cd"], ["ab", "ac", "bd", "cd"]],
    ids=["no edges", "chain", "diamond"],
)
def test_an_acyclic_graph_is_accepted(idle: Cron, edges: list[str]) -> None:
    entries(idle, "abcd")
    for parent, child in pairs(*edges):
        idle.add_dependency(child, parent)


@pytest.mark.parametrize(
    ("edges", "closing", "cycle"),
    [(["ab"], "ba", ("b", "a")), (["ab", "bc"], "ca", ("c", "b", "a")), ([], "aa", ("a",))],
    ids=["direct", "indirect", "self"],
)
def test_an_edge_that_closes_a_cycle_is_refused_and_the_error_lists_the_cycle(
    idle: Cron, edges: list[str], closing: str, cycle: tuple[str, ...]
) -> None:
    entries(idle, "abc")
    for parent, child in pairs(*edges):
        idle.add_dependency(child, parent)
    with pytest.raises(CycleDetected) as raised:
        idle.add_dependency(closing[1], closing[0])
    assert set(raised.value.cycle) == set(cycle)
    assert idle.dependencies(closing[1]) == []


def test_an_edge_is_listed_with_parent_and_condition(cron: Cron) -> None:
    parent, child = entries(cron, "ab")
    cron.add_dependency(child, parent, Condition.FAILURE)
    assert cron.dependencies(child) == [Dependency(parent, Condition.FAILURE)]


def test_the_reverse_edge_is_a_cycle(cron: Cron) -> None:
    parent, child = entries(cron, "ab")
    cron.add_dependency(child, parent)
    with pytest.raises(CycleDetected):
        cron.add_dependency(parent, child)


def test_edges_with_unknown_entry_ids_are_refused(cron: Cron) -> None:
    (known,) = entries(cron, "a")
    for child, parent in [(known, 99), (99, known)]:
        with pytest.raises(EntryNotFound) as raised:
            cron.add_dependency(child, parent)
        assert raised.value.key == 99


def test_edges_with_an_unknown_condition_are_refused(cron: Cron) -> None:
    parent, child = entries(cron, "ab")
    with pytest.raises(InvalidCondition):
        cron.add_dependency(child, parent, "99")
    assert cron.dependencies(child) == []


def test_the_condition_is_checked_first_then_the_child_the_parent_and_the_cycle(cron: Cron) -> None:
    entries(cron, "ab")
    cron.add_dependency("b", "a")
    with pytest.raises(InvalidCondition):
        cron.add_dependency("no child", "no parent", "bogus")
    with pytest.raises(EntryNotFound, match="no child"):
        cron.add_dependency("no child", "no parent")
    with pytest.raises(EntryNotFound, match="no parent"):
        cron.add_dependency("a", "no parent")
    with pytest.raises(CycleDetected):
        cron.add_dependency("a", "b")


def test_adding_the_same_edge_twice_creates_one_edge(cron: Cron) -> None:
    parent, child = entries(cron, "ab")
    cron.add_dependency(child, parent)
    cron.add_dependency(child, parent)
    assert len(cron.dependencies(child)) == 1


def test_edges_can_be_added_by_entry_name(cron: Cron) -> None:
    parent, _ = entries(cron, ["extract", "load"])
    cron.add_dependency("load", "extract")
    assert cron.dependencies("load") == [Dependency(parent, Condition.SUCCESS)]


def test_edges_with_unknown_entry_names_are_refused(cron: Cron) -> None:
    entries(cron, "a")
    for child, parent in [("a", "x"), ("x", "a")]:
        with pytest.raises(EntryNotFound):
            cron.add_dependency(child, parent)


def test_a_removed_edge_is_no_longer_listed(cron: Cron) -> None:
    parent, child = entries(cron, "ab")
    cron.add_dependency(child, parent)
    cron.remove_dependency(child, parent)
    assert cron.dependencies(child) == []


async def test_a_parent_accepts_a_new_child_after_its_child_is_removed(cron: Cron, recorder: Recorder) -> None:
    chain(cron, recorder, "a", "b")
    cron.remove("b")
    cron.add("@triggered", recorder.job("c"), name="c")
    cron.add_dependency("c", "a")
    await run(cron, "a")
    assert recorder.lines == ["a", "c"]


def test_removing_a_parent_clears_the_edges_of_all_its_children(cron: Cron) -> None:
    parent, *children = entries(cron, "abcd")
    for child in children:
        cron.add_dependency(child, parent)
    cron.remove(parent)
    assert [cron.dependencies(child) for child in children] == [[], [], []]


def test_edges_are_removed_by_name_and_unknown_names_refused(cron: Cron) -> None:
    entries(cron, "ab")
    cron.add_dependency("b", "a")
    cron.remove_dependency("b", "a")
    assert cron.dependencies("b") == []
    for child, parent in [("x", "a"), ("b", "x")]:
        with pytest.raises(EntryNotFound):
            cron.remove_dependency(child, parent)


def test_an_entry_without_edges_has_no_dependencies_before_the_start(idle: Cron) -> None:
    (entry,) = entries(idle, "a")
    assert idle.dependencies(entry) == []


def test_an_unknown_name_has_no_dependencies(cron: Cron) -> None:
    assert cron.dependencies("nobody") == []


def test_two_conditions_between_the_same_entries_are_two_edges(cron: Cron) -> None:
    parent, child = entries(cron, "ab")
    cron.add_dependency(child, parent, Condition.SUCCESS)
    cron.add_dependency(child, parent, Condition.FAILURE)
    assert [edge.condition for edge in cron.dependencies(child)] == [Condition.SUCCESS, Condition.FAILURE]


def test_edges_can_be_added_before_the_start(idle: Cron) -> None:
    parent, child = entries(idle, "ab")
    idle.add_dependency(child, parent)
    assert idle.dependencies(child) == [Dependency(parent, Condition.SUCCESS)]


def test_edges_can_be_removed_before_the_start(idle: Cron) -> None:
    parent, child = entries(idle, "ab")
    idle.add_dependency(child, parent)
    idle.remove_dependency(child, parent)
    assert idle.dependencies(child) == []


async def test_edges_can_be_changed_after_the_stop(idle: Cron) -> None:
    async with idle:
        entries(idle, "ab")
    idle.add_dependency("b", "a")
    assert len(idle.dependencies("b")) == 1
    idle.remove_dependency("b", "a")
    assert idle.dependencies("b") == []


def test_removing_an_unknown_edge_does_nothing(cron: Cron) -> None:
    one, two = entries(cron, "ab")
    cron.remove_dependency(one, two)
    cron.remove_dependency(98, 99)


def test_removing_one_edge_keeps_the_edges_to_other_parents(cron: Cron) -> None:
    one, two, child = entries(cron, "abc")
    cron.add_dependency(child, one)
    cron.add_dependency(child, two)
    cron.remove_dependency(child, one)
    assert cron.dependencies(child) == [Dependency(two, Condition.SUCCESS)]


def test_scheduler_errors_belong_to_the_windlass_error_family() -> None:
    assert issubclass(CronError, WindlassError)
    assert issubclass(EntryNotFound, (CronError, NotFound))
    assert issubclass(CycleDetected, Invalid)
