"""Connections: how they are opened, what a transaction starts with, and what a driver error means to the caller."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from windlass.errors import Unavailable

if TYPE_CHECKING:  # generic in the stubs only
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:
    Connection = asyncpg.Connection | PoolConnectionProxy
    Pool = asyncpg.Pool

# Plans must not depend on how fresh the statistics are: a plan made while the inbox was empty would scan it when full.
# Nested loops also lock rows in the order in which they are named, which is how batches avoid each other.
PLANNER = {
    **{f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")},
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "idle_in_transaction_session_timeout": "5000",
}
BEGIN = "begin"
BEGIN_POOLED = "; ".join([BEGIN, *(f"set local {name} = {value}" for name, value in PLANNER.items())])

# The server went away, refuses, restarts, or we lost a deadlock: worth another try, unlike an error in what we said.
GONE = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.exceptions.InternalClientError,  # what the driver says of a connection that ends just now
    asyncpg.PostgresConnectionError,
    asyncpg.exceptions.OperatorInterventionError,
    asyncpg.exceptions.TooManyConnectionsError,
    asyncpg.exceptions.IdleInTransactionSessionTimeoutError,
    asyncpg.exceptions.DeadlockDetectedError,
)
MISCOUNTED = "arguments for this query"  # a defect of ours, though the driver files it with lost connections

TAKEN = asyncpg.UniqueViolationError  # somebody has the id that was given
# Postgres or the driver cannot store what we said; saying it again will not help.
UNSTORABLE = (asyncpg.DataError, asyncpg.exceptions.ProgramLimitExceededError, UnicodeEncodeError)


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    url: str
    size: int = 10
    notify: bool = True  # LISTEN / NOTIFY shorten waits; polling is the truth
    pooler: bool = False  # a transaction pooler (PgBouncer) sits in between: no prepared statements, no LISTEN
    clock: Callable[[], datetime | None] | None = None  # tests move windlass.now() with it


async def leave_as_is(_conn: Connection) -> None:
    """We leave no session state behind, so giving a connection back costs no round trip."""


async def open_pool(options: DatabaseOptions) -> Pool:
    async def move_clock(conn: Connection) -> None:
        moment = options.clock() if options.clock else None
        await conn.execute("select set_config('windlass.now', $1, false)", moment.isoformat() if moment else "")

    with translated(), admitted():
        return await asyncpg.create_pool(
            options.url,
            min_size=1,
            max_size=options.size,
            reset=leave_as_is,
            statement_cache_size=0 if options.pooler else 1024,
            setup=move_clock if options.clock else None,
            server_settings={} if options.pooler else PLANNER,  # a pooler's sessions are not ours to set
        )


async def open_connection(options: DatabaseOptions) -> "asyncpg.Connection[asyncpg.Record]":
    with translated(), admitted():
        return await asyncpg.connect(options.url, statement_cache_size=0 if options.pooler else 100)


@asynccontextmanager
async def statement(pool: Pool) -> AsyncIterator[Connection]:
    """For a use case of one statement, which is a transaction by itself."""
    with translated():
        async with pool.acquire() as conn:
            yield conn


@asynccontextmanager
async def transaction(pool: Pool, *, pooler: bool = False) -> AsyncIterator[Connection]:
    """One use case: all of it or nothing."""
    with translated():
        async with pool.acquire() as conn:
            await conn.execute(BEGIN_POOLED if pooler else BEGIN)
            try:
                yield conn
            except BaseException:
                if not conn.is_closed():
                    await conn.execute("rollback")
                raise
            await conn.execute("commit")


@contextmanager
def admitted() -> Iterator[None]:
    """A server that answers with a refusal (password, database, rights) is as good as none."""
    try:
        yield
    except asyncpg.PostgresError as error:
        if isinstance(error, GONE):
            raise
        raise Unavailable(
            f"the database refused: {error}; check WINDLASS_DATABASE_URL and its user's rights"
        ) from error


class translated:  # noqa: N801 - used as a context manager, reads as a verb
    """Driver errors about the server's absence become `Unavailable`; everything else passes."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, GONE) and MISCOUNTED not in str(error):
            raise Unavailable(f"the database did not answer: {error or type(error).__name__}") from error
