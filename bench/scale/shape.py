"""Fills the database of the trial, through the engine except for the history."""

import asyncio
from dataclasses import dataclass
from typing import Any

from bench.contestants.windlass_history import fill
from windlass import Windlass
from windlass.engine import doctor
from windlass.engine.runs.start import RunSpec

STEP, HOLD = "bench.step.v1", "bench.hold.v1"
STEPS = 3  # of a run
HOLD_QUEUE = "hold"
LANE_QUEUES = tuple(f"lane{n}" for n in range(10))
LANE_TYPES = tuple(f"bench.lane{n}.v1" for n in range(100))
LANES = [(queue, type_) for queue in LANE_QUEUES for type_ in LANE_TYPES]
WORKFLOW, SLEEPER = "bench-scale", "bench-sleeper"
BATCH = 1000

HELD = "select count(*) from workflow.workflow_run where status = 'leased' and type = $1"


@dataclass(frozen=True, kw_only=True)
class Shape:
    history: int = 20_000_000  # ended jobs
    live: int = 100_000  # runs
    held: int = 10_000  # leases
    lanes: int = len(LANES)


async def build(app: Windlass, url: str, shape: Shape) -> None:
    """Deploy the workflows, insert the history, start the live runs and submit the jobs to hold."""
    await app.deploy(
        {
            "name": WORKFLOW,
            "tasks": {
                "first": {"job": STEP},
                "second": {"job": STEP, "needs": "first"},
                "last": {"job": STEP, "needs": "second"},
            },
        }
    )
    await app.deploy({"name": SLEEPER, "tasks": {"sleep": {"sleep": "30d"}}})
    await fill(url, shape.history, WORKFLOW)
    for done in range(0, shape.live, BATCH):
        await app.start_many(SLEEPER, [RunSpec()] * min(BATCH, shape.live - done))
    for done in range(0, shape.held, BATCH):
        await app.submit_many([app.spec(HOLD, queue=HOLD_QUEUE)] * min(BATCH, shape.held - done))


async def until_held(app: Windlass, held: int) -> None:
    db = await app.open()
    while await db.pool.fetchval(HELD, HOLD) < held:
        await asyncio.sleep(0.5)


async def problems(app: Windlass) -> list[str]:
    """Return the findings of the doctor other than OK."""
    db = await app.open()
    findings = await doctor.examine(db)
    return [f"{one.level}: {one.check}: {one.message}" for one in findings if one.level is not doctor.Level.OK]


async def census(app: Windlass) -> dict[str, Any]:
    """Count the rows of each kind; takes a while in large tables."""
    db = await app.open()
    row = await db.pool.fetchrow(
        "select (select count(*) from workflow.workflow_run where status = 'succeeded') as ended, "
        "(select count(*) from windlass.run where state = 'running') as live, "
        "(select count(*) from workflow.workflow_run where status = 'leased') as held, "
        "(select count(*) from only workflow.workflow_run) as inbox, "
        "(select count(*) from windlass.lane) as lanes, pg_database_size(current_database()) as bytes"
    )
    assert row is not None
    return dict(row)
