"""The URL that callbacks and webhooks are sent to. Any process may put it into a request, and few of them serve it.

A process uses its own WINDLASS_PUBLIC_URL if it has one. Otherwise it uses what a server recorded in the database:
preferably a configured URL, because the address that a server listens at is rarely reachable from elsewhere.
"""

import time
from datetime import timedelta

from windlass.store import hooks
from windlass.store.hooks import RecordedUrl
from windlass.store.postgres.pool import Connection

DEFAULT = "http://127.0.0.1:8080"  # where `windlass up` listens by default
REPEAT = timedelta(minutes=1)  # how often a server records its URL again
LIVE_WITHIN = timedelta(minutes=10)
CACHED = 10.0  # seconds


class PublicUrl:
    """The URL as one process knows it."""

    def __init__(self, configured: str | None) -> None:
        self.configured = configured
        self.listening: str | None = None  # where this process itself serves
        self._recorded: RecordedUrl | None = None
        self._read_at = float("-inf")

    async def get(self, conn: Connection) -> str:
        if self.configured is not None:
            return self.configured
        if time.monotonic() - self._read_at > CACHED:
            found = await hooks.list_urls(conn, live_within=LIVE_WITHIN)
            self._recorded, self._read_at = found[0] if found else None, time.monotonic()
        if self._recorded is not None and (self._recorded.configured or self.listening is None):
            return self._recorded.url
        return self.listening or DEFAULT

    async def record(self, conn: Connection) -> None:
        """Record the URL of this process for the other processes."""
        if (url := self.configured or self.listening) is not None:
            await hooks.record_url(conn, url, configured=self.configured is not None)
            self._read_at = float("-inf")
