"""Advisory locks on files, as a count of living processes: the kernel drops them when a process dies, however it dies.

A lock belongs to one `FileLock` object, so two of them in one process are two holders. It is never inherited by
programs this process starts (O_CLOEXEC), unless its `fd` is handed over on purpose, nor by forked children. Unix only.
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
    """One holder of one lock file; the file is made when missing and never removed (that would split the lock)."""

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
        """Become the only holder, or say no at once; a refused attempt also gives up a share held before."""
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Let go of this descriptor; a program that was handed the `fd` keeps the lock for as long as it lives."""
        if not self.closed:
            fd, self.fd = self.fd, -1
            FileLock._open.discard(self)
            os.close(fd)

    @classmethod
    def forget_inherited(cls) -> None:
        """In a forked child: close the copies, or the child would keep its parent's locks beyond the parent's end."""
        for lock in list(cls._open):
            lock.close()


def free(path: Path) -> bool:
    """Whether nobody holds the lock at this moment."""
    lock = FileLock(path)
    try:
        return lock.seize()
    finally:
        lock.close()


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll until the condition holds; False when the time is over."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            return False
        pause.wait(POLL_SECONDS)
    return True


def _hand_over(fd: int, folder: Path) -> None:
    """A lock file root made in a user's folder must not shut that user out later."""
    found, owner = os.fstat(fd), folder.stat()
    if os.geteuid() == found.st_uid == 0 != owner.st_uid and found.st_nlink == 1 and found.st_size == 0:
        os.fchown(fd, owner.st_uid, owner.st_gid)


if sys.platform != "win32":
    os.register_at_fork(after_in_child=FileLock.forget_inherited)
