"""Reads and creates files that hold a key and that only their owner can read."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

from windlass.errors import Invalid

OTHERS = 0o077  # permissions of the group and of other users
LONGEST = 1000


def read(path: Path, *, advice: str) -> str | None:
    """Return the content of a file, None if it does not exist; raise `Invalid` if other users can read it, because they
    may already know the key."""
    try:
        with path.open() as file:
            if os.name == "posix" and os.fstat(file.fileno()).st_mode & OTHERS:
                raise Invalid(f"other users can read {path}: {advice}", field="WINDLASS_HOME")
            text = file.read(LONGEST).strip()
    except FileNotFoundError:
        return None
    except PermissionError:
        raise Invalid(f"cannot read {path}: it belongs to another user", field="WINDLASS_HOME") from None
    if not text:
        raise Invalid(f"{path} contains no key: {advice}", field="WINDLASS_HOME")
    return text


def make(path: Path, content: Callable[[], str], *, advice: str) -> str:
    """Return the content of a file; create the file if it does not exist.

    It is created atomically and durably. If several processes create it concurrently, one succeeds and the others read
    its file.
    """
    if (text := read(path, advice=advice)) is not None:
        return text
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-") as file:  # readable by its owner only
        file.write(content())
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(file.name, path)
    if os.name == "posix":
        _sync(path.parent)
    made = read(path, advice=advice)
    if made is None:
        raise Invalid(f"{path} was deleted while it was created: try again", field="WINDLASS_HOME")
    return made


def _sync(folder: Path) -> None:
    """Sync a folder, so that the name of a new file in it is durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
