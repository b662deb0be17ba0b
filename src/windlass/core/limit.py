"""How fast, and how many at a time, jobs of a key are handed out. Postgres keeps the count: `windlass.admit`."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    key: str
    rate: float | None = None  # jobs in a period
    period: timedelta = timedelta(seconds=1)
    concurrency: int | None = None  # at the same time
