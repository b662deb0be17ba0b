"""The options of a scheduler, validated on creation, and the parsing of specs."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from windlass.core import duration
from windlass.core.cron import expression as cron_expression
from windlass.core.cron.expression import IN_PROCESS, YEARS, Dialect, Presence
from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.syntax import read_zone
from windlass.core.duration import Duration
from windlass.cron.entry import When
from windlass.cron.job import Wrapper
from windlass.errors import Invalid

WITH_SECONDS = replace(IN_PROCESS, seconds=Presence.REQUIRED)
SECOND_OPTIONAL = replace(IN_PROCESS, seconds=Presence.OPTIONAL)


def parse(text: str, *, dialect: Dialect = IN_PROCESS, zone: str | ZoneInfo = "UTC", key: str | None = None) -> Spec:
    """Parse a cron expression as the in-process scheduler does; `H` fields are derived from `key`."""
    return cron_expression.parse(text, dialect=dialect, zone=zone, key=key)


@dataclass(frozen=True, kw_only=True)
class CronOptions:
    location: str | ZoneInfo = "UTC"
    dialect: Dialect = IN_PROCESS
    min_every: Duration | None = None
    search_years: int = YEARS
    wrappers: tuple[Wrapper, ...] = ()
    max_entries: int = 0
    retention: int = 100
    threads: int = 64

    def __post_init__(self) -> None:
        if self.max_entries < 0 or self.retention < 0 or self.threads < 1 or self.search_years < 1:
            raise Invalid("max_entries and retention are 0 (no limit) or more, threads and search_years 1 or more")
        if isinstance(self.location, str):
            object.__setattr__(self, "location", read_zone(self.location))
        if self.min_every is not None:
            shortest = duration.read(self.min_every, field="min_every")
            if shortest < IN_PROCESS.min_every:
                message = f"min_every is {self.min_every}: entries have whole seconds, so it must be 1 s or more"
                raise Invalid(message, field="min_every")
            object.__setattr__(self, "dialect", replace(self.dialect, min_every=shortest))

    def schedule(self, spec: When, key: str | None) -> Spec:
        """Parse a spec; `H` fields are derived from `key`, the entry's name."""
        match spec:
            case Spec():
                return spec
            case datetime():
                return self._once(spec)
            case timedelta():
                return self._every(spec)
            case str():
                # the parser caches by its arguments: a key that is not used would make every entry miss the cache
                key = key if self.dialect.hashed else None
                return parse(spec, dialect=self.dialect, zone=self.location, key=key)
        raise Invalid(
            f"spec is {spec!r}; it must be a cron expression such as '*/5 * * * *', a datetime or a timedelta",
            field="spec",
        )

    def _every(self, period: timedelta) -> Spec:
        if period <= timedelta() or period.microseconds:
            raise Invalid(
                f"spec is {period!r}; an interval must be a whole number of seconds, at least 1", field="spec"
            )
        return parse(f"@every {period // timedelta(seconds=1)}s", dialect=self.dialect, zone=self.location)

    def _once(self, moment: datetime) -> Spec:
        assert isinstance(self.location, ZoneInfo)
        if moment.utcoffset() is None:
            raise Invalid(f"spec is {moment}, without a time zone; it must be an aware datetime", field="spec")
        return cron_expression.once(moment, zone=self.location)
