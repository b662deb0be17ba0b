"""Creates entries from user options; an invalid option raises an error that names it."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from windlass.core import duration
from windlass.core.cron.syntax import At
from windlass.core.workflows.step import Condition
from windlass.cron.entry import After, EntryOptions, LiveEntry, Missed, When
from windlass.cron.errors import Key
from windlass.cron.executions.context import EntryId
from windlass.cron.executions.result import read_condition
from windlass.cron.executions.wrappers import max_instances
from windlass.cron.job import Job, Wrapper, wrapped
from windlass.cron.options import CronOptions
from windlass.errors import Invalid


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
