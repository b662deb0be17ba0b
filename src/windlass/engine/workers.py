"""Workers as operators see them."""

from datetime import timedelta

from windlass.engine.unit import Unit
from windlass.store import workers
from windlass.store.rows import WorkerRow

ALIVE_WITHIN = timedelta(seconds=30)  # a worker says it lives at a third of its lease, 10 s by default


async def list_(unit: Unit, *, alive_within: timedelta = ALIVE_WITHIN) -> list[WorkerRow]:
    """Who works here, the latest sign of life first."""
    async with unit.begin() as conn:
        return await workers.list_(conn, alive_within=alive_within)
