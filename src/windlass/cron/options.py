"""The options of a scheduler and of its entries: validation, the parsing of specs, and the creation of entries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from windlass.core import duration
from windlass.core.cron import expression as cron_expression
from windlass.core.cron.expression import IN_PROCESS, YEARS, Dialect, Presence
from windlass.core.cron.expression import Cron as Spec
from windlass.core.cron.syntax import At, read_zone
from windlass.core.duration import Duration
from windlass.core.workflows.step import Condition
from windlass.cron.context import EntryId
from windlass.cron.dependencies import read_condition
from windlass.cron.entry import After, EntryOptions, LiveEntry, Missed, When
from windlass.cron.errors import Key
from windlass.cron.job import Job, Wrapper, wrapped
from windlass.cron.wrappers import max_instances
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
            raise Invalid("max_entries and retention must be 0 (no limit) or more, threads and search_years 1 or more")
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


def make_entry(
    id_: EntryId, spec: When, job: Job, options: EntryOptions, settings: CronOptions, workflow: str | None = None
) -> LiveEntry:
    """Return a new entry, not yet registered. Checks everything that does not depend on other entries."""
    _refuse_unknown(options)
    name, instances = options.get("name"), options.get("max_instances")
    wrappers = (*settings.wrappers, *read_wrappers(options.get("wrappers", ())))
    if instances is not None:
        wrappers = (max_instances(instances), *wrappers)
    args, kwargs = _args(options.get("args", ())), _kwargs(options.get("kwargs", {}))
    schedule = settings.schedule(spec, name)
    return LiveEntry(
        id=id_,
        name=name,
        schedule=schedule,
        job=job,
        call=wrapped(job, wrappers, args, kwargs),
        wrappers=wrappers,
        workflow=workflow,
        tags=_tags(options.get("tags", ())),
        run_once=options.get("run_once", False) or isinstance(schedule.rule, At),
        run_immediately=options.get("run_immediately", False),
        missed=_missed(options.get("missed", Missed.LATE)),
        grace=_grace(options.get("grace")),
        paused=options.get("paused", False),
        args=args,
        kwargs=kwargs,
        max_instances=instances,
        options=options,
        prev=_aware(options.get("prev")),
    )


def refuse_past(entry: LiveEntry, now: datetime) -> None:
    """Raise `Invalid` for a single time in the past, unless the `missed` policy still runs it."""
    rule = entry.schedule.rule
    if isinstance(rule, At) and rule.moment <= now and entry.missed not in (Missed.ONCE, Missed.ALL):
        raise Invalid(
            f"spec is {rule.moment}, which has passed; give a time after {now}, or missed='once' to run it at once",
            field="spec",
        )


def read_after(after: After) -> list[tuple[Key, Condition]]:
    """Return the parents given by `after=` with their conditions."""
    if isinstance(after, Mapping):
        return [(_key(parent), read_condition(condition)) for parent, condition in after.items()]
    parents = [after] if isinstance(after, str | int) or not isinstance(after, Iterable) else after
    return [(_key(parent), Condition.SUCCESS) for parent in parents]


def read_wrappers(wrappers: Wrapper | Iterable[Wrapper]) -> tuple[Wrapper, ...]:
    """Return one wrapper or several as a tuple."""
    if callable(wrappers):
        return (wrappers,)
    if not isinstance(wrappers, Iterable):
        raise Invalid(f"wrappers is {wrappers!r}; it must be a list of wrappers", field="wrappers")
    return tuple(wrappers)


def _key(parent: object) -> Key:
    if isinstance(parent, bool) or not isinstance(parent, str | int):
        raise Invalid(f"after names {parent!r}; a parent is an entry's name or id", field="after")
    return parent


def _refuse_unknown(options: EntryOptions) -> None:
    if unknown := set(options) - EntryOptions.__optional_keys__:
        raise Invalid(f"an entry has no option {', '.join(sorted(unknown))}", field=min(unknown))


def _args(args: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(args, str | bytes | Mapping) or not isinstance(args, Iterable):
        raise Invalid(f"args is {args!r}; it must be a list or tuple of arguments", field="args")
    return tuple(args)


def _kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(kwargs, Mapping) or not all(isinstance(name, str) for name in kwargs):
        raise Invalid(f"kwargs is {kwargs!r}; it must be a mapping of argument names to values", field="kwargs")
    return dict(kwargs)


def _tags(tags: Iterable[str]) -> frozenset[str]:
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise Invalid(f"tags is {tags!r}; it must be a list of strings, such as [{tags!r}]", field="tags")
    return frozenset(tags)


def _missed(policy: str) -> Missed:
    try:
        return Missed(policy)
    except ValueError:
        raise Invalid(f"missed is {policy!r}; allowed are {', '.join(Missed)}", field="missed") from None


def _grace(grace: duration.Duration | None) -> timedelta | None:
    if grace is None:
        return None
    span = duration.read(grace, field="grace")
    if span < timedelta():
        raise Invalid(f"grace is {grace!r}; it must not be negative", field="grace")
    return span


def _aware(prev: datetime | None) -> datetime | None:
    if prev is not None and prev.utcoffset() is None:
        raise Invalid(f"prev is {prev}, without a time zone; it must be an aware datetime", field="prev")
    return prev
