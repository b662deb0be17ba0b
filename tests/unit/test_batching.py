"""Coalescing of requests into batches: a single one is sent at once, those during a batch go together, and an error
fails only its own request."""

import asyncio
from collections.abc import Sequence

import pytest

from windlass.errors import Unavailable
from windlass.runtime import batching
from windlass.runtime.batching import Batcher


async def test_requests_that_arrive_during_a_batch_are_sent_together() -> None:
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
    rest[4].cancel()  # its caller goes away
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


async def test_an_unavailable_database_fails_the_whole_batch_but_not_the_next() -> None:
    async def serve(asked: Sequence[int]) -> list[int | Exception]:
        if 1 in asked:
            raise Unavailable("away")
        return [*asked]

    batcher = Batcher[int, int](serve)
    asked = [asyncio.create_task(batcher.call(n)) for n in (7, 0, 1, 2)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [str(answer) for answer in answers] == ["away"] * 4
    assert await batcher.call(2) == 2


async def test_a_slow_batch_does_not_delay_later_batches() -> None:
    stuck, free = asyncio.Event(), asyncio.Event()

    async def serve(asked: Sequence[int]) -> list[int | Exception]:
        if 0 in asked:
            stuck.set()
            await free.wait()
        return [*asked]

    batcher = Batcher[int, int](serve, lanes=2)
    first = asyncio.create_task(batcher.call(0))
    async with asyncio.timeout(30):
        await stuck.wait()
        assert await asyncio.gather(*(batcher.call(n) for n in range(1, 6))) == [1, 2, 3, 4, 5]
        assert await batcher.call(6) == 6
        assert not first.done()
        free.set()
        assert await first == 0


async def test_requests_wait_for_a_batch_that_was_sent_just_now_and_share_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "PATIENCE", 600.0)
    sent: list[list[int]] = []
    begun, answer = asyncio.Event(), asyncio.Event()

    async def serve(asked: Sequence[int]) -> list[int | Exception]:
        sent.append([*asked])
        begun.set()
        await answer.wait()
        return [*asked]

    batcher = Batcher[int, int](serve, lanes=2)
    first = asyncio.create_task(batcher.call(0))
    async with asyncio.timeout(30):
        await begun.wait()
        others = [asyncio.create_task(batcher.call(n)) for n in (1, 2, 3)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert sent == [[0]]
        answer.set()
        assert await asyncio.gather(first, *others) == [0, 1, 2, 3]
    assert sent == [[0], [1, 2, 3]]
    assert await batcher.call(4) == 4  # at once: nothing is in flight
