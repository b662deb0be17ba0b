"""Job types: the schemas that workers have published for the payloads of their handlers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobType:
    """A type that workers serve, or have served."""

    type: str
    schema: dict[str, Any] | None
    """A JSON Schema of the payload, with the fields in the order of the handler; null: the handler takes any values. If
    live workers serve several, the one that was published last."""
    digest: str
    """The digest of the schema."""
    drift: bool
    """Whether live workers serve several schemas: a payload is accepted if one of them accepts it."""
    workers: int
    """How many live workers serve it; 0: payloads are not checked."""
    versions: int
    """How many schemas workers have published for it."""
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTypeVersion:
    """A schema that workers have published for a type."""

    digest: str
    schema: dict[str, Any] | None
    code_version: str | None
    """WINDLASS_CODE_VERSION of the last worker that published it."""
    workers: int
    """How many live workers serve it."""
    worker_ids: list[str]
    """Those workers; shown to the operator only."""
    first_seen_at: datetime
    last_seen_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTypeDetail(JobType):
    """A type and its schemas."""

    history: list[JobTypeVersion]
    """Those of live workers first, then the latest."""
