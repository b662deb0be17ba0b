"""The object store: a local folder, S3, Google Cloud Storage or Azure. Holds what launched processes exchange with the
worker, and artifacts.

Nothing depends on conditional writes or on the order of listings: not every server of the S3 protocol has them.
"""

import contextlib
import functools
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from windlass.errors import Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from obstore import GetOptions
    from obstore import ObjectMeta as Meta
    from obstore.store import ObjectStore

SCHEMES = ("file", "s3", "gs", "az")
CHUNK = 1024 * 1024


def open_store(url: str) -> "ObjectStore":
    """Open a store; raise `Invalid` if the URL is wrong. Credentials come from the usual environment variables."""
    parts = urlsplit(check_url(url))
    from obstore.store import LocalStore, from_url

    try:
        if parts.scheme == "file":
            return LocalStore(Path(unquote(parts.path)), mkdir=True)
        return from_url(url)
    except Exception as error:
        raise Invalid(f"the object store {url!r} cannot be used: {error}", field="WINDLASS_OBJECTS_URL") from None


class ObjectMeta(NamedTuple):
    key: str
    size: int
    version: str  # changes whenever the object is written


class Objects:
    """`url` is the address that launched processes get: the same store, seen from elsewhere."""

    def __init__(self, url: str, store: "ObjectStore") -> None:
        self.url = url
        self._store = store

    @classmethod
    def open(cls, url: str) -> "Objects":
        return cls(url, open_store(url))

    async def put(self, key: str, data: bytes) -> None:
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
        part: GetOptions | None = None
        if start or end is not None:
            part = {"range": {"offset": start} if end is None else (start, end)}
        with _errors(key):
            result = await self._store.get_async(key, options=part)
            async for chunk in result.stream(min_chunk_size=CHUNK):
                yield bytes(chunk)

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
            part = keys[start : start + 1000]
            with _errors(part[0]):
                try:
                    await self._store.delete_async(list(part))
                except FileNotFoundError:
                    for key in part:
                        with contextlib.suppress(FileNotFoundError):
                            await self._store.delete_async(key)


@functools.cache
def open_objects(url: str) -> Objects:
    """Return the store at a URL, opened on first use: most programs never need it."""
    return Objects.open(url)


def check_url(url: str) -> str:
    """Return the URL of an object store; raise `Invalid` if it is none."""
    parts = urlsplit(url)
    place, other = (parts.path, parts.netloc) if parts.scheme == "file" else (parts.netloc, "")
    if parts.scheme not in SCHEMES or place in ("", "/") or other or parts.query or parts.fragment:
        raise Invalid(
            "the URL of an object store must be file:///folder, s3://bucket, gs://bucket or az://container",
            field="WINDLASS_OBJECTS_URL",
        )
    return url


def _version(meta: "Meta") -> str:
    """The tag of S3 is a hash of the content: the time tells that the same content was written again."""
    return f"{meta['e_tag']}/{meta['last_modified'].timestamp()}"


@contextlib.contextmanager
def _errors(key: str) -> Iterator[None]:
    """Raise `NotFound`, or `Unavailable` with the first line of the library's message."""
    from obstore.exceptions import BaseError

    try:
        yield
    except FileNotFoundError:
        raise NotFound("object", key) from None
    except (BaseError, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise Unavailable(f"the object store cannot be used: {reason}") from error
