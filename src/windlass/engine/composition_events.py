"""What the trail of runs means for compositions: who they are, and which jobs its lines speak of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from windlass.engine.live import Told
from windlass.engine.unit import Unit
from windlass.store import compositions as store
from windlass.store.compositions import ToldJob, Who
from windlass.store.timers import Place

__all__ = ["Known", "Place", "ToldJob", "Who", "known"]


@dataclass(frozen=True, slots=True)
class Known:
    runs: Mapping[UUID, Who] = field(default_factory=dict)
    jobs: Mapping[Place, ToldJob] = field(default_factory=dict)


NOBODY = Known()


async def known(unit: Unit, told: Iterable[Told]) -> Known:
    """For the lines that speak of compositions, all at once."""
    lines = [one.line for one in told if one.workflow is not None and one.workflow.primitive is not None]
    lines = [line for line in lines if not line.of_job]
    runs = sorted({line.run_id for line in lines if line.run_id is not None})
    if not runs:
        return NOBODY
    places = sorted({(line.run_id, line.step) for line in lines if line.run_id is not None and line.step is not None})
    async with unit.begin() as conn:
        return Known(await store.told(conn, runs), await store.told_jobs(conn, places) if places else {})
