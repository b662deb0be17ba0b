"""A failing batch is split until each item that fails is alone; the others are processed once, in order."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine.quarantine import split_batch
from windlass.errors import Unavailable


class UnexpectedError(Exception):
    """An error of an unknown type."""


async def run(items: Sequence[int], bad: set[int]) -> tuple[list[int], list[int]]:
    done: list[int] = []
    aside: list[int] = []

    async def attempt(batch: Sequence[int]) -> int:
        if bad.intersection(batch):
            raise UnexpectedError
        done.extend(batch)
        return len(batch)

    async def isolate(item: int, error: Exception) -> None:
        assert isinstance(error, UnexpectedError)
        aside.append(item)

    assert sum(await split_batch(items, attempt, isolate)) == len(done)
    return done, aside


@given(st.integers(0, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, max(n - 1, 0))))))
async def test_exactly_the_failing_items_are_set_aside(case: tuple[int, set[int]]) -> None:
    count, bad = case
    bad = {n for n in bad if n < count}
    done, aside = await run(range(count), bad)
    assert done == [n for n in range(count) if n not in bad]
    assert aside == sorted(bad)


async def test_no_item_is_set_aside_while_the_database_is_unavailable() -> None:
    async def attempt(batch: Sequence[int]) -> None:
        raise Unavailable("gone")

    async def isolate(item: int, error: Exception) -> None:
        raise AssertionError("nothing is to be set aside")

    with pytest.raises(Unavailable):
        await split_batch([1, 2, 3], attempt, isolate)


async def test_one_failing_item_among_a_thousand_is_found_in_few_attempts() -> None:
    attempts = 0

    async def attempt(batch: Sequence[int]) -> None:
        nonlocal attempts
        attempts += 1
        if 700 in batch:
            raise UnexpectedError

    async def isolate(item: int, error: Exception) -> None:
        assert item == 700

    await split_batch(range(1000), attempt, isolate)
    assert attempts <= 2 * 10 + 1
