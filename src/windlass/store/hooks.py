"""Hooks: callback URLs of runs, the callbacks received, and the public URLs of the servers that receive them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from windlass.store.postgres.pool import Connection
from windlass.store.postgres.queries import columns, statements
from windlass.store.steps import StepRef

_SQL = statements("hooks")
_URLS = statements("public_urls")


class Callback(NamedTuple):
    run_id: UUID
    step: int
    body: str
    headers: str | None  # JSON


async def insert(conn: Connection, rows: Sequence[tuple[UUID, int, bytes]]) -> None:
    await conn.execute(_SQL["insert"], *columns(rows))


async def find(conn: Connection, token_hash: bytes) -> StepRef | None:
    row = await conn.fetchrow(_SQL["find"], token_hash)
    return (row[0], row[1]) if row else None


class HookState(NamedTuple):
    is_received: bool
    state: str  # of the run
    step: str  # state letter of the step


async def state(conn: Connection, token_hash: bytes) -> HookState | None:
    row = await conn.fetchrow(_SQL["state"], token_hash)
    return HookState(*row) if row else None


async def listen(conn: Connection, places: Sequence[StepRef]) -> list[StepRef]:
    """Return which of these waiting steps have already received their callback."""
    return [(row[0], row[1]) for row in await conn.fetch(_SQL["listen"], *columns(places))]


async def reset(conn: Connection, rows: Sequence[tuple[UUID, int, int, bytes]]) -> None:
    """Reset hooks that are waited for again, given as (run, step, round, hash of the new token)."""
    await conn.execute(_SQL["reset"], *columns(rows))


async def rounds(conn: Connection, places: Sequence[StepRef]) -> dict[StepRef, int]:
    """Return the rounds in which the URLs of these hooks were created."""
    rows = await conn.fetch(_SQL["rounds"], *columns(places))
    return {(row[0], row[1]): row[2] for row in rows}


async def receive(conn: Connection, place: StepRef, *, body: str, headers: str, id_: str | None) -> bool:
    """Store a callback; return False if one was stored before. `id_` is the sender's id of a signed request."""
    return await conn.fetchval(_SQL["receive"], *place, body, headers, id_) is not None


async def received(conn: Connection, place: StepRef, id_: str | None) -> bool:
    return bool(await conn.fetchval(_SQL["received"], *place, id_))


async def bodies(conn: Connection, places: Sequence[StepRef]) -> list[Callback]:
    return list(map(Callback._make, await conn.fetch(_SQL["bodies"], *columns(places))))


class RecordedUrl(NamedTuple):
    url: str
    configured: bool  # by WINDLASS_PUBLIC_URL; otherwise it is the address at which a server listens
    live: bool  # a server has recorded it recently


async def record_url(conn: Connection, url: str, *, configured: bool) -> None:
    await conn.execute(_URLS["record"], url, configured)


async def list_urls(conn: Connection, *, live_within: timedelta) -> list[RecordedUrl]:
    """Return at most ten recorded URLs, the best first."""
    return list(map(RecordedUrl._make, await conn.fetch(_URLS["list"], live_within)))


async def hooks_in_use(conn: Connection) -> bool:
    return bool(await conn.fetchval(_URLS["hooks_in_use"]))
