"""Checks jobs before they are recorded: queue limits, and arguments against the schema of their type.

Limits and schemas are cached for a second, so a database without them pays almost nothing. Queue depths are counted
periodically and estimated in between by adding admitted jobs; before a job is refused the queue is counted again
(a queue with a limit of LONG or more at most every REST seconds).
"""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from windlass.core.jobs.spec import JobSpec
from windlass.engine.database import Tenant
from windlass.engine.jobs import queues as job_queues
from windlass.engine.jobs import schemas as job_schemas
from windlass.engine.jobs.queues import DepthLimit
from windlass.engine.jobs.schemas import Misfit, Schemas

FRESH = 1.0  # seconds for which limits, schemas and depths are cached
LONG = 10_000  # jobs; counting a longer queue takes time, so a refusal may be based on a count up to REST old
REST = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class Pressure:
    """The depth of a queue and its limit."""

    queue: str
    depth: int
    bound: DepthLimit

    @property
    def share(self) -> float:
        return min(1.0, self.depth / (self.bound.max_depth or self.depth or 1))


class QueueFull(Exception):
    """Raised if a queue has reached its limit. The request itself is valid and may be retried later."""

    def __init__(self, pressure: Pressure) -> None:
        super().__init__(f"queue {pressure.queue!r} has reached its bound of {pressure.bound.max_depth} waiting jobs")
        self.pressure = pressure


@dataclass(slots=True)
class _Depth:
    count: int
    at: float


@dataclass(slots=True)
class _Known:
    bounds: dict[str, DepthLimit] = field(default_factory=dict)
    schemas: Schemas = field(default_factory=Schemas)
    at: float = float("-inf")


class Admission:
    def __init__(self, db: Tenant) -> None:
        self.db = db
        self._known = _Known()
        self._depths: dict[str, _Depth] = {}

    def forget(self) -> None:
        """Drop the caches after a configuration change in this process."""
        self._known.at = float("-inf")
        self._depths.clear()

    async def schemas(self) -> Schemas:
        return (await self._current()).schemas

    async def misfits(self, specs: Sequence[JobSpec]) -> list[tuple[int, Misfit]]:
        """Return the index and the schema violation of each job whose arguments do not match."""
        schemas = (await self._current()).schemas
        if not schemas:
            return []
        checked = [(n, await schemas.misfit(spec)) for n, spec in enumerate(specs)]
        return [(n, misfit) for n, misfit in checked if misfit is not None]

    async def make_room(self, queues: Iterable[str]) -> Pressure | None:
        """Reserve room for one job in each of these queues (with repetitions), all or none.

        Return the state of the queue that is fullest relative to its limit; None if none has a limit. Raise
        `QueueFull` if one of them is full.
        """
        bounds = (await self._current()).bounds
        if not bounds:
            return None
        counts = Counter(queue for queue in queues if queue in bounds)
        reserved: list[Pressure] = []
        try:
            for queue, count in counts.items():
                reserved.append(await self._reserve(queue, bounds[queue], count))
        except QueueFull:
            for pressure in reserved:  # all or none: undo the reservations, unless `forget` has dropped the counts
                if depth := self._depths.get(pressure.queue):
                    depth.count -= counts[pressure.queue]
            raise
        return max(reserved, key=lambda pressure: pressure.share, default=None)

    async def _reserve(self, queue: str, bound: DepthLimit, more: int) -> Pressure:
        assert bound.max_depth is not None
        now, known = time.monotonic(), self._depths.get(queue)
        if known is None or now - known.at > FRESH:
            known = await self._count(queue, bound.max_depth)
        is_old = known.at < now and (now - known.at > REST or bound.max_depth < LONG)
        if known.count + more > bound.max_depth and is_old:
            known = await self._count(queue, bound.max_depth)
        if known.count + more > bound.max_depth:
            raise QueueFull(Pressure(queue, known.count, bound))
        known.count += more
        return Pressure(queue, known.count, bound)

    async def _count(self, queue: str, cap: int) -> _Depth:
        known = self._depths[queue] = _Depth(await job_queues.depth(self.db, queue, cap=cap), time.monotonic())
        return known

    async def _current(self) -> _Known:
        if time.monotonic() - self._known.at > FRESH:
            self._known = _Known(
                await job_queues.depth_limits(self.db), await job_schemas.schemas(self.db), time.monotonic()
            )
        return self._known
