"""Classifies driver errors, and tracks outages: logs when one begins and ends, and signals the end to waiting tasks.

The errors listed in `_TROUBLES` become `Unavailable`: the same statement may be retried. Every other driver error
concerns the statement or its values. The driver's own messages contain addresses and users, so they stay in
`__cause__`, for the log at DEBUG and the command line; an HTTP response contains only the message from here.

Failed statements are reported to `Outage`. One task per pool then probes the database with new connections until one
works, and sets the event that the `Unavailable` errors carry, so that all tasks that back off retry immediately. Any
number of loops that fail for the same reason are one outage, and so are several pools of a process on the same
database.

A probe cannot tell whether a full disk has space again. So an outage is over when the probe succeeds and no statement
fails in the `QUIET` seconds after it.
"""

import asyncio
import logging
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from enum import Enum

import asyncpg
from asyncpg import exceptions as pg

PROBE_SECONDS = 0.5  # between probes; randomized, so that many processes do not reconnect at the same moment
QUIET = 1.0  # seconds
REVIVE_AFTER = 1.0  # seconds without a connection before an embedded server is restarted, if it died
MOST_REVIVALS = 5
_log = logging.getLogger("windlass.database")


class Trouble(Enum):
    """The kind of unavailability that an error shows, with its message."""

    GONE = "the database did not answer"  # no connection, or it was lost
    SILENT = "the database did not answer in time"  # the connection is open, but there was no response
    READ_ONLY = "the database refuses to write: it is read-only"  # a standby, or storage that is full
    EXHAUSTED = "the database refuses to write: its disk, memory or storage is exhausted or failing"
    BUSY = "the database is busy: a lock, a deadlock or a time limit ended the statement"


# The first match counts, so a subclass must precede its base class.
_TROUBLES: tuple[tuple[Trouble, tuple[type[BaseException], ...]], ...] = (
    (
        Trouble.BUSY,
        (
            pg.DeadlockDetectedError,
            pg.SerializationError,
            pg.StatementCompletionUnknownError,
            pg.LockNotAvailableError,
            pg.QueryCanceledError,
            pg.IdleInTransactionSessionTimeoutError,
        ),
    ),
    (Trouble.READ_ONLY, (pg.ReadOnlySQLTransactionError,)),
    (Trouble.GONE, (pg.TooManyConnectionsError,)),
    (Trouble.EXHAUSTED, (pg.InsufficientResourcesError, pg.PostgresSystemError)),
    (Trouble.SILENT, (asyncio.TimeoutError,)),
    (
        Trouble.GONE,
        (
            OSError,
            asyncpg.InterfaceError,
            pg.InternalClientError,  # raised by the driver while a connection is being closed
            asyncpg.PostgresConnectionError,
            pg.OperatorInterventionError,
        ),
    ),
)
UNAVAILABLE = tuple(kind for _, kinds in _TROUBLES for kind in kinds)
_MISCOUNTED = "for this query"  # a wrong number of arguments: a bug, although the driver raises an InterfaceError
_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (ConnectionRefusedError, "the connection was refused"),
    (socket.gaierror, "its host name cannot be resolved"),
    (FileNotFoundError, "there is no socket at its address"),
    (PermissionError, "its socket may not be used"),
    (pg.TooManyConnectionsError, "it has no free connection slot"),
    (pg.CannotConnectNowError, "it is starting or stopping"),
    (pg.OperatorInterventionError, "it is stopping"),
)
_REFUSALS: tuple[tuple[type[BaseException], str], ...] = (
    (pg.InvalidAuthorizationSpecificationError, "the user or the password is wrong, or may not connect"),
    (pg.InvalidCatalogNameError, "there is no database of that name"),
    (pg.InsufficientPrivilegeError, "the user lacks a privilege"),
)


def trouble(error: BaseException | None) -> Trouble | None:
    """Return the kind of unavailability that an error shows; None if the error concerns the statement."""
    if error is None or _MISCOUNTED in str(error):
        return None
    return next((kind for kind, kinds in _TROUBLES if isinstance(error, kinds)), None)


def sentence(kind: Trouble, error: BaseException) -> str:
    """Return the message for an error, without address, user or the driver's own message."""
    message: str = kind.value
    if kind is not Trouble.GONE:
        return message
    reason = next((text for type_, text in _REASONS if isinstance(error, type_)), "the connection was lost")
    return f"{message}: {reason}"


def refusal(error: BaseException) -> str:
    """Return the message for a server that refuses the connection."""
    reason = next((text for kind, text in _REFUSALS if isinstance(error, kind)), "it does not accept the connection")
    return f"the database refused the connection: {reason}; check WINDLASS_DATABASE_URL and its user's privileges"


class _Announcements:
    """Logs the outages of this process once per database: when the first pool notices one, and when the last pool has
    recovered."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the pools may belong to event loops in several threads
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
            _log.warning("%s; operations that need it wait and retry", why)

    def end(self, database: str, outage: "Outage", *, recovered_at: float | None) -> None:
        """Remove a pool's outage; log the recovery if it was the last. `recovered_at` is None if the pool is closed."""
        with self._lock:
            waiting = self._waiting.get(database, set())
            waiting.discard(outage)
            since = None if waiting else self._since.pop(database, None)
        if since is not None and recovered_at is not None:
            _log.warning("the database is available again after %.1f s", recovered_at - since)


_announcements = _Announcements()


class Outage:
    """Tracks whether a database is available to one pool. `database` is an identifying key that is never shown."""

    def __init__(
        self,
        database: str,
        probe: Callable[[], Awaitable[None]],
        *,
        revive: Callable[[], Awaitable[bool]] | None = None,
        announces: bool = True,
    ) -> None:
        self._database = database
        self._announces = announces  # False: another pool of this process logs the outages
        self._probe = probe
        self._revive = revive  # restarts an embedded server that died
        self._recovered = asyncio.Event()
        self._failed_at = float("-inf")
        self._announced: str | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def reason(self) -> str | None:
        """The reason why the database is unavailable; None if no outage is known."""
        return self._announced

    def report(self, kind: Trouble, error: BaseException) -> asyncio.Event | None:
        """Record a failed statement; return the event that is set when a retry is worthwhile.

        Return None if the database is only busy: the caller chooses when to retry.
        """
        _log.debug("%s", sentence(kind, error), exc_info=error)
        if kind is Trouble.BUSY:
            return None
        self._failed_at = time.monotonic()
        if kind in (Trouble.READ_ONLY, Trouble.EXHAUSTED):
            self._announce(sentence(kind, error))
        if self._task is None:
            if kind is Trouble.SILENT:
                _log.warning("a statement did not end within its time limit: its connection is closed")
            self._recovered = asyncio.Event()
            self._task = asyncio.create_task(self._watch(), name="windlass-outage")
        return self._recovered

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._finish()  # a task that was cancelled before it first ran has not called it
        self._recovered.set()

    def _announce(self, why: str) -> None:
        """Log the beginning of the outage, once.

        Called after a failed probe, or for a read-only or exhausted database: a single lost connection to a server that
        answers the probe is no outage.
        """
        if self._announced is None and self._announces:
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
        if self._announced is not None and self._announces:
            _announcements.end(self._database, self, recovered_at=recovered_at)
        self._announced = self._task = None

    async def _attempt(self) -> BaseException | None:
        """Probe once; return the error, or None if it succeeded."""
        try:
            await self._probe()
        except UNAVAILABLE as error:
            self._announce(sentence(trouble(error) or Trouble.GONE, error))
            return error
        except Exception as error:  # for example a refused login: the next statement raises the exact error
            self._announce("the database does not accept connections")
            _log.debug("the probe failed", exc_info=error)
            return error
        return None

    async def _stays_up(self) -> bool:
        """Wake all waiting tasks; return whether the outage is over: no statement failed in the next QUIET seconds.

        An outage that was not announced is over at once. The event is replaced before the tasks are woken: a statement
        that fails during the QUIET seconds waits for the new event.
        """
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
        """Restart an embedded server that died; return 1 if that was necessary, whether or not it worked, else 0."""
        try:
            if self._revive is None or not await self._revive():
                return 0
        except Exception as error:
            _log.error("the embedded Postgres died and could not be started again: %s", error)
            return 1
        _log.warning("the embedded Postgres died and was started again")
        return 1
