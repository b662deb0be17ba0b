"""How long a database has been unavailable: one log line when that begins, one when it ends, and a signal for waiters.

Statements that fail report here. A single task then probes the database with fresh connections until one works, and
sets the event that the `Unavailable` errors carry, so that everybody who backs off tries again at once. A hundred loops
that fail for the same reason are one outage, and so are several pools of a process on the same database.

A probe cannot tell whether a full disk has room again. So an outage is over when the probe succeeds and no statement
fails for `QUIET` seconds after that.
"""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable

from windlass.store.postgres.availability import UNAVAILABLE, Trouble, sentence, trouble

PROBE_SECONDS = 0.5  # between two probes; spread, so that many processes do not come back at the same moment
QUIET = 1.0  # seconds
REVIVE_AFTER = 1.0  # seconds without a connection after which an embedded server is looked after
MOST_REVIVALS = 5
_log = logging.getLogger("windlass.database")


class _Announcements:
    """Logs the outages of this process: the first pool that notices one, and the last that has recovered from it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # pools may live in several threads
        self._waiting: dict[str, set[Outage]] = {}
        self._since: dict[str, float] = {}

    def begin(self, database: str, outage: "Outage", why: str) -> None:
        with self._lock:
            waiting = self._waiting.setdefault(database, set())
            first = not waiting
            waiting.add(outage)
            if first:
                self._since[database] = time.monotonic()
        if first:
            _log.warning("%s; what needs it waits and tries again", why)

    def end(self, database: str, outage: "Outage", *, recovered_at: float | None) -> None:
        """None: nobody waits any more, because the pool was closed."""
        with self._lock:
            waiting = self._waiting.get(database, set())
            waiting.discard(outage)
            since = None if waiting else self._since.pop(database, None)
        if since is not None and recovered_at is not None:
            _log.warning("the database is available again after %.1f s", recovered_at - since)


_announcements = _Announcements()


class Outage:
    """Tracks whether a database is available to one pool. `database` tells databases apart and is never shown."""

    def __init__(
        self,
        database: str,
        probe: Callable[[], Awaitable[None]],
        *,
        revive: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._database = database
        self._probe = probe
        self._revive = revive  # starts a dead embedded server again
        self._recovered = asyncio.Event()
        self._failed_at = float("-inf")
        self._announced: str | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def reason(self) -> str | None:
        """Why the database is not available; None: as far as we know, it is."""
        return self._announced

    def report(self, found: Trouble, error: BaseException) -> asyncio.Event | None:
        """Take note of a failed statement; the event is set when it is worth another try. None: try again at will."""
        _log.debug("%s", sentence(found, error), exc_info=error)
        if found is Trouble.BUSY:
            return None
        self._failed_at = time.monotonic()
        if found in (Trouble.READ_ONLY, Trouble.EXHAUSTED):
            self._announce(sentence(found, error))
        if self._task is None:
            if found is Trouble.SILENT:
                _log.warning("a statement did not end within its time limit: its connection is closed")
            self._recovered = asyncio.Event()
            self._task = asyncio.create_task(self._watch(), name="windlass-outage")
        return self._recovered

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._finish()  # a task that never ran has not done it
        self._recovered.set()

    def _announce(self, why: str) -> None:
        """Log the beginning, once. A connection that was lost alone, on a server that answers, is no outage."""
        if self._announced is None:
            _announcements.begin(self._database, self, why)
        self._announced = why

    async def _watch(self) -> None:
        began, revivals = time.monotonic(), 0
        recovered_at: float | None = None
        try:
            while True:
                error = await self._attempt()
                if error is None and await self._stays_up():
                    break
                if error is not None and revivals < MOST_REVIVALS and time.monotonic() - began > REVIVE_AFTER:
                    revivals += await self._start_again()
                await asyncio.sleep(PROBE_SECONDS * random.uniform(0.5, 1.5))
            recovered_at = time.monotonic() - QUIET
        finally:
            self._finish(recovered_at)

    def _finish(self, recovered_at: float | None = None) -> None:
        if self._announced is not None:
            _announcements.end(self._database, self, recovered_at=recovered_at)
        self._announced = self._task = None

    async def _attempt(self) -> BaseException | None:
        """Probe once; the error, or None."""
        try:
            await self._probe()
        except UNAVAILABLE as error:
            self._announce(sentence(trouble(error) or Trouble.GONE, error))
            return error
        except Exception as error:  # it refuses us, for example: the next statement will say so itself
            self._announce("the database does not accept connections")
            _log.debug("the probe failed", exc_info=error)
            return error
        return None

    async def _stays_up(self) -> bool:
        """Wake everybody who waits, and see whether what they try succeeds."""
        woken = time.monotonic()
        recovered, self._recovered = self._recovered, asyncio.Event()
        recovered.set()
        if self._announced is None:
            self._recovered = recovered
            return True
        await asyncio.sleep(QUIET)
        if self._failed_at > woken:
            return False
        self._recovered.set()
        return True

    async def _start_again(self) -> int:
        """Start an embedded server that died; 1 if that was necessary, whether or not it worked."""
        try:
            if self._revive is None or not await self._revive():
                return 0
        except Exception as error:
            _log.error("the embedded Postgres died and could not be started again: %s", error)
            return 1
        _log.warning("the embedded Postgres died and was started again")
        return 1
