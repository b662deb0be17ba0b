"""Looks for runs with unapplied events: ends of jobs written by plain SQL, notices of other runs, runs that wait for
their workflow's limit. Also tries again what was set aside."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from windlass.engine import crons, quarantine, schedules, strays, triggers
from windlass.engine.quarantine import Kind, Retry
from windlass.engine.unit import Unit
from windlass.runtime.beat import beat
from windlass.runtime.duties import Duties


@dataclass(frozen=True, kw_only=True)
class SettlerOptions:
    every: timedelta = timedelta(milliseconds=500)
    batch: int = 500


class Settler:
    def __init__(self, unit: Unit, options: SettlerOptions | None = None) -> None:
        self.options = options or SettlerOptions()
        self._unit = unit
        self._duties = Duties(unit, "settler")
        self._wake = asyncio.Event()

    async def tick(self) -> int:
        """One round; how many runs moved."""
        batch = self.options.batch
        begun = await self._duties.run("begin", lambda: strays.begin_held(self._unit, batch=batch), 0)
        told = await self._duties.run("settle", lambda: strays.settle_strays(self._unit, batch=batch), 0)
        again = await self._duties.run("retry", lambda: quarantine.retry_due(self._unit, retries(self._unit)), 0)
        return begun + told + again

    async def run(self, stop: asyncio.Event) -> None:
        async def round_() -> timedelta | None:
            return timedelta() if await self.tick() else None

        with self._unit.subscribe(self._woken):
            await beat(round_, every=self.options.every, stop=stop, wake=self._wake)

    def _woken(self, topic: str) -> None:
        if topic in ("settle", ""):
            self._wake.set()


def retries(unit: Unit) -> dict[Kind, Retry]:
    """How each kind of thing that was set aside is tried again."""

    async def schedule(id_: UUID) -> bool:
        await schedules.fire(unit, [id_])
        return True

    return {
        Kind.RUN: _by_id(partial(strays.retry, unit)),
        Kind.WORKFLOW: _by_id(partial(strays.begin_held_of, unit)),
        Kind.TRIGGER: _by_id(partial(triggers.serve, unit)),
        Kind.CRON: _by_id(partial(crons.serve, unit)),
        Kind.SCHEDULE: _by_id(schedule),
    }


def _by_id(process: Callable[[UUID], Awaitable[bool]]) -> Retry:
    async def retry(key: str) -> bool:
        return await process(UUID(key))

    return retry
