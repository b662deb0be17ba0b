"""Wake-ups across processes with LISTEN/NOTIFY: one connection per process, notifications coalesced and sent after
commit.

A transaction with a NOTIFY takes a global lock at commit, so notifications are never part of a transaction that does
other work. A process sends at most once every APART seconds, all topics of that time in one statement: many jobs that
are submitted one by one would otherwise cost one notification each, and wake a worker for each.

Lost notifications only cost time: each loop polls as well. The connection is reopened after a failure.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Any

import asyncpg

from windlass.errors import Unavailable
from windlass.store.postgres.outage import UNAVAILABLE
from windlass.store.postgres.pool import Connection, DatabaseOptions, open_connection
from windlass.store.postgres.queries import sql

CHANNEL = "windlass"
LONGEST_TOPIC = 255  # a longer queue name, written by plain SQL, may not fit a notification: then wake all listeners
CHECK_SECONDS = 15.0  # time without a notification to send after which the connection is checked
ANSWER_SECONDS = 10.0
APART = 0.005
Listener = Callable[[str], None]
_log = logging.getLogger("windlass.database")


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
        """Call `listener` with the topic of every wake-up; return a function that unsubscribes it."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    def poke(self, topic: str) -> None:
        """Wake the listeners of this process now and those of other processes soon. Call it after the commit."""
        self._call_listeners(topic)
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
                async with asyncio.timeout(1):
                    await self._sent.wait()  # send pending wake-ups first
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                with contextlib.suppress(*UNAVAILABLE, Unavailable):
                    await self._serve()
            except Exception:
                # If this task ended, the process would receive no wake-ups any more, and only polling would remain.
                _log.exception("listening for wake-ups failed: trying again")
            await asyncio.sleep(0.5)

    async def _serve(self) -> None:
        conn = await open_connection(self._options, command_timeout=ANSWER_SECONDS)
        try:
            # A NOTIFY commits too, but it writes nothing that a crash could lose: do not wait for the WAL flush.
            await conn.execute("set synchronous_commit = off")
            conn.add_termination_listener(lambda _: self._pending.set())
            await conn.add_listener(CHANNEL, self._listener(conn.get_server_pid()))
            self._call_listeners("")  # notifications were missed while the connection was down: wake all listeners
            while not conn.is_closed():
                try:
                    # Not `wait_for`, which before Python 3.12 loses a cancellation that comes together with the event.
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._pending.wait()
                except TimeoutError:
                    # A connection that only listens would not notice that the server is gone. An empty statement cannot
                    # be used here: asyncpg raises an AttributeError when it is answered.
                    await conn.execute("select 1")
                else:
                    await self._send(conn)
                    await asyncio.sleep(APART)
        finally:
            conn.terminate()

    async def _send(self, conn: "asyncpg.Connection[Any]") -> None:
        self._pending.clear()
        topics, self._topics = self._topics, set()
        if topics:
            try:
                await conn.execute(sql("server", "notify"), CHANNEL, list(topics))
            except BaseException:
                self._topics |= topics
                raise
        # A topic that was poked meanwhile is sent again: its change may have been committed after this statement.
        if not self._topics:
            self._sent.set()

    def _listener(self, own_pid: int) -> "Callable[[Connection, int, str, object], None]":
        """Return a callback that ignores this connection's own notifications: `poke` has already called the listeners.

        The pid is read once, because a closed connection has none and may still deliver notifications.
        """

        def receive(_conn: Connection, pid: int, _channel: str, payload: object) -> None:
            if pid != own_pid:
                self._call_listeners(str(payload))

        return receive

    def _call_listeners(self, topic: str) -> None:
        for listener in tuple(self._listeners):
            listener(topic)
