"""The origin of a run: an API call, a cron schedule, a webhook request, its parent run, or the Open Job Spec.

The origin is not stored: it is derived from the other data of the run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from windlass.core.cron import schedule

SCHEDULED_FOR = "windlass-scheduled-for"  # the trigger header with the time of the tick


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
    parent_id: UUID | None = None  # the parent run


BY_API = Origin(OriginKind.API)


def origin(
    *, key: str | None, headers: Mapping[str, str] | None, parent_id: UUID | None = None, composed: bool = False
) -> Origin:
    """Return the origin of a run.

    `key` is its idempotency key, `headers` are the headers of its trigger (None: it had none), and `composed` says that
    it is a composition of jobs.
    """
    if parent_id is not None:
        return Origin(OriginKind.PARENT, parent_id=parent_id)
    if composed:
        return Origin(OriginKind.OJS)
    if headers is None:
        return BY_API
    if schedule.is_key(key) and SCHEDULED_FOR in headers:  # both: a client can send either one
        return Origin(OriginKind.CRON, scheduled_for=datetime.fromisoformat(headers[SCHEDULED_FOR]))
    return Origin(OriginKind.WEBHOOK)
