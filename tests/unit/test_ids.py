"""Ids are UUIDv7, with the layout of RFC 9562."""

from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.ids import RANDOM_BYTES, ascending, uuid7
from windlass.engine.database import new_ids

MILLISECOND = 1_000_000  # nanoseconds
moments = st.integers(0, 2**48 * MILLISECOND - 1)
dice = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


@given(moments, dice)
def test_the_layout_is_that_of_version_seven(moment: int, random: bytes) -> None:
    made = uuid7(moment, random)
    assert made.version == 7
    assert made.variant == RFC_4122
    assert made.int >> 80 == moment // MILLISECOND


@given(moments, st.integers(1, 2**48 * MILLISECOND), dice, dice)
def test_ids_sort_by_their_time_as_numbers_and_as_strings(first: int, later: int, one: bytes, other: bytes) -> None:
    """The 4096 fractions of a millisecond are 244 or 245 ns long."""
    second = min(first + later, 2**48 * MILLISECOND - 1)
    if second - first >= 245:
        assert uuid7(first, one) < uuid7(second, other)
        assert str(uuid7(first, one)) < str(uuid7(second, other))


@given(moments, dice, dice)
def test_sixty_two_of_the_random_bits_are_kept(moment: int, one: bytes, other: bytes) -> None:
    mask = (1 << 62) - 1  # the variant replaces two bits
    same_dice = int.from_bytes(one, "big") & mask == int.from_bytes(other, "big") & mask
    assert (uuid7(moment, one) == uuid7(moment, other)) is same_dice


def test_the_example_of_the_rfc_is_reproduced() -> None:
    """RFC 9562, A.6: 2022-02-22 14:22:22 -05:00, rand_a 0xCC3, here a fraction of a millisecond, and rand_b."""
    moment = 0x017F22E279B0 * MILLISECOND + -(-0xCC3 * MILLISECOND // 4096)
    random = 0x18C4DC0C0C07398F.to_bytes(RANDOM_BYTES, "big")
    assert str(uuid7(moment, random)) == "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"


def test_ids_differ_and_ascend_from_call_to_call() -> None:
    ids = [*new_ids(10_000), *new_ids(1), *new_ids(10)]
    assert len(set(ids)) == 10_011
    assert ids == sorted(ids)
    assert new_ids(0) == []


@given(moments, st.lists(dice))
def test_ids_of_the_same_moment_are_in_ascending_order(moment: int, random: list[bytes]) -> None:
    made = [UUID(bytes=one) for one in ascending(moment, b"".join(random))]
    assert made == sorted(uuid7(moment, one) for one in random)
