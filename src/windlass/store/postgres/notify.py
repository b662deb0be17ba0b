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
from windlass.store.postgres.availability import UNAVAILABLE
from windlass.store.postgres.pool import Connection, DatabaseOptions, open_connection
from windlass.store.postgres.queries import sql

CHANNEL = "windlass"
LONGEST_TOPIC = 255  # a queue that plain SQL named may be longer than a notification can be: then wake everybody
CHECK_SECONDS = 15.0  # of silence after which the connection is tried
ANSWER_SECONDS = 10.0
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
            with contextlib.suppress(*UNAVAILABLE, Unavailable):
                await self._serve()
            await asyncio.sleep(0.5)

    async def _serve(self) -> None:
        conn = await open_connection(self._options, command_timeout=ANSWER_SECONDS)
        try:
            # A notification commits like anything else, but there is nothing in it that a crash could lose.
            await conn.execute("set synchronous_commit = off")
            conn.add_termination_listener(lambda _: self._pending.set())
            await conn.add_listener(CHANNEL, self._hearing(conn.get_server_pid()))
            self._tell("")  # whatever was said while we were away: look for yourself
            while not conn.is_closed():
                try:
                    await asyncio.wait_for(self._pending.wait(), CHECK_SECONDS)
                except TimeoutError:
                    await conn.execute("")  # a connection that only listens would never notice that the server is gone
                else:
                    await self._send(conn)
        finally:
            conn.terminate()

    async def _send(self, conn: "asyncpg.Connection[Any]") -> None:
        self._pending.clear()
        topics = list(self._topics)
        if topics:
            await conn.execute(sql("server", "notify"), CHANNEL, topics)
            self._topics.difference_update(topics)
        if not self._topics:
            self._sent.set()

    def _hearing(self, own_pid: int) -> "Callable[[Connection, int, str, object], None]":
        """A listener that leaves out what this connection sent: that was told when it was said.

        The pid is read once: a connection that was closed meanwhile has none, and may still deliver.
        """

        def heard(_conn: Connection, pid: int, _channel: str, payload: object) -> None:
            if pid != own_pid:
                self._tell(str(payload))

        return heard

    def _tell(self, topic: str) -> None:
        for listener in tuple(self._listeners):
            listener(topic)
