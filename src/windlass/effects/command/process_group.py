"""Signals a process group and waits until all of its processes have ended."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

LOOK_AFTER = 0.005  # seconds between polls, doubled each time: there is no event for an empty group
LOOK_EVERY = 0.1
PROCESSES = Path("/proc")


class Group:
    """`number` is the pid of the group's first process; the kernel does not reuse it while the group has members."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._is_gone = False

    def signal(self, number: int) -> bool:
        """Send a signal to the group; return False if it has no members. After that the id may be reused, so nothing
        is sent to it again."""
        if not self._is_gone:
            try:
                os.killpg(self._number, number)
            except ProcessLookupError:
                self._is_gone = True
            except PermissionError:
                pass  # a process exists, but under another user
        return not self._is_gone

    async def dead(self) -> None:
        """Wait until no process of the group is alive. The first process must have been reaped already."""
        pause = LOOK_AFTER
        while self.signal(0) and _is_alive(self._number):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOK_EVERY)
        self._bury()

    def _bury(self) -> None:
        """Reap dead processes of the group: in a container this process may be pid 1, which inherits orphans."""
        with suppress(ChildProcessError):
            while os.waitpid(-self._number, os.WNOHANG)[0]:
                pass


def _is_alive(group: int) -> bool:
    """Return whether the group has a process that is not a zombie: not every pid 1 reaps orphans, or not at once."""
    if not PROCESSES.is_dir():
        return True
    return any(_is_alive_in(group, path) for path in PROCESSES.glob("[0-9]*/stat"))


def _is_alive_in(group: int, path: Path) -> bool:
    try:
        state, _, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):  # the process ended in the meantime
        return False
    return int(its_group) == group and state not in (b"Z", b"X")
