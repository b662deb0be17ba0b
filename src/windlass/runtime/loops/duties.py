"""Runs the duties of a loop so that a failing one does not prevent the others."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.engine import quarantine
from windlass.engine.database import Database
from windlass.engine.quarantine import Kind
from windlass.errors import Unavailable

Done = TypeVar("Done")
LONGEST_PAUSE = 60.0  # seconds


class Duties:
    """The duties of one loop. A failing duty is recorded in the quarantine and retried with backoff."""

    def __init__(self, db: Database, loop: str) -> None:
        self._db = db
        self._loop = loop
        self._pauses: dict[str, float] = {}
        self._resting: dict[str, float] = {}  # end of the pause, monotonic time
        self._known_good: set[str] = set()

    async def run(self, name: str, duty: Callable[[], Awaitable[Done]], default: Done) -> Done:
        """Run a duty and return its result; return `default` if it fails or is still in its pause after a failure.

        `Unavailable` is raised, not recorded: the caller's loop waits for the database.
        """
        if time.monotonic() < self._resting.get(name, 0.0):
            return default
        try:
            done = await duty()
        except Unavailable:
            raise
        except Exception as error:
            self._known_good.discard(name)
            pause = self._pauses[name] = min(LONGEST_PAUSE, max(1.0, 2 * self._pauses.get(name, 0.0)))
            self._resting[name] = time.monotonic() + pause
            await quarantine.set_aside(self._db, Kind.DUTY, f"{self._loop}.{name}", error, retry=False)
            return default
        if name not in self._known_good:  # also on the first success: a process that died may have left an entry
            await quarantine.release(self._db, Kind.DUTY, f"{self._loop}.{name}")
            self._known_good.add(name)
            self._pauses.pop(name, None)
        return done
