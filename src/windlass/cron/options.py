"""How a scheduler behaves: a value, checked when it is made."""

from dataclasses import dataclass, replace
from datetime import timedelta
from zoneinfo import ZoneInfo

from windlass.core.cron import IN_PROCESS, YEARS, Dialect, Presence, parse
from windlass.core.cron import Cron as Spec
from windlass.core.cron_syntax import read_zone
from windlass.cron.job import Wrapper
from windlass.errors import Invalid

WITH_SECONDS = replace(IN_PROCESS, seconds=Presence.REQUIRED)
SECOND_OPTIONAL = replace(IN_PROCESS, seconds=Presence.OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class CronOptions:
    location: str | ZoneInfo = "UTC"
    dialect: Dialect = IN_PROCESS
    min_every: timedelta | None = None
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
        if self.min_every is not None and self.min_every < IN_PROCESS.min_every:
            told = f"min_every is {self.min_every}: entries have whole seconds, so it must be 1 s or more"
            raise Invalid(told, field="min_every")
        if self.min_every is not None:
            object.__setattr__(self, "dialect", replace(self.dialect, min_every=self.min_every))

    def schedule(self, spec: str | Spec, key: str | None) -> Spec:
        """Read a spec; `H` fields are derived from the entry's name."""
        if isinstance(spec, Spec):
            return spec
        key = key if self.dialect.hashed else None  # the parser remembers texts; a key for nothing would spoil that
        return parse(spec, dialect=self.dialect, zone=self.location, key=key)
