"""The object store in a local folder: what every store must do. Others are tested where their servers are."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from windlass import NotFound
from windlass.effects.objects import CHUNK, Objects
from windlass.errors import Invalid, Unavailable


@pytest.fixture
def objects(tmp_path: Path) -> Objects:
    return Objects.open((tmp_path / "a folder").as_uri())


async def test_an_object_is_read_as_it_was_written_last(objects: Objects) -> None:
    await objects.put("runs/1/a", b"one")
    await objects.put("runs/1/a", b"two")
    assert await objects.get("runs/1/a") == b"two"
    with pytest.raises(Invalid, match="3 bytes, the limit is 2"):
        await objects.get("runs/1/a", most=2)
    with pytest.raises(NotFound):
        await objects.get("runs/1/b")


async def test_large_objects_are_streamed_both_ways(objects: Objects) -> None:
    parts = [bytes([n]) * CHUNK for n in range(12)]

    async def chunks() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    await objects.put_stream("runs/1/large", chunks())
    assert b"".join([chunk async for chunk in objects.stream("runs/1/large")]) == b"".join(parts)


async def test_a_stream_that_breaks_off_leaves_no_object(objects: Objects) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"x" * CHUNK
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await objects.put_stream("runs/1/broken", chunks())
    assert await objects.list("runs/1/") == []


async def test_a_part_of_an_object_can_be_read(objects: Objects) -> None:
    await objects.put("a", b"0123456789")
    assert [chunk async for chunk in objects.stream("a", start=3, end=7)] == [b"3456"]


async def test_deleting_ignores_what_does_not_exist(objects: Objects) -> None:
    for name in ("a", "b", "c"):
        await objects.put(f"runs/1/{name}", b"")
    await objects.delete(["runs/1/x", "runs/1/a", "runs/1/y", "runs/1/b"])
    assert [meta.key for meta in await objects.list("runs/1/")] == ["runs/1/c"]


async def test_a_store_that_cannot_be_used_is_unavailable(tmp_path: Path) -> None:
    objects = Objects.open((tmp_path / "store").as_uri())
    (tmp_path / "store").rmdir()
    (tmp_path / "store").write_text("not a folder")
    with pytest.raises(Unavailable, match="the object store cannot be used"):
        await objects.put("a/b", b"")
