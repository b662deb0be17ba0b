"""Wake-ups across processes: one connection a process, notifications coalesced and sent after commit.

A NOTIFY inside a transaction takes a lock that all committers share, so ours never ride in one. Losing every one of
them costs only time: each loop polls as well. The connection comes back by itself when the server restarts.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import asyncpg

from windlass.errors import Unavailable
from windlass.store.pool import GONE, Connection, DatabaseOptions, open_connection

CHANNEL = "windlass"
LONGEST_TOPIC = 255  # a queue that plain SQL named may be longer than a notification can be: then wake everybody
Listener = Callable[[str], None]


class Notifier:
    def __init__(self, options: DatabaseOptions) -> None:
        self._options = options
        self._on = options.notify and not options.pooler
        self._listeners: set[Listener] = set()
        self._topics: set[str] = set()
        self._pending = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Be told of every topic; call the answer to be told no more."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def poke(self, topic: str) -> None:
        """Tell this process at once and the others soon. Call it after the commit."""
        self._tell(topic)
        if self._on:
            self._topics.add(topic if len(topic) <= LONGEST_TOPIC else "")
            self._sent.clear()
            self._pending.set()

    def start(self) -> None:
        if self._on and self._task is None:
            self._task = asyncio.create_task(self._run(), name="windlass-notifier")

    async def close(self) -> None:
        if self._task:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sent.wait(), timeout=1)  # a wake-up that was promised still goes out
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            with contextlib.suppress(*GONE, Unavailable):
                await self._serve()
            await asyncio.sleep(0.5)

    async def _serve(self) -> None:
        conn = await open_connection(self._options)
        try:
            # A notification commits like anything else, but there is nothing in it that a crash could lose.
            await conn.execute("set synchronous_commit = off")
            conn.add_termination_listener(lambda _: self._pending.set())
            await conn.add_listener(CHANNEL, self._heard)
            self._tell("")  # whatever was said while we were away: look for yourself
            while not conn.is_closed():
                await self._pending.wait()
                await self._send(conn)
        finally:
            conn.terminate()

    async def _send(self, conn: "asyncpg.Connection[Any]") -> None:
        self._pending.clear()
        topics = list(self._topics)
        if topics:
            quoted = (topic.replace("'", "''") for topic in topics)
            await conn.execute("; ".join(f"notify {CHANNEL}, '{topic}'" for topic in quoted))  # one message, no plan
            self._topics.difference_update(topics)
        if not self._topics:
            self._sent.set()

    def _heard(self, conn: Connection, pid: int, _channel: str, payload: object) -> None:
        if pid != conn.get_server_pid():  # our own were told when they were said
            self._tell(str(payload))

    def _tell(self, topic: str) -> None:
        for listener in tuple(self._listeners):
            listener(topic)
