"""The object store: a local folder, S3, Google Cloud Storage or Azure. It holds artifacts, and the objects that the
worker exchanges with launched processes.

Nothing depends on conditional writes or on the order of listings: not every S3-compatible server supports them.
"""

import contextlib
import functools
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from windlass.errors import Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore import ObjectMeta as Meta
    from obstore.store import ObjectStore, RetryConfig

FIELD = "WINDLASS_OBJECTS_URL"
SCHEMES = ("file", "s3", "gs", "az")
ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")
CHUNK = 1024 * 1024
# The library's own limit is three minutes: longer than a worker may wait before it reports that the store is down.
RETRIES: "RetryConfig" = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
RACES = 10
_is_staging_name = re.compile(r".*#[0-9]+", re.DOTALL).fullmatch  # names of unfinished objects in a local folder


def open_store(url: str) -> "ObjectStore":
    """Open a store; raise `Invalid` if the URL is wrong. Credentials come from the usual environment variables."""
    parts = urlsplit(check_url(url))
    if parts.scheme == "s3":
        _check_endpoint(os.environ)
    from obstore.store import LocalStore, from_url

    try:
        if parts.scheme == "file":
            # Without the cleanup the folders of removed runs stay, and every listing reads them.
            return LocalStore(Path(unquote(parts.path)), mkdir=True, automatic_cleanup=True)
        return from_url(url, retry_config=RETRIES)
    except Exception as error:
        raise Invalid(f"the object store {url!r} cannot be used: {_reason(error)}", field=FIELD) from None


class _FolderRace(Unavailable):
    """A folder could not be created because it, or its parent, was removed concurrently."""


class ObjectMeta(NamedTuple):
    key: str
    size: int
    version: str  # changes whenever the object is written; within the same second only if the content differs


class Objects:
    """A client of the object store. `url` is the address by which launched processes reach the same store."""

    def __init__(self, url: str, store: "ObjectStore") -> None:
        self.url = url
        self._store = store

    @classmethod
    def open(cls, url: str) -> "Objects":
        return cls(url, open_store(url))

    async def put(self, key: str, data: bytes) -> None:
        for _ in range(RACES):
            with contextlib.suppress(_FolderRace), _errors(key):
                await self._store.put_async(key, data)
                return
        with _errors(key):
            await self._store.put_async(key, data)

    async def put_stream(self, key: str, chunks: AsyncIterator[bytes]) -> None:
        """Write an object of any size."""
        with _errors(key):
            await self._store.put_async(key, chunks)

    async def get(self, key: str, *, most: int | None = None) -> bytes:
        """Return an object; raise `Invalid` if it is larger than `most` bytes."""
        with _errors(key):
            result = await self._store.get_async(key)
            if most is not None and result.meta["size"] > most:
                raise Invalid(f"{key} has {result.meta['size']} bytes, the limit is {most}")
            return bytes(await result.bytes_async())

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield an object, or its bytes from `start` up to `end`, in chunks of about a mebibyte."""
        with _errors(key):
            result = await self._part(key, start, end)
            position, _ = result.range
            async for chunk in result.stream(min_chunk_size=CHUNK):
                piece = bytes(chunk)[max(start - position, 0) : None if end is None else max(end - position, 0)]
                position += len(chunk)
                if piece:
                    yield piece

    async def _part(self, key: str, start: int, end: int | None) -> "GetResult":
        """Open the bytes from `start` up to `end`, or all of them if the server ignores ranges."""
        if start == 0 and end is None:
            return await self._store.get_async(key)
        try:
            return await self._store.get_async(
                key, options={"range": {"offset": start} if end is None else (start, end)}
            )
        except Exception as error:
            if "NotPartial" not in str(error):
                raise
            return await self._store.get_async(key)

    async def copy(self, source: str, target: str) -> None:
        """Copy an object within the store."""
        with _errors(source):
            await self._store.copy_async(source, target)

    async def list(self, prefix: str) -> list[ObjectMeta]:
        """Return all objects whose key begins with `prefix`, which ends with a slash."""
        found: list[ObjectMeta] = []
        with _errors(prefix):
            async for page in self._store.list(prefix.rstrip("/"), chunk_size=1000):
                found += [ObjectMeta(meta["path"], meta["size"], _version(meta)) for meta in page]
        return found

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects; those that do not exist are ignored."""
        for start in range(0, len(keys), 1000):
            part = list(keys[start : start + 1000])
            try:
                with _errors(part[0]):
                    await self._store.delete_async(part)
            except NotFound:
                for key in part:
                    with contextlib.suppress(NotFound), _errors(key):
                        await self._store.delete_async(key)


@functools.cache
def open_objects(url: str) -> Objects:
    """Return the store at a URL, opened on first use: most programs never need it."""
    return Objects.open(url)


def check_url(url: str) -> str:
    """Return the URL of an object store; raise `Invalid` if it is not one."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        is_place = parts.netloc == "" and parts.path.startswith("/") and parts.path != "/"
    else:
        is_place = parts.netloc != ""
    if parts.scheme not in SCHEMES or not is_place or parts.query or parts.fragment:
        raise Invalid(
            "the URL of an object store must be file:///folder, s3://bucket, gs://bucket or az://container",
            field=FIELD,
        )
    return url


def is_folder(url: str) -> bool:
    """Return whether the objects are in a folder, which jobs on other machines cannot reach unless they share it."""
    return urlsplit(url).scheme == "file"


def _check_endpoint(environ: Mapping[str, str]) -> None:
    """Raise `Invalid` if an endpoint of S3 is not a URL: the library would abort at the first request."""
    for name in ENDPOINTS:
        value = environ.get(name, "https://host")
        try:
            parts = urlsplit(value)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            is_address = False
        if not is_address:
            raise Invalid(f"{name} is {value!r}: it must be an address such as https://minio.example:9000", field=name)


def _version(meta: "Meta") -> str:
    """Return the tag with the time: S3's tag is a hash, which does not change if the same content is written again."""
    return f"{meta['e_tag']}/{meta['last_modified'].timestamp()}"


@contextlib.contextmanager
def _errors(key: str) -> Iterator[None]:
    """Convert errors to `NotFound`, `Invalid` (a key that cannot exist) or `Unavailable` (with the reason)."""
    from obstore.exceptions import BaseError

    if _is_staging_name(key):
        raise Invalid(f"the key {key!r} is not valid: it must not end with # and digits", field="key")
    try:
        yield
    except ValueError as error:
        raise Invalid(f"the key {key!r} is not valid: {_reason(error)}", field="key") from None
    except (BaseError, OSError) as error:
        reason = _reason(error)
        if "Unable to create dir" in reason and reason.endswith(("(os error 2)", "(os error 17)")):
            raise _FolderRace(f"the object store cannot be used: {reason}") from error
        if isinstance(error, FileNotFoundError) and not reason.startswith(_MISSING):
            raise NotFound("object", key) from None
        raise Unavailable(f"the object store cannot be used: {reason}") from error


_MISSING = ("NoSuchBucket", "ContainerNotFound")
_METADATA = ("169.254.169.254", "metadata.google.internal")  # services from which cloud machines get credentials


def _reason(error: Exception) -> str:
    """Return the reason in one line. The library's messages contain the response of the server and a debug dump."""
    text, _, dump = str(error).partition("\n\nDebug source:")
    if any(host in text for host in _METADATA):
        return "there are no credentials: set the environment variables of the store"
    if answer := re.search(r"<Code>(\w+)</Code>.*?<Message>(.*?)</Message>", text, re.DOTALL):
        return f"{answer[1]}: {answer[2]}"
    address = re.search(r"Error performing \w+ (\w+://[^/\s]+)", text)
    if address and "BadScheme" in dump:
        return f"{address[1]} is not encrypted: set AWS_ALLOW_HTTP=true to allow it"
    if address and "kind: Timeout" in dump:
        return f"no answer from {address[1]}: timed out"
    if address and (refusal := re.search(r'(?:message|error): "(.+)"', dump)):
        return f"no answer from {address[1]}: {refusal[1]}"
    return text.partition("\n")[0]
