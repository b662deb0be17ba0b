"""The object store on a folder and on two S3 servers."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.launchers.s3 import BUCKET, S3Server, moto_server, rclone_server
from windlass.effects.objects import Objects
from windlass.errors import Invalid, NotFound, Unavailable

MIB = 1024 * 1024
STORES = ["folder", "rclone", "moto"]


@pytest.fixture(scope="module")
def rclone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with rclone_server(tmp_path_factory.mktemp("rclone")) as server:
        yield server


@pytest.fixture(scope="module")
def moto() -> Iterator[S3Server]:
    if find_spec("moto") is None and "CI" not in os.environ:
        pytest.skip("moto is not installed: pip install --group dev")
    with moto_server() as server:
        yield server


@pytest.fixture(params=STORES)
def objects(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Objects:
    """An empty store. The tests share a bucket, each under a prefix of its own."""
    if request.param == "folder":
        return Objects.open(f"file://{tmp_path}/a%20folder")
    server: S3Server = request.getfixturevalue(request.param)
    return on(server, monkeypatch, prefix=tmp_path.name)


def on(server: S3Server, monkeypatch: pytest.MonkeyPatch, *, prefix: str = "x", **env: str) -> Objects:
    for name, value in server.env(**env).items():
        monkeypatch.setenv(name, value)
    return Objects.open(f"s3://{BUCKET}/{prefix}")


async def chunks(count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield bytes([number]) * MIB


# Objects


async def test_an_object_is_read_as_it_was_written(objects: Objects) -> None:
    await objects.put("runs/1/output.json", b'{"total": 3}')
    await objects.put("runs/1/empty", b"")
    assert await objects.get("runs/1/output.json") == b'{"total": 3}'
    assert await objects.get("runs/1/empty") == b""


async def test_an_object_is_replaced_by_a_second_write(objects: Objects) -> None:
    await objects.put("status.json", b"running")
    await objects.put("status.json", b"success")
    assert await objects.get("status.json") == b"success"


async def test_a_stream_of_20_mib_is_written_and_read_completely(objects: Objects) -> None:
    await objects.put_stream("artifact", chunks(20))
    received, pieces = hashlib.sha256(), []
    async for piece in objects.stream("artifact"):
        received.update(piece)
        pieces.append(len(piece))
    expected = hashlib.sha256(b"".join([piece async for piece in chunks(20)]))
    assert sum(pieces) == 20 * MIB
    assert max(pieces) < 10 * MIB
    assert received.hexdigest() == expected.hexdigest()


async def test_a_part_of_an_object_can_be_read(objects: Objects) -> None:
    await objects.put("log", b"0123456789")
    assert [bytes(piece) async for piece in objects.stream("log", start=4)] == [b"456789"]
    assert [bytes(piece) async for piece in objects.stream("log", start=4, end=6)] == [b"45"]


async def test_a_copy_survives_the_deletion_of_its_source(objects: Objects) -> None:
    await objects.put_stream("live/a", chunks(7))
    for _ in range(2):
        await objects.copy("live/a", "runs/1/a")
    await objects.delete(["live/a"])
    assert [(meta.key, meta.size) for meta in await objects.list("")] == [("runs/1/a", 7 * MIB)]
    with pytest.raises(NotFound):
        await objects.copy("live/a", "runs/1/b")


async def test_a_failed_stream_leaves_no_object(objects: Objects) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 6 * MIB
        raise RuntimeError("the producer failed")

    with pytest.raises(RuntimeError, match="the producer failed"):
        await objects.put_stream("artifact", broken())
    assert await objects.list("") == []


async def test_an_object_above_the_limit_is_not_read(objects: Objects) -> None:
    await objects.put("output.json", b"x" * 101)
    assert len(await objects.get("output.json", most=101)) == 101
    with pytest.raises(Invalid, match=r"output\.json has 101 bytes, the limit is 100"):
        await objects.get("output.json", most=100)


async def test_reading_a_missing_object_raises_not_found(objects: Objects) -> None:
    with pytest.raises(NotFound, match=r"no object runs/1/status\.json"):
        await objects.get("runs/1/status.json")
    with pytest.raises(NotFound):
        _ = [piece async for piece in objects.stream("runs/1/status.json")]


@pytest.mark.parametrize("key", ["a b%c.txt", "ü/€ 100%.txt", "a%20b", "q?r&s=1", "*[x]+y"])
async def test_keys_may_contain_special_characters(objects: Objects, key: str) -> None:
    await objects.put(key, b"content")
    assert await objects.get(key) == b"content"
    assert [meta.key for meta in await objects.list("")] == [key]


@pytest.mark.parametrize("key", ["../outside", "a/../b", "a//b", "line\nbreak", "report#1"])
async def test_a_key_that_some_stores_do_not_support_is_refused(objects: Objects, key: str) -> None:
    with pytest.raises(Invalid, match="is not valid") as refused:
        await objects.put(key, b"content")
    assert refused.value.field == "key"


# Listings


async def test_a_listing_contains_exactly_the_objects_with_a_prefix(objects: Objects) -> None:
    await asyncio.gather(*[objects.put(key, b"12") for key in ("live/a/1", "live/a/2/3", "live/ab/1", "live/b")])
    assert sorted((meta.key, meta.size) for meta in await objects.list("live/a/")) == [
        ("live/a/1", 2),
        ("live/a/2/3", 2),
    ]
    assert await objects.list("live/c/") == []


@pytest.mark.parametrize("objects", ["folder", "rclone"], indirect=True)
async def test_listings_and_deletions_span_several_pages(objects: Objects) -> None:
    keys = {f"live/pool/{number:04d}" for number in range(1100)}
    for key in keys:
        await objects.put(key, b"")
    assert {meta.key for meta in await objects.list("live/pool/")} == keys
    await objects.delete(sorted(keys))
    assert await objects.list("live/pool/") == []


@pytest.mark.parametrize("objects", ["folder", "rclone"], indirect=True)
async def test_the_version_changes_when_the_same_content_is_written_again(objects: Objects) -> None:
    versions = []
    for _ in range(3):
        await objects.put("heartbeat", b"alive")
        versions += [meta.version for meta in await objects.list("")]
        await asyncio.sleep(0.01)  # times of files have a resolution
    assert len(set(versions)) == 3


async def test_the_version_does_not_change_while_an_object_is_not_written(objects: Objects) -> None:
    await objects.put("heartbeat", b"1")
    first, second = await objects.list(""), await objects.list("")
    await objects.put("heartbeat", b"2")
    assert first == second != await objects.list("")


# Deletions


async def test_a_deletion_ignores_missing_objects(objects: Objects) -> None:
    await asyncio.gather(*[objects.put(key, b"") for key in ("a/1", "a/3", "b")])
    await objects.delete(["a/0", "a/1", "a/2", "a/3", "nowhere/x"])
    await objects.delete(["a/1"])
    await objects.delete([])
    assert [meta.key for meta in await objects.list("")] == ["b"]


async def test_a_deletion_removes_empty_folders_while_others_write_into_them(tmp_path: Path) -> None:
    objects = Objects.open(f"file://{tmp_path}")

    async def write_and_delete(number: int) -> None:
        for turn in range(20):
            key = f"live/pool/{turn}/{number}"
            await objects.put(key, b"x")
            await objects.delete([key])

    await asyncio.gather(*[write_and_delete(number) for number in range(20)])
    assert list(tmp_path.iterdir()) == []


# Stores that cannot be used


async def test_a_wrong_secret_key_is_refused_with_the_reason(rclone: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = on(rclone, monkeypatch, secret="another-secret-key")
    for operation in (objects.get("x"), objects.put("x", b""), objects.list("x/"), objects.delete(["x"])):
        with pytest.raises(Unavailable, match="cannot be used: SignatureDoesNotMatch: ") as refused:
            await operation
        assert "\n" not in str(refused.value)
        assert "another-secret-key" not in str(refused.value)


async def test_the_error_names_an_unreachable_server(rclone: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = on(rclone, monkeypatch, url="http://127.0.0.1:1")
    with pytest.raises(Unavailable, match=r"no answer from http://127\.0\.0\.1:1: Connection refused$"):
        await objects.get("x")


async def test_an_unencrypted_endpoint_must_be_allowed_explicitly(
    rclone: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(rclone, monkeypatch)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "false")
    with pytest.raises(Unavailable, match="is not encrypted: set AWS_ALLOW_HTTP=true"):
        await Objects.open(f"s3://{BUCKET}").get("x")


async def test_a_missing_bucket_is_not_a_missing_object(rclone: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    on(rclone, monkeypatch)
    objects = Objects.open("s3://no-such-bucket")
    for operation in (objects.get("x"), objects.put("x", b""), objects.list("x/"), objects.delete(["x"])):
        with pytest.raises(Unavailable, match="NoSuchBucket"):
            await operation


@pytest.mark.parametrize(
    "url", ["", "folder", "file:", "file:folder", "file://folder/x", "s3://", "s3:///x", "ftp://x/y", "az://no-account"]
)
def test_an_invalid_store_url_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="object store") as refused:
        Objects.open(url)
    assert refused.value.field == "WINDLASS_OBJECTS_URL"


@pytest.mark.parametrize("address", ["", "http//minio", "localhost:9000", "http://", "http://[x", "http://minio:port"])
@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"])
def test_an_invalid_endpoint_url_is_refused(monkeypatch: pytest.MonkeyPatch, variable: str, address: str) -> None:
    monkeypatch.setenv(variable, address)
    with pytest.raises(Invalid, match=f"{variable} is .*: it must be an address such as https://") as refused:
        Objects.open(f"s3://{BUCKET}")
    assert refused.value.field == variable


def test_a_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="Not a directory"):
        Objects.open(f"file://{tmp_path}/file/folder")


async def test_the_rclone_server_ignores_conditional_writes(rclone: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that relied on conditional writes would fail on this server, which is why the tests use it."""
    objects = on(rclone, monkeypatch, prefix="conditional")
    await objects.put("x", b"first")
    await objects._store.put_async("x", b"second", mode="create")
    assert await objects.get("x") == b"second"
