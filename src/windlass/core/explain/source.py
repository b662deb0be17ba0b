"""What a run came from: somebody asked for it, the clock, a request to its workflow's address, the run above it, or the
Open Job Spec. Nothing is kept for this: what a run has anyway tells it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from windlass.core.cron import schedule

SCHEDULED_FOR = "windlass-scheduled-for"  # the trigger header that names the tick


class OriginKind(StrEnum):
    API = "api"
    CRON = "cron"
    WEBHOOK = "webhook"
    PARENT = "parent"
    OJS = "ojs"


@dataclass(frozen=True, slots=True)
class Origin:
    kind: OriginKind
    scheduled_for: datetime | None = None  # the tick of a cron
    parent_id: UUID | None = None  # the run above


BY_API = Origin(OriginKind.API)


def origin(
    *, key: str | None, headers: Mapping[str, str] | None, parent_id: UUID | None = None, composed: bool = False
) -> Origin:
    """`key`: its idempotency key. `headers`: those that it was triggered with, if it was. `composed`: of jobs."""
    if parent_id is not None:
        return Origin(OriginKind.PARENT, parent_id=parent_id)
    if composed:
        return Origin(OriginKind.OJS)
    if headers is None:
        return BY_API
    if schedule.is_key(key) and SCHEDULED_FOR in headers:  # anybody can send such a header, and give such a key
        return Origin(OriginKind.CRON, scheduled_for=datetime.fromisoformat(headers[SCHEDULED_FOR]))
    return Origin(OriginKind.WEBHOOK)
