"""Records the URL that this process serves, so that other processes can put it into callbacks and webhooks."""

import asyncio

from windlass.engine.database import RECORD_URL_EVERY, Tenant
from windlass.runtime.loops.loop import run_periodically


class OwnUrl:
    """The URL of this process, recorded periodically until `close`: a URL not recorded recently counts as dead."""

    def __init__(self, db: Tenant) -> None:
        self._db = db
        self._recording: asyncio.Task[None] | None = None

    async def listen_at(self, url: str) -> str:
        """Record the URL periodically; return the base URL of callbacks, which another server may have configured."""
        self._db.public_url.listening = url
        await self._record()
        if self._recording is None:
            loop = run_periodically(self._record, every=RECORD_URL_EVERY, stop=asyncio.Event())
            self._recording = asyncio.create_task(loop)
        async with self._db.once() as conn:
            return await self._db.public_url.get(conn)

    async def close(self) -> None:
        if self._recording is not None:
            self._recording.cancel()
            await asyncio.gather(self._recording, return_exceptions=True)

    async def _record(self) -> None:
        async with self._db.once() as conn:
            await self._db.public_url.record(conn)
