"""Advisory file locks (flock) that track live processes: the kernel releases them when a process ends, in any way.

A lock belongs to one `FileLock` object, so two objects in one process are two holders. Programs that this process
starts do not inherit it (O_CLOEXEC) unless its `fd` is passed explicitly; forked children close it. Unix only.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

if sys.platform != "win32":
    import fcntl

POLL_SECONDS = 0.02


class FileLock:
    """One holder of one lock file. The file is created if missing and never removed: a new file would be a second,
    independent lock."""

    _open: ClassVar[set["FileLock"]] = set()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        FileLock._open.add(self)
        _hand_over(self.fd, path.parent)

    @property
    def closed(self) -> bool:
        return self.fd < 0

    def share(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_SH)

    def seize(self) -> bool:
        """Try to get the exclusive lock without waiting; return False if there are other holders. A failed attempt
        also gives up a shared lock held before."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Close this descriptor. A program that inherited the `fd` keeps the lock until it ends."""
        if not self.closed:
            fd, self.fd = self.fd, -1
            FileLock._open.discard(self)
            os.close(fd)

    @classmethod
    def forget_inherited(cls) -> None:
        """Close the copies in a forked child, which would otherwise keep its parent's locks after the parent ended."""
        for lock in list(cls._open):
            lock.close()


def free(path: Path) -> bool:
    """Return whether the lock has no holder at this moment."""
    lock = FileLock(path)
    try:
        return lock.seize()
    finally:
        lock.close()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; return False after `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(POLL_SECONDS)
    return True


def _hand_over(fd: int, folder: Path) -> None:
    """Give a lock file that root created in a user's folder to that user, who could not open it otherwise."""
    found, owner = os.fstat(fd), folder.stat()
    if os.geteuid() == found.st_uid == 0 != owner.st_uid and found.st_nlink == 1 and found.st_size == 0:
        os.fchown(fd, owner.st_uid, owner.st_gid)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=FileLock.forget_inherited)
