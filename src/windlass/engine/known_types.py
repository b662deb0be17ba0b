"""Caches the schemas of job types that live workers serve."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

TOPIC = "job-types"  # of the notification after a worker has published its schemas
FRESH = 5.0  # seconds for which the digests are cached
WARNING_INTERVAL = 60.0  # seconds between warnings about one type

Key = tuple[str, str]  # org of the workers, type


@dataclass(slots=True)
class KnownTypes:
    """The schema digests of each type that live workers serve, and the schema of each digest, which never changes."""

    digests: Mapping[Key, list[str]] = field(default_factory=dict)
    schemas: dict[str, str | None] = field(default_factory=dict)
    read_at: float = float("-inf")  # by the monotonic clock
    changes: int = 0  # notifications so far
    reading: "asyncio.Task[None] | None" = None  # shared by concurrent submits
    warned: dict[str, float] = field(default_factory=dict)  # type -> when a warning about it was logged

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() - self.read_at < FRESH

    def woken(self, topic: str) -> None:
        """Handle a notification: a worker has published schemas, or notifications may be lost."""
        if topic in (TOPIC, ""):
            self.changes += 1
            self.read_at = float("-inf")

    def keep(self, live: Iterable[tuple[Key, str]], schemas: dict[str, str | None]) -> None:
        """Replace the cached digests; `schemas` has the schemas that were not cached. Drop those no longer served."""
        digests: dict[Key, list[str]] = {}
        for key, digest in live:
            digests.setdefault(key, []).append(digest)
        known = self.schemas | schemas
        served = {digest for group in digests.values() for digest in group}
        self.schemas = {digest: known[digest] for digest in served & known.keys()}
        self.digests = digests

    def schemas_of(self, orgs: Iterable[str], type_: str) -> list[str]:
        """Return the schemas of a type; none if no live worker serves it, or if one of them accepts any value."""
        digests = {digest for org in orgs for digest in self.digests.get((org, type_), ())}
        schemas = [self.schemas.get(digest) for digest in sorted(digests)]
        return [] if None in schemas else [schema for schema in schemas if schema is not None]

    def may_warn(self, type_: str, now: float) -> bool:
        """Return whether to log that a type cannot be checked: once per interval, however many jobs are submitted."""
        if now - self.warned.get(type_, float("-inf")) < WARNING_INTERVAL:
            return False
        self.warned = {known: at for known, at in self.warned.items() if now - at < WARNING_INTERVAL} | {type_: now}
        return True
