"""Queues as answers show them."""

from datetime import datetime, timedelta
from typing import Any

from pydantic import ConfigDict, Field

from windlass.engine.jobs.queues import MOST_COUNTED, QueueRow
from windlass.engine.jobs.queues import Queue as QueueFound
from windlass.web.api.schemas.common import Shown

QUEUE: dict[str, Any] = {
    "name": "default",
    "paused": False,
    "paused_at": None,
    "resumed_at": None,
    "due": 12,
    "scheduled": 3,
    "leased": 8,
    "capped": False,
    "oldest_seconds": 1.5,
    "ended_per_second": 40.2,
}


class Depth(Shown):
    """How much lies in a queue."""

    name: str
    paused: bool
    due: int = Field(description=f"Jobs that a worker may take now, counted up to {MOST_COUNTED} of each type.")
    scheduled: int = Field(description=f"Jobs whose time has not come, counted up to {MOST_COUNTED}.")
    leased: int = Field(description="Jobs that workers hold.")
    capped: bool = Field(description="There are more than were counted.")
    oldest_seconds: float | None = Field(description="How long the first one in line has waited.")


class Queue(Depth):
    """A queue, and how fast it goes."""

    model_config = ConfigDict(json_schema_extra={"examples": [QUEUE]})

    paused_at: datetime | None
    resumed_at: datetime | None
    ended_per_second: float = Field(
        description="Over the last minute; where very much happens, over the latest part of it."
    )


def queue(found: QueueFound) -> Queue:
    row = found.row
    return Queue(
        **_depth(row), paused_at=row.paused_at, resumed_at=row.resumed_at, ended_per_second=round(found.rate, 3)
    )


def depth(row: QueueRow) -> Depth:
    return Depth(**_depth(row))


def seconds(span: timedelta) -> float:
    return round(max(span, timedelta()).total_seconds(), 3)


def _depth(row: QueueRow) -> dict[str, Any]:
    counts = {"due": row.due, "scheduled": row.scheduled, "leased": row.leased, "capped": row.capped}
    oldest = None if row.oldest is None else seconds(row.oldest)
    return {"name": row.name, "paused": row.paused, **counts, "oldest_seconds": oldest}
