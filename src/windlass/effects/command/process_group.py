"""A group of processes: told something together, and looked after until the last of them is dead."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

LOOK_AFTER = 0.005  # seconds; doubled with each look, because nothing tells when a group is empty
LOOK_EVERY = 0.1
PROCESSES = Path("/proc")


class Group:
    """`number` is the id of the process that began it, which is not given to another while the group has members."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._is_gone = False

    def signal(self, number: int) -> bool:
        """False: there is nobody. From then on the id may belong to others, so nothing is sent to it again."""
        if not self._is_gone:
            try:
                os.killpg(self._number, number)
            except ProcessLookupError:
                self._is_gone = True
            except PermissionError:
                pass  # somebody is there, under another user
        return not self._is_gone

    async def dead(self) -> None:
        """Wait until nobody is alive. The first of the group must have been waited for."""
        pause = LOOK_AFTER
        while self.signal(0) and _is_alive(self._number):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOK_EVERY)
        self._bury()

    def _bury(self) -> None:
        """In a container we may be process 1, which inherits orphans and has to let them go when they are dead."""
        with suppress(ChildProcessError):
            while os.waitpid(-self._number, os.WNOHANG)[0]:
                pass


def _is_alive(group: int) -> bool:
    """Not only as a dead process that nobody has waited for: not every process 1 does, or does at once."""
    if not PROCESSES.is_dir():
        return True
    return any(_is_alive_in(group, path) for path in PROCESSES.glob("[0-9]*/stat"))


def _is_alive_in(group: int, path: Path) -> bool:
    try:
        state, _, its_group = path.read_bytes().rpartition(b")")[2].split()[:3]
    except (OSError, ValueError):  # it ended while we looked
        return False
    return int(its_group) == group and state not in (b"Z", b"X")
