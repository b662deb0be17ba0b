"""Which driver errors mean that the database is not available, and what we call them.

Everything listed here is worth another try with the same statement, and becomes `Unavailable`; every other driver error
is about the statement or its values. The driver's own words name addresses and users, so they stay in `__cause__`, for
the log at DEBUG and the command line; an HTTP answer has only our sentence.
"""

import asyncio
import socket
from enum import Enum

import asyncpg
from asyncpg import exceptions as pg


class Trouble(Enum):
    """What a failed statement says about the database, and the sentence for it."""

    GONE = "the database did not answer"  # no connection, or it was lost
    SILENT = "the database did not answer in time"  # the connection is open, but nothing came back
    READ_ONLY = "the database refuses to write: it is read-only"  # a standby, or storage that is full
    EXHAUSTED = "the database refuses to write: its disk, memory or storage is exhausted or failing"
    BUSY = "the database is busy: a lock, a deadlock or a time limit ended the statement"


# The first match counts: a subclass stands before its base.
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
            pg.InternalClientError,  # what the driver says of a connection that ends just now
            asyncpg.PostgresConnectionError,
            pg.OperatorInterventionError,
        ),
    ),
)
UNAVAILABLE = tuple(kind for _, kinds in _TROUBLES for kind in kinds)
_MISCOUNTED = "for this query"  # a defect of ours, though the driver files it with lost connections
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
    """What an error says about the database; None: nothing, it is about the statement."""
    if error is None or _MISCOUNTED in str(error):
        return None
    return next((found for found, kinds in _TROUBLES if isinstance(error, kinds)), None)


def sentence(found: Trouble, error: BaseException) -> str:
    """Our words for it: no address, no user, nothing of the driver's."""
    told: str = found.value
    if found is not Trouble.GONE:
        return told
    reason = next((text for kind, text in _REASONS if isinstance(error, kind)), "the connection was lost")
    return f"{told}: {reason}"


def refusal(error: BaseException) -> str:
    """Why a server that answers does not let us in."""
    reason = next((text for kind, text in _REFUSALS if isinstance(error, kind)), "it does not accept the connection")
    return f"the database refused: {reason}; check WINDLASS_DATABASE_URL and its user's rights"
