"""/quarantine: what was set aside after an unforeseen error, and when it is tried again."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import ConfigDict, Field

from windlass.engine import quarantine
from windlass.engine.quarantine import Kind, QuarantineEntry
from windlass.web.api.request.dependencies import Open
from windlass.web.api.schemas.common import Data, Listing, Shown, told

router = APIRouter(prefix="/quarantine", tags=["quarantine"])

MOST = 1000
KIND = Annotated[Kind, Path(description="What kind of thing it is.")]
KEY = Annotated[str, Path(max_length=255, description="Its id or name.")]
ENTRY: dict[str, Any] = {
    "kind": "run",
    "key": "01a1dda3-07b5-7e5c-8f1a-0d6a2f0b4a11",
    "error_type": "UnreadableVersion",
    "reason": "version 7 of a workflow cannot be read by this process: tasks.ship: it does nothing",
    "failures": 3,
    "first_at": "2026-02-22T10:00:00Z",
    "last_at": "2026-02-22T10:00:07Z",
    "retry_at": "2026-02-22T10:00:15Z",
}


class Quarantined(Shown):
    """Something that could not be processed. Everything else goes on without it."""

    model_config = ConfigDict(json_schema_extra={"examples": [ENTRY]})

    kind: Kind
    key: str
    error_type: str
    reason: str
    failures: int = Field(description="How often it was tried.")
    first_at: datetime
    last_at: datetime
    retry_at: datetime | None = Field(description="When it is tried again; null: it is only reported.")


@router.get("", summary="List what is set aside")
async def list_(db: Open) -> Listing[Quarantined]:
    """The latest first, 1,000 at most."""
    return Listing[Quarantined](data=[_shown(entry) for entry in await quarantine.list_(db, limit=MOST)])


@router.post("/{kind}/{key}/retry", summary="Try something again that is set aside", responses=told(404, 409, 422))
async def retry(db: Open, kind: KIND, key: KEY) -> Data[Quarantined]:
    """It is tried within a second, by whichever process comes first. 409 if it is only reported."""
    return Data[Quarantined](data=_shown(await quarantine.retry_now(db, kind, key)))


def _shown(entry: QuarantineEntry) -> Quarantined:
    return Quarantined(
        kind=Kind(entry.kind),
        key=entry.key,
        error_type=entry.error_type,
        reason=entry.reason,
        failures=entry.failures,
        first_at=entry.first_at,
        last_at=entry.last_at,
        retry_at=entry.retry_at,
    )
