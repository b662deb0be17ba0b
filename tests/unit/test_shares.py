"""The capacity of a claim is divided between orgs: none starves, equal demand gets equal shares, nothing is wasted."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from windlass.runtime.worker.shares import MOST_OWED, FairShares

ORGS = [f"o{n}" for n in range(8)]
some_orgs = st.sets(st.sampled_from(ORGS), min_size=1)
counts = st.integers(min_value=1, max_value=20)


def turn(shares: FairShares, due: Counter[str], count: int) -> Counter[str]:
    """Simulate one claim: each org gets the slots that were dealt to it, as far as it has due jobs."""
    dealt = shares.deal([org for org in due if due[org]], count)
    taken = Counter({org: min(places, due[org]) for org, places in dealt.items()})
    shares.used(dealt, taken, without_jobs={org for org, places in dealt.items() if due[org] <= places})
    return taken


@given(st.lists(st.tuples(some_orgs, counts), min_size=1, max_size=30))
def test_exactly_the_slots_of_a_claim_are_dealt(turns: list[tuple[set[str], int]]) -> None:
    shares = FairShares()
    for orgs, count in turns:
        dealt = shares.deal(orgs, count)
        assert sum(dealt.values()) == count
        assert dealt.keys() <= orgs
        assert 0 not in dealt.values()


@given(st.lists(st.tuples(some_orgs, counts), min_size=1, max_size=60), some_orgs)
def test_orgs_that_always_have_jobs_get_equal_shares_regardless_of_other_orgs(
    turns: list[tuple[set[str], int]], backlogged: set[str]
) -> None:
    shares, total = FairShares(), Counter[str]()
    for others, count in turns:
        due = Counter(dict.fromkeys(others, 1) | dict.fromkeys(backlogged, 1000))
        total += turn(shares, due, count)
        got = [total[org] for org in backlogged]
        assert max(got) - min(got) <= 1


@given(st.lists(counts, min_size=len(ORGS), max_size=60), some_orgs)
def test_no_org_waits_longer_than_a_round(turns: list[int], orgs: set[str]) -> None:
    shares, waited = FairShares(), Counter[str]()
    for count in turns:
        taken = turn(shares, Counter(dict.fromkeys(orgs, 1000)), count)
        for org in orgs:
            waited[org] = 0 if taken[org] else waited[org] + count
            assert waited[org] < len(orgs)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_no_org_starves_if_there_are_more_orgs_than_a_claim_can_serve(orgs: int, most: int, count: int) -> None:
    shares, names, got = FairShares(), [f"o{n:02}" for n in range(orgs)], Counter[str]()
    for _ in range(3 * orgs):
        dealt = shares.deal(names, count, most=most)
        assert sum(dealt.values()) == count
        assert len(dealt) <= most
        shares.used(dealt, dealt, without_jobs=())
        got.update(dealt.keys())
    assert min(got[name] for name in names) >= 2
    assert max(got.values()) - min(got.values()) <= 1


@given(st.dictionaries(st.sampled_from(ORGS), st.integers(1, 300), min_size=1), counts)
def test_all_jobs_are_claimed_and_long_queues_do_not_delay_short_ones(due: dict[str, int], count: int) -> None:
    shares, left, places = FairShares(), Counter(due), 0
    while any(left.values()):
        before = Counter(left)
        left -= turn(shares, left, count)
        assert left != before
        places += count
        for org, jobs in due.items():
            # Each round of one slot for each org claims one more of its jobs.
            assert not left[org] or places < (jobs + 1) * len(due) + count


@given(st.lists(st.tuples(counts, st.booleans()), min_size=1, max_size=60))
def test_slots_that_an_org_could_not_use_are_made_up_for_later_up_to_a_limit(turns: list[tuple[int, bool]]) -> None:
    shares, total = FairShares(), Counter[str]()
    for count, locked in turns:
        dealt = shares.deal(["a", "b"], count)
        taken = {org: places for org, places in dealt.items() if not (locked and org == "a")}
        shares.used(dealt, taken, without_jobs=())
        total.update(taken)
        assert sum(dealt.values()) == count
    for _ in range(2 * MOST_OWED):
        dealt = shares.deal(["a", "b"], 2)
        shares.used(dealt, dealt, without_jobs=())
        total.update(dealt)
    missed = sum(count for count, locked in turns if locked)
    assert total["b"] - total["a"] <= max(1, missed)
    if missed <= MOST_OWED:
        assert abs(total["b"] - total["a"]) <= 1


def test_an_org_without_jobs_is_owed_nothing() -> None:
    shares = FairShares()
    dealt = shares.deal(["a", "b"], 4)
    shares.used(dealt, {"a": 2}, without_jobs={"b"})
    assert shares.deal(["a", "b"], 4) == {"a": 2, "b": 2}
