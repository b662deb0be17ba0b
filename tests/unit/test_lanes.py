"""The lanes from which a worker claims, and its cursor in each of them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from windlass.core.jobs.job import Claimed
from windlass.core.orgs import stored
from windlass.engine.workers.turn import Lane
from windlass.runtime.worker.lanes import BUSY, FULL, LEAST, MAX_LANES, MOST, SHARE, Lanes


def everything(_: str) -> bool:
    return True


def unlimited(_: str) -> int | None:
    return None


def a_job(seq: int, *, type_: str = "a.b.v1", priority: int = 100) -> Claimed:
    born = datetime(2030, 1, 1, tzinfo=UTC)
    return Claimed(UUID(int=seq), type_, "{}", "default", priority, seq, 0, 0, 3, 1, None, None, born, None)


def a_lane(seq: int, *, type_: str = "a.b.v1", priority: int = 100) -> Lane:
    return Lane("default", type_, priority, seq)


def searched(*lanes: Lane) -> Lanes:
    known = Lanes(everything)
    known.found(lanes, started=0.0, ended=0.001)
    return known


def test_a_new_worker_may_search_for_lanes_at_once() -> None:
    assert Lanes(everything).rest(0.0) == 0.0
    assert Lanes(everything).offer(10, unlimited) == []


def test_searches_take_at_most_a_twentieth_of_the_time() -> None:
    known = Lanes(everything)
    known.found([], started=100.0, ended=100.03)
    assert abs(known.rest(100.03) - SHARE * 0.03) < 1e-6
    assert known.rest(101.0) == 0.0


def test_the_pause_after_a_search_is_bounded_but_not_shorter_than_a_long_search() -> None:
    quick, slow, endless = Lanes(everything), Lanes(everything), Lanes(everything)
    quick.found([], started=0.0, ended=0.0)
    slow.found([], started=0.0, ended=0.5)
    endless.found([], started=0.0, ended=60.0)
    assert quick.rest(0.0) == LEAST
    assert slow.rest(0.5) == MOST
    assert endless.rest(60.0) == 60.0


def test_a_search_is_due_once_every_second_even_if_the_lanes_have_jobs() -> None:
    known = searched(a_lane(7))
    assert not known.search_due(0.9)
    assert known.search_due(1.1)
    assert not known.search_due(1.2)  # the first caller makes it
    assert known.search_due(1.1 + MOST)  # it failed: no result was stored
    known.found([a_lane(7)], started=3.0, ended=3.001)
    assert not known.search_due(3.1)


def test_a_search_comes_before_the_claim_only_if_the_known_lanes_are_distrusted() -> None:
    known = searched(a_lane(7))
    assert not known.search_first(5.0)  # overdue, but a claim from the known lanes need not wait for it
    known.distrust()
    assert known.search_first(5.0)
    assert not known.search_first(0.002)  # the last search was just before
    known.found([], started=5.0, ended=5.001)
    assert not known.search_first(10.0)


def test_after_a_wake_up_for_a_queue_no_claim_waits_for_a_search() -> None:
    known = searched(a_lane(7))
    known.distrust()
    known.woken("")  # for any queue: notifications may have been missed
    assert known.search_first(5.0)
    known.woken("default")
    assert not known.search_first(5.0)
    assert known.search_due(5.0)  # after the claim


def test_a_claim_starts_at_the_head_of_a_found_lane() -> None:
    [(lane, room)] = searched(a_lane(7)).offer(10, unlimited)
    assert (lane.seq, room) == (6, 10)


def test_the_cursor_of_a_lane_moves_past_claimed_jobs() -> None:
    known = searched(a_lane(7))
    known.taken([a_job(7), a_job(9), a_job(12)])
    assert [lane.seq for lane, _ in known.offer(10, unlimited)] == [12]


def test_a_claim_never_moves_a_cursor_back() -> None:
    known = searched(a_lane(7))
    known.taken([a_job(12)])
    known.taken([a_job(8)])
    assert [lane.seq for lane, _ in known.offer(10, unlimited)] == [12]


def test_a_search_moves_a_cursor_back_to_a_job_that_it_passed() -> None:
    known = searched(a_lane(7))
    known.taken([a_job(12)])
    known.found([a_lane(9)], started=1.0, ended=1.0)
    assert [lane.seq for lane, _ in known.offer(10, unlimited)] == [8]


def test_a_claim_from_an_unknown_lane_changes_nothing() -> None:
    known = searched(a_lane(7))
    known.taken([a_job(50, type_="other.x.v1")])
    assert [lane.type for lane, _ in known.offer(10, unlimited)] == ["a.b.v1"]


def test_an_empty_lane_is_kept_for_later_jobs() -> None:
    known = searched(a_lane(7))
    assert not known.found([], started=1.0, ended=1.0)
    assert len(known.offer(10, unlimited)) == 1


def test_a_search_reports_whether_there_is_a_lane_to_claim_from() -> None:
    assert Lanes(everything).found([a_lane(1)], started=0.0, ended=0.0)
    assert not Lanes(lambda _: False).found([a_lane(1)], started=0.0, ended=0.0)


def test_lanes_of_types_that_the_worker_does_not_serve_are_ignored() -> None:
    known = Lanes(lambda type_: type_ == "mine.x.v1")
    known.found([a_lane(1, type_="theirs.x.v1"), a_lane(2, type_="mine.x.v1")], started=0.0, ended=0.0)
    assert [lane.type for lane, _ in known.offer(10, unlimited)] == ["mine.x.v1"]


def test_a_lane_is_dropped_when_the_worker_no_longer_serves_its_type() -> None:
    ours = {"a.b.v1"}
    known = Lanes(ours.__contains__)
    known.found([a_lane(1)], started=0.0, ended=0.0)
    ours.clear()
    known.found([], started=1.0, ended=1.0)
    assert known.offer(10, unlimited) == []


def test_a_claim_gets_the_most_urgent_lanes_when_there_are_too_many() -> None:
    known = searched(*(a_lane(n + 1, type_=f"t{n}.x.v1") for n in range(MAX_LANES + 50)))
    offered = known.offer(10, unlimited)
    assert [lane.type for lane, _ in offered] == [f"t{n}.x.v1" for n in range(MAX_LANES)]


def test_lanes_that_do_not_fit_into_a_claim_are_offered_to_the_next_without_a_search() -> None:
    known = searched(*(a_lane(n + 1, type_=f"t{n}.x.v1") for n in range(MAX_LANES + 50)))
    assert known.claimed(known.offer(10, unlimited), [a_job(1, type_="t0.x.v1")])
    second = known.offer(10, unlimited)
    assert [lane.type for lane, _ in second] == [f"t{n}.x.v1" for n in range(MAX_LANES, MAX_LANES + 50)]
    assert not known.claimed(second, [])
    assert known.offer(10, unlimited) == []
    known.woken("default")
    assert len(known.offer(10, unlimited)) == MAX_LANES


def test_lanes_with_jobs_precede_lanes_that_were_kept() -> None:
    known = searched(*(a_lane(n + 1, type_=f"old{n}.x.v1") for n in range(MAX_LANES)))
    known.found([a_lane(500, type_="new.x.v1")], started=1.0, ended=1.0)
    assert known.offer(10, unlimited)[0][0].type == "new.x.v1"


def test_a_limited_type_offers_only_its_first_lane_up_to_its_free_slots() -> None:
    known = searched(a_lane(1, priority=1), a_lane(2, priority=2), a_lane(3, type_="free.x.v1"))
    offered = known.offer(10, lambda type_: 4 if type_ == "a.b.v1" else None)
    assert [(lane.type, lane.priority, room) for lane, room in offered] == [("a.b.v1", 1, 4), ("free.x.v1", 100, 10)]


def test_the_slots_of_a_lane_never_exceed_the_count_of_the_claim() -> None:
    assert [room for _, room in searched(a_lane(1)).offer(3, lambda _: 50)] == [3]


def test_a_type_without_free_slots_is_not_offered() -> None:
    assert searched(a_lane(1)).offer(10, lambda _: 0) == []
    assert searched(a_lane(1)).offer(10, lambda _: -1) == []


# Several orgs


def lane_of(org: str, seq: int, *, type_: str = "a.b.v1", priority: int = 100) -> Lane:
    return Lane(stored(org, "default"), type_, priority, seq)


def job_of(org: str, seq: int, *, type_: str = "a.b.v1") -> Claimed:
    return a_job(seq, type_=type_)._replace(queue=stored(org, "default"))


def places(offer: Sequence[tuple[Lane, int]]) -> dict[str, int]:
    return {lane.queue: most for lane, most in offer}


def test_with_one_org_all_slots_are_offered_to_each_lane() -> None:
    known = searched(lane_of("acme", 1), lane_of("acme", 2, priority=200))
    assert [most for _, most in known.offer(10, unlimited)] == [10, 10]
    assert not known.claimed(known.offer(10, unlimited), [])


def test_with_several_orgs_each_gets_its_share_regardless_of_the_age_of_jobs() -> None:
    known = searched(lane_of("default", 1), lane_of("acme", 1000), lane_of("zeta", 2000))
    assert places(known.offer(9, unlimited)) == {"default": 3, "acme/default": 3, "zeta/default": 3}
    assert sum(places(known.offer(1, unlimited)).values()) == 1


def test_the_share_of_an_org_goes_to_its_most_urgent_lane_and_then_to_the_next() -> None:
    known = searched(lane_of("acme", 5, priority=1), lane_of("zeta", 1), lane_of("acme", 2, type_="c.d.v1"))
    offer = known.offer(4, unlimited)
    assert [(lane.queue, lane.type, most) for lane, most in offer] == [
        ("acme/default", "a.b.v1", 2),
        ("zeta/default", "a.b.v1", 2),
    ]
    assert known.claimed(offer, [job_of("acme", 5)._replace(priority=1), job_of("zeta", 1), job_of("zeta", 2)])
    assert {(lane.queue, lane.type) for lane, _ in known.offer(4, unlimited)} == {
        ("acme/default", "c.d.v1"),  # its first lane gave less than it was offered
        ("zeta/default", "a.b.v1"),
    }


def test_when_all_lanes_are_dry_no_lane_is_offered_until_a_wake_up_or_a_search() -> None:
    known = searched(lane_of("acme", 5), lane_of("zeta", 1))
    assert not known.claimed(known.offer(4, unlimited), [])
    assert known.offer(4, unlimited) == []
    known.woken("zeta/default")
    assert places(known.offer(4, unlimited)) == {"zeta/default": 4}
    known.found([lane_of("acme", 5)], started=1.0, ended=1.0)
    assert places(known.offer(4, unlimited)) == {"acme/default": 2, "zeta/default": 2}


def test_an_org_at_its_limit_is_offered_again_after_a_pause_or_a_wake_up() -> None:
    known = searched(lane_of("acme", 5), lane_of("zeta", 1))
    known.close("acme", False, now=10.0)
    assert places(known.offer(4, unlimited, now=10.5)) == {"zeta/default": 4}
    assert len(known.offer(4, unlimited, now=10.0 + FULL)) == 2
    known.close("acme", True, now=20.0)
    assert len(known.offer(4, unlimited, now=20.0 + BUSY)) == 2
    known.close("acme", False, now=30.0)
    known.woken("acme/default")
    assert len(known.offer(4, unlimited, now=30.0)) == 2


def test_a_search_finds_nothing_to_claim_if_every_org_is_at_its_limit() -> None:
    known = Lanes(everything)
    known.close("acme", False, now=10.0)
    assert not known.found([lane_of("acme", 5)], started=10.0, ended=10.1)
    assert known.found([lane_of("acme", 5), lane_of("zeta", 5)], started=10.0, ended=10.1)


def test_the_slots_of_a_limited_type_are_divided_between_orgs() -> None:
    known = searched(lane_of("acme", 5), lane_of("zeta", 1))
    assert sum(places(known.offer(10, lambda _: 3)).values()) == 3
