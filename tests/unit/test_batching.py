"""Natural batches: alone at once, together while one is under way, and an error only for whom it concerns."""

import asyncio
from collections.abc import Sequence

import pytest

from windlass.errors import Unavailable
from windlass.runtime.batching import Batcher


async def test_what_comes_while_a_batch_is_under_way_goes_together() -> None:
    batches: list[list[int]] = []
    gate = asyncio.Event()

    async def serve(asked: Sequence[int]) -> list[int | Exception]:
        batches.append([*asked])
        await gate.wait()
        return [ValueError(str(n)) if n == 3 else n * 10 for n in asked]

    batcher = Batcher[int, int](serve, most=3)
    first = asyncio.create_task(batcher.call(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rest = [asyncio.create_task(batcher.call(n)) for n in range(1, 6)]
    await asyncio.sleep(0)
    rest[4].cancel()  # whoever asked goes away
    gate.set()
    assert await first == 0
    assert [await task for task in (rest[0], rest[1], rest[3])] == [10, 20, 40]
    with pytest.raises(ValueError, match="3"):
        await rest[2]
    assert batches == [[0], [1, 2, 3], [4, 5]]


async def test_a_request_that_makes_its_batch_fail_fails_alone() -> None:
    async def serve(asked: Sequence[int]) -> list[int | Exception]:
        if 1 in asked:
            raise OSError("gone")
        return [*asked]

    batcher = Batcher[int, int](serve)
    asked = [asyncio.create_task(batcher.call(n)) for n in (7, 0, 1, 2, 3)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["7", "0", "gone", "2", "3"]


async def test_with_the_database_away_all_of_a_batch_fail_and_the_next_goes_on() -> None:
    async def serve(asked: Sequence[int]) -> list[int | Exception]:
        if 1 in asked:
            raise Unavailable("away")
        return [*asked]

    batcher = Batcher[int, int](serve)
    asked = [asyncio.create_task(batcher.call(n)) for n in (7, 0, 1, 2)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away"] * 4
    assert await batcher.call(2) == 2
