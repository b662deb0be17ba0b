"""Opens connections, begins and ends transactions, and translates driver errors.

A connection on which a statement timed out or failed as read-only is closed, and the others of the pool are replaced
before their next use: after a failover the address leads to another server, but open connections lead to the old one.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from windlass.core.orgs import check_org
from windlass.errors import Invalid, Locked, Unavailable
from windlass.store.postgres.outage import UNAVAILABLE, Outage, Trouble, refusal, sentence, trouble
from windlass.store.postgres.queries import sql

if TYPE_CHECKING:  # generic in the stubs only
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]
    AsyncpgPool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:
    Connection = asyncpg.Connection | PoolConnectionProxy
    AsyncpgPool = asyncpg.Pool

# Plans must not depend on the age of the statistics: a plan made for an empty job table would scan it when it is full.
# Nested loops also lock rows in the order of the given ids, which prevents deadlocks between batches.
PLANNER = {
    **{f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "hashjoin", "mergejoin")},
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "idle_in_transaction_session_timeout": "5000",
    # A row locked by another session (an open psql) must not delay work that does not need it: see `errors.Locked`.
    "lock_timeout": "2000",
    "windlass.writes_events": "on",  # Windlass's statements write their own events: see workflow_run_50_created
}
# All statements are written for this level; a database or role may have another default.
ISOLATION = "read committed"
BEGIN = "begin"
API_ROLE = "windlass_api"  # see 0024_row_security.sql
BEGIN_POOLED = "; ".join(
    [f"begin isolation level {ISOLATION}", *(f"set local {name} = {value}" for name, value in PLANNER.items())]
)
NESTED = ("savepoint windlass", "rollback to savepoint windlass", "release savepoint windlass")
ALONE = ("begin", "rollback", "commit")
CONNECT_SECONDS = 10.0
# A machine that vanishes does not close its connections. The kernel probes an idle peer after 10 s and gives up 15 s
# later; data that is not acknowledged for 20 s ends the connection too.
KEEPALIVE = {"SO_KEEPALIVE": 1, "TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 20_000}
# When a connection first uses an array type, asyncpg reads its definition from the catalog, in three round trips.
# The built-in types have the same OIDs in every database, so they are registered up front: (array OID, element OID).
ARRAY_TYPES = {
    "bool": (1000, 16), "bytea": (1001, 17), "int2": (1005, 21), "int4": (1007, 23), "int8": (1016, 20),
    "float8": (1022, 701), "timestamptz": (1185, 1184), "interval": (1187, 1186), "uuid": (2951, 2950),
    "json": (199, 114), "jsonb": (3807, 3802),
}  # fmt: skip
# After these errors a connection is closed, even if the server has not closed it.
USELESS = frozenset({Trouble.SILENT, Trouble.READ_ONLY})

TAKEN = asyncpg.UniqueViolationError  # the given id is in use
# Postgres or the driver cannot store the value; a retry would fail again.
UNSTORABLE = (asyncpg.DataError, asyncpg.exceptions.ProgramLimitExceededError, UnicodeEncodeError)


@dataclass(frozen=True, kw_only=True)
class DatabaseOptions:
    url: str
    size: int = 10
    notify: bool = True  # LISTEN/NOTIFY shortens waits; correctness rests on polling
    pooler: bool = False  # connections go through a transaction pooler (PgBouncer): no prepared statements, no LISTEN
    command_timeout: float = 60.0  # seconds for one statement before its connection counts as lost
    search_timeout: float = 5.0  # seconds for a list or search
    clock: Callable[[], datetime | None] | None = None  # for tests: sets windlass.now()
    revive: Callable[[], Awaitable[bool]] | None = None  # restarts an embedded server that died
    announces: bool = True  # logs outages


class Pool(AsyncpgPool):
    """asyncpg's pool with the outage state of its database."""

    __slots__ = ("outage",)
    outage: Outage

    async def release(self, connection: Any, *, timeout: float | None = None) -> None:
        """Return a connection to the pool.

        asyncpg does it in a task of its own, so that it completes even if the caller is cancelled. That takes twice as
        long, and is needed only if there is something to wait for: a rollback, or the end of a cancelled statement.
        """
        session = connection._con
        if session is None or session.is_in_transaction() or session.is_closed() or session._protocol._is_cancelling():
            await super().release(connection, timeout=timeout)
        else:
            session._on_release()
            await connection._holder.release(timeout)


async def leave_as_is(_conn: Connection) -> None:
    """Do not reset a released connection: no session state is left behind, and a reset costs a round trip."""


async def open_pool(options: DatabaseOptions) -> Pool:
    moments: WeakKeyDictionary[object, str] = WeakKeyDictionary()  # the time that each connection is set to

    async def move_clock(conn: Connection) -> None:
        now = options.clock() if options.clock else None
        moment, session = now.isoformat() if now else "", getattr(conn, "_con", conn)  # acquire returns a new proxy
        if moments.get(session, "") != moment:
            await conn.execute("select set_config('windlass.now', $1, false)", moment)
            moments[session] = moment

    settings = PLANNER | {"default_transaction_isolation": ISOLATION}
    with translated(), admitted():
        pool = Pool(
            options.url,
            connect=_connect,
            init_size=1,
            min_size=0,  # asyncpg would restore a minimum in the background and log each failure with a traceback
            max_size=options.size,
            max_queries=50_000,
            max_inactive_connection_lifetime=300.0,
            init=None,
            setup=move_clock if options.clock else None,
            reset=leave_as_is,
            loop=None,
            connection_class=asyncpg.Connection,
            record_class=asyncpg.Record,
            statement_cache_size=0 if options.pooler else 1024,
            command_timeout=options.command_timeout,
            timeout=CONNECT_SECONDS,
            server_settings={} if options.pooler else settings,  # a pooler's sessions are shared: see BEGIN_POOLED
        )
        await pool
    pool.outage = watch(options)
    return pool


def watch(options: DatabaseOptions) -> Outage:
    """Return the outage state of a pool that is opened with these options."""
    return Outage(options.url, lambda: probe(options), revive=options.revive, announces=options.announces)


async def close_pool(pool: Pool) -> None:
    """Wait up to 5 s for the connections that are in use, then close all connections."""
    await pool.outage.close()
    with suppress(asyncio.TimeoutError):
        async with asyncio.timeout(5):
            await pool.close()
    pool.terminate()


async def open_connection(
    options: DatabaseOptions, *, command_timeout: float | None = None
) -> "asyncpg.Connection[asyncpg.Record]":
    """Open a connection outside the pool. Without `command_timeout` statements have no time limit, for migrations."""
    with translated(), admitted():
        return await _connect(
            options.url,
            statement_cache_size=0 if options.pooler else 100,
            command_timeout=command_timeout,
            timeout=CONNECT_SECONDS,
        )


async def read_only(conn: Connection) -> bool:
    """Return whether the server would refuse a write."""
    return bool(await conn.fetchval(sql("server", "read_only")))


async def probe(options: DatabaseOptions) -> None:
    """Open a new connection; raise if that fails or if the server is read-only."""
    conn = await asyncpg.connect(options.url, statement_cache_size=0, timeout=5, command_timeout=5)
    try:
        if await read_only(conn):
            raise asyncpg.ReadOnlySQLTransactionError("the server is read-only")
    finally:
        with suppress(*UNAVAILABLE):
            await conn.close(timeout=1)


async def _connect(*arguments: Any, **options: Any) -> "asyncpg.Connection[asyncpg.Record]":
    conn: asyncpg.Connection[asyncpg.Record] = await asyncpg.connect(*arguments, **options)
    transport = conn._transport  # type: ignore[attr-defined]  # asyncpg has no option for it
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
        for name, value in KEEPALIVE.items():
            if (option := getattr(socket, name, None)) is not None:  # not every platform has all of them
                level = socket.SOL_SOCKET if name.startswith("SO_") else socket.IPPROTO_TCP
                sock.setsockopt(level, option, value)
    settings = conn._protocol.get_settings()  # type: ignore[attr-defined]  # asyncpg has no option for it either
    settings.register_data_types([_array_type(name, *ids) for name, ids in ARRAY_TYPES.items()])
    return conn


def _array_type(element: str, oid: int, element_oid: int) -> dict[str, Any]:
    """Build the row that asyncpg would read from the catalog for an array type."""
    unset = ("basetype", "basetype_name", "range_subtype", "range_subtype_name", "attrtypoids", "attrnames")
    return dict.fromkeys(unset) | {
        "oid": oid, "ns": "pg_catalog", "name": f"_{element}", "kind": b"b",
        "elemtype": element_oid, "elemtype_name": element, "elemdelim": b",", "depth": 0,
    }  # fmt: skip


@asynccontextmanager
async def statement(pool: Pool) -> AsyncIterator[Connection]:
    """Yield a connection for a use case of one statement, which is its own transaction."""
    with translated(pool):
        async with pool.acquire() as conn:
            try:
                yield conn
            except UNAVAILABLE as error:
                await _discard(pool, conn, error)
                raise


@asynccontextmanager
async def transaction(pool: Pool, *, pooler: bool = False, org: str | None = None) -> AsyncIterator[Connection]:
    """Yield a connection inside a transaction; commit at the end, roll back on any exception.

    With `org` the transaction reads and changes only rows of that org: it runs as API_ROLE, to which row-level security
    applies.
    """
    begin = BEGIN_POOLED if pooler else BEGIN
    if org is not None:  # in the same message as `begin`
        begin = f"{begin}; set local role {API_ROLE}; set local windlass.org = '{check_org(org)}'"
    with translated(pool):
        async with pool.acquire() as conn:
            try:
                await conn.execute(begin)
                yield conn
                await conn.execute("commit")
            except BaseException as error:
                if not await _discard(pool, conn, error):
                    await _roll_back(conn)
                raise


@asynccontextmanager
async def savepoint(conn: Connection) -> AsyncIterator[None]:
    """Roll back the changes of the block if it raises, but keep the transaction and its locks.

    Outside a transaction, run the block in a transaction of its own.
    """
    begin, undo, keep = NESTED if conn.is_in_transaction() else ALONE
    await conn.execute(begin)
    try:
        yield
    except BaseException:
        if not conn.is_closed():
            await conn.execute(undo)
        raise
    await conn.execute(keep)


async def limit_lock_wait(conn: Connection, milliseconds: int) -> None:
    """Set the lock timeout of this transaction."""
    await conn.execute(f"set local lock_timeout = {milliseconds}")


@asynccontextmanager
async def search(
    pool: Pool, *, seconds: float, advice: str, pooler: bool = False, org: str | None = None
) -> AsyncIterator[Connection]:
    """Yield a connection for searches that may scan a long history; cancel them after `seconds`, also on the server.

    A timeout raises `Invalid` with `advice`, not `Unavailable`: the same search would be as slow again.
    """
    begun = False
    try:
        connection = transaction(pool, pooler=pooler, org=org) if pooler or org else statement(pool)
        async with asyncio.timeout(seconds), connection as conn:
            begun = True
            yield conn
    except TimeoutError:
        if not begun or pool.outage.reason is not None:
            raise Unavailable(f"{Trouble.SILENT.value}: no connection was free for {seconds:g} s") from None
        raise Invalid(f"the search took longer than {seconds:g} s and was stopped: {advice}") from None


async def _discard(pool: Pool, conn: Connection, error: BaseException) -> bool:
    """Close a connection after an error in USELESS and expire the other connections, which are replaced at their next
    use; return whether it was closed."""
    useless = trouble(error) in USELESS
    if useless:
        with suppress(asyncpg.InterfaceError):  # it was lost and is already back in the pool
            conn.terminate()
        await pool.expire_connections()
    return useless


async def _roll_back(conn: Connection) -> None:
    """Roll back. Errors of a lost connection are suppressed: the caller must see the original error."""
    with suppress(*UNAVAILABLE):
        if not conn.is_closed():
            await conn.execute("rollback")


@contextmanager
def admitted() -> Iterator[None]:
    """Translate a refused connection (password, database, privileges) into `Unavailable`."""
    try:
        yield
    except asyncpg.PostgresError as error:
        if isinstance(error, UNAVAILABLE):
            raise
        raise Unavailable(refusal(error)) from error


class translated:  # noqa: N801 - used as a context manager, reads as a verb
    """Translates driver errors that mean unavailability into `Unavailable` (or `Locked`); other errors pass through.

    With a pool the error is reported to its outage; the raised error's `recovered` is set when a retry is worthwhile.
    """

    def __init__(self, pool: Pool | None = None) -> None:
        self._pool = pool

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or (trouble_ := trouble(error)) is None:
            return
        recovered = self._pool.outage.report(trouble_, error) if self._pool is not None else None
        kind = Locked if isinstance(error, asyncpg.exceptions.LockNotAvailableError) else Unavailable
        raise kind(sentence(trouble_, error), recovered=recovered) from error
