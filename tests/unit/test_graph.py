"""Functions of a graph of names: order, cycles, descendants."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.workflows.graph import Lineage, children, cycles, order

LONG = 5000
CHAIN = {f"s{n}": [f"s{n - 1}"] if n else [] for n in range(LONG)}
RING = {f"s{n}": [f"s{n - 1}" if n else f"s{LONG - 1}"] for n in range(LONG)}
NAMES = "abcdefgh"

graphs = st.fixed_dictionaries({name: st.lists(st.sampled_from(NAMES), max_size=3) for name in NAMES})
forests = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(NAMES[:n]), max_size=3) if n else st.just([]) for n, name in enumerate(NAMES)}
)


def reaches(parents: dict[str, list[str]], name: str, ancestor: str) -> bool:
    """Return whether a name has an ancestor, by a simple search."""
    seen: set[str] = set()
    waiting = list(parents[name])
    while waiting:
        parent = waiting.pop()
        if parent not in seen:
            seen.add(parent)
            waiting += parents[parent]
    return ancestor in seen


def test_parents_come_first() -> None:
    assert order({"c": ["b", "a"], "b": ["a"], "a": []}) == ["a", "b", "c"]


def test_names_without_parents_keep_their_order() -> None:
    assert order({"z": [], "m": [], "a": []}) == ["z", "m", "a"]


def test_names_in_or_after_a_cycle_are_missing_from_the_order() -> None:
    assert order({"a": ["b"], "b": ["a"], "behind": ["b"], "free": []}) == ["free"]


def test_a_parent_named_twice_counts_once() -> None:
    assert order({"a": [], "b": ["a", "a"]}) == ["a", "b"]
    assert children({"a": [], "b": ["a", "a"]}) == {"a": ["b"], "b": []}


def test_unknown_parents_are_ignored() -> None:
    assert order({"a": ["stranger"]}) == ["a"]
    assert cycles({"a": ["stranger"]}) == []
    assert not Lineage({"a": ["stranger"]}).has("a", "stranger")


def test_a_cycle_is_listed_in_the_direction_of_its_edges_from_its_first_name() -> None:
    assert cycles({"a": ["c"], "b": ["a"], "c": ["b"]}) == [("a", "b", "c")]
    assert cycles({"in": [], "c": ["b", "in"], "a": ["c"], "b": ["a"]}) == [("c", "a", "b")]


def test_a_name_that_is_its_own_parent_is_a_cycle() -> None:
    assert cycles({"a": ["a"]}) == [("a",)]


def test_all_disjoint_cycles_are_listed() -> None:
    assert cycles({"a": ["b"], "b": ["a"], "x": ["y"], "y": ["x"], "free": ["a"]}) == [("a", "b"), ("x", "y")]


def test_a_chain_of_thousands_has_an_order_and_no_cycle() -> None:
    assert order(CHAIN) == list(CHAIN)
    assert cycles(CHAIN) == []
    assert Lineage(CHAIN).has(f"s{LONG - 1}", "s0")


def test_a_cycle_of_thousands_is_listed_completely() -> None:
    assert cycles(RING) == [tuple(RING)]


def test_lineage_has_direct_and_indirect_ancestors_only() -> None:
    lineage = Lineage({"a": [], "b": ["a"], "c": ["b"], "d": []})
    assert lineage.has("c", "b")
    assert lineage.has("c", "a")
    assert not lineage.has("a", "c")
    assert not lineage.has("c", "d")
    assert not lineage.has("a", "a")
    assert not lineage.has("stranger", "a")


@given(graphs)
def test_a_graph_has_either_a_complete_order_or_a_cycle(parents: dict[str, list[str]]) -> None:
    assert (len(order(parents)) == len(parents)) == (not cycles(parents))


@given(graphs)
def test_every_listed_cycle_is_a_cycle(parents: dict[str, list[str]]) -> None:
    found = cycles(parents)
    assert len({name for cycle in found for name in cycle}) == sum(map(len, found))
    for cycle in found:
        assert all(before in parents[after] for before, after in pairwise([*cycle, cycle[0]]))


@given(forests)
def test_lineage_agrees_with_a_simple_search(parents: dict[str, list[str]]) -> None:
    lineage = Lineage(parents)
    for name in NAMES:
        assert [other for other in NAMES if lineage.has(name, other)] == [
            other for other in NAMES if reaches(parents, name, other)
        ]
