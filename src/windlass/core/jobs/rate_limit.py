"""Rate and concurrency limits of the jobs that share a key. Postgres enforces them: `windlass.rate_admit`."""

from dataclasses import dataclass
from datetime import timedelta

from windlass.errors import Invalid

SLOWEST = timedelta(days=31)  # the lowest rate is one job in this time: a longer wait would be practically endless
MAX_CONCURRENCY = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    key: str
    rate: float | None = None  # jobs per period
    period: timedelta = timedelta(seconds=1)
    concurrency: int | None = None  # jobs at the same time

    def __post_init__(self) -> None:
        if self.period <= timedelta():
            raise Invalid(f"rate_limit.period is {self.period}: it must be positive", field="options.rate_limit.period")
        if self.rate is not None and self.rate * SLOWEST < self.period:
            raise Invalid(
                f"rate_limit is {self.rate:g} jobs in {self.period}: allow at least one job in {SLOWEST.days} days",
                field="options.rate_limit",
            )
        if self.concurrency is not None and not 1 <= self.concurrency <= MAX_CONCURRENCY:
            raise Invalid(
                f"rate_limit.concurrency is {self.concurrency}: it must lie between 1 and {MAX_CONCURRENCY}",
                field="options.rate_limit.concurrency",
            )
