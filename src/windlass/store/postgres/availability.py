"""Classifies driver errors: which ones mean that the database is unavailable, and the message for each.

The errors listed here become `Unavailable`: the same statement may be retried. Every other driver error concerns the
statement or its values. The driver's own messages contain addresses and users, so they stay in `__cause__`, for the
log at DEBUG and the command line; an HTTP response contains only the message from here.
"""

import asyncio
import socket
from enum import Enum

import asyncpg
from asyncpg import exceptions as pg


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
    (socket.gaierror, "its host name is not known"),
    (FileNotFoundError, "there is no socket at its address"),
    (PermissionError, "its socket may not be used"),
    (pg.TooManyConnectionsError, "it has no connection left"),
    (pg.CannotConnectNowError, "it is starting or stopping"),
    (pg.OperatorInterventionError, "it is stopping"),
)
_REFUSALS: tuple[tuple[type[BaseException], str], ...] = (
    (pg.InvalidAuthorizationSpecificationError, "the user or the password is wrong, or may not connect"),
    (pg.InvalidCatalogNameError, "there is no database of that name"),
    (pg.InsufficientPrivilegeError, "the user lacks a right"),
)


def trouble(error: BaseException | None) -> Trouble | None:
    """Return the kind of unavailability that an error shows; None if the error concerns the statement."""
    if error is None or _MISCOUNTED in str(error):
        return None
    return next((found for found, kinds in _TROUBLES if isinstance(error, kinds)), None)


def sentence(found: Trouble, error: BaseException) -> str:
    """Return the message for an error, without address, user or text of the driver."""
    told: str = found.value
    if found is not Trouble.GONE:
        return told
    reason = next((text for kind, text in _REASONS if isinstance(error, kind)), "the connection was lost")
    return f"{told}: {reason}"


def refusal(error: BaseException) -> str:
    """Return the message for a server that refuses the connection."""
    reason = next((text for kind, text in _REFUSALS if isinstance(error, kind)), "it does not accept the connection")
    return f"the database refused: {reason}; check WINDLASS_DATABASE_URL and its user's rights"
