"""Commands about queues, dead letters and the quarantine through a server."""

from dataclasses import asdict
from typing import Any

from windlass.cli.backend.interface import Row, Rows
from windlass.client import AsyncClient


class RemoteQueues:
    _client: AsyncClient

    async def queues(self, *, after: str, limit: int) -> Rows:
        page = await self._client.queues.list(after=after, limit=limit).page()
        return Rows([asdict(one) for one in page.items], page.next)

    async def pause_queue(self, name: str) -> None:
        await self._client.queues.pause(name)

    async def resume_queue(self, name: str) -> None:
        await self._client.queues.resume(name)

    async def quarantine(self, *, limit: int) -> list[Row]:
        page = await self._client.quarantine.list().page()
        return [asdict(one) for one in page.items[:limit]]

    async def retry_quarantined(self, kind: str, key: str) -> Row:
        return asdict(await self._client.quarantine.retry(kind, key))

    async def dead_letters(self, *, limit: int, **filters: Any) -> Rows:
        page = await self._client.dead_letters.list(**filters, limit=limit).page()
        return Rows([asdict(one) for one in page.items], page.next)

    async def retry_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> Row:
        whole = None if any(filters.values()) else True
        return asdict(await self._client.dead_letters.retry(**filters, all=whole, dry_run=dry_run, limit=limit))

    async def drop_dead_letters(self, *, dry_run: bool, limit: int, **filters: Any) -> Row:
        whole = None if any(filters.values()) else True
        return asdict(await self._client.dead_letters.drop(**filters, all=whole, dry_run=dry_run, limit=limit))
