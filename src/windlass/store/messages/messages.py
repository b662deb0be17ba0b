"""Messages (signals and published events), and the router that delivers them to waiters.

A sender inserts a message, a run or job inserts its waiter, and the router matches the two: see 0027_messages.sql.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import columns, statements

_SQL = statements("messages")


class Address(NamedTuple):
    """The address that a message is sent to and a waiter waits at. The key of a signal is the id of its run or job."""

    org: str
    name: str
    key: str
    is_signal: bool


async def publish(
    conn: Connection, name: str, key: str, payload: str, *, org: str, id_: str | None, sender: str
) -> bool:
    """Store an event; return False if the org has already sent a message with this id."""
    return bool(await conn.fetchval(_SQL["publish"], org, name, key, payload, id_, sender))


async def signal(
    conn: Connection, target: UUID, name: str, payload: str, *, org: str, id_: str | None, sender: str, most: int
) -> str:
    """Store a signal; return `sent`, `again`, `unknown`, `ended` or `full`: see `send_signal` in 0027_messages.sql."""
    result: str = await conn.fetchval(_SQL["signal"], org, target, name, payload, id_, sender, most)
    return result


# The router


async def unrouted(conn: Connection, batch: int) -> list[Address]:
    """Return addresses with messages or waiters that the router has not processed yet."""
    return list(map(Address._make, await conn.fetch(_SQL["unrouted"], batch)))


async def become_router(conn: Connection) -> bool:
    """Take the lock of the router for this transaction; return False if another transaction holds it."""
    return await conn.fetchval(_SQL["become_router"]) is True


async def route(conn: Connection, addresses: Sequence[Address], batch: int, *, kept: int) -> None:
    """Number the messages at these addresses and deliver them to the waiters there. The caller is the router.

    The latest `kept` events of each name and key are kept for waits that begin later.
    """
    await conn.execute(_SQL["number"], *columns(addresses), batch)
    await conn.execute(_SQL["close_ended"], *columns(addresses))
    signals = [address[:3] for address in addresses if address.is_signal]
    events = [address[:3] for address in addresses if not address.is_signal]
    if signals:
        await conn.execute(_SQL["match_signals"], *columns(signals))
    if events:
        await conn.execute(_SQL["match_events"], *columns(events))
        await conn.execute(_SQL["drop_events"], *columns(events), kept)


async def prune(conn: Connection, *, age: timedelta, batch: int) -> int:
    """Delete a batch of messages that are older than `age`; return their number."""
    count: int = await conn.fetchval(_SQL["prune"], age, batch)
    return count
