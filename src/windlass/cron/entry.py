"""An entry: a job, its schedule and its options; and the collection of all entries.

The scheduler changes `LiveEntry`; users get `Entry` snapshots.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import count
from typing import Any, Literal, TypedDict

from windlass.core.cron.expression import Cron as Spec
from windlass.core.duration import Duration
from windlass.core.workflows.step import Condition
from windlass.cron.context import EntryId
from windlass.cron.errors import DuplicateName, EntryNotFound, InvalidName, Key, MaxEntriesReached
from windlass.cron.job import Call, Job, Wrapper
from windlass.cron.observers import JobCompleted


class Missed(StrEnum):
    """The policy for missed ticks: ticks since `prev` when the scheduler starts, and ticks that passed while the
    process was suspended or blocked. With `grace`, ticks older than that do not run."""

    LATE = "late"  # the default: none at the start; after a suspension the latest runs, late
    SKIP = "skip"  # none at the start; after a suspension the latest, if it is at most a minute (or `grace`) late
    ONCE = "once"  # the latest of them, in both cases
    ALL = "all"  # each, oldest first, at most 100


After = Key | Iterable[Key] | Mapping[Key, Condition | str]  # parents; success unless a mapping gives another
When = str | Spec | datetime | timedelta  # a cron expression, a parsed one, a single time, an interval


class StepOptions(TypedDict, total=False):
    """The options of a step's entry besides its name, its spec and its job."""

    args: Iterable[Any]
    kwargs: Mapping[str, Any]
    tags: Iterable[str]
    run_once: bool
    run_immediately: bool
    missed: Missed | Literal["late", "skip", "once", "all"]
    prev: datetime | None
    grace: Duration | None
    paused: bool
    max_instances: int | None
    wrappers: Wrapper | Iterable[Wrapper]


class ChangeOptions(StepOptions, total=False):
    """`StepOptions` and the entry's parents."""

    after: After


class EntryOptions(ChangeOptions, total=False):
    """`ChangeOptions` and the entry's name."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A snapshot of an entry. `next` is None for `@triggered`; while the scheduler is stopped it is the time the entry
    would have if the scheduler were started now."""

    id: EntryId
    name: str | None
    spec: str
    tags: frozenset[str]
    next: datetime | None
    prev: datetime | None
    paused: bool
    triggered: bool
    run_once: bool
    schedule: Spec = field(repr=False)
    job: Job = field(repr=False)
    workflow: str | None = None  # the workflow it was added with
    run_immediately: bool = False  # cleared once the immediate run is scheduled
    missed: Missed = Missed.LATE
    grace: timedelta | None = None
    wrappers: tuple[Wrapper, ...] = field(default=(), repr=False)  # the scheduler's wrappers, then the entry's own
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_instances: int | None = None
    last_run: JobCompleted | None = field(default=None, repr=False)  # the last run that ended


@dataclass(slots=True, eq=False, kw_only=True)
class LiveEntry:
    id: EntryId
    name: str | None
    schedule: Spec
    job: Job
    call: Call
    wrappers: tuple[Wrapper, ...] = ()
    workflow: str | None = None
    tags: frozenset[str] = frozenset()
    run_once: bool = False
    run_immediately: bool = False
    missed: Missed = Missed.LATE
    grace: timedelta | None = None
    paused: bool = False
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_instances: int | None = None
    options: EntryOptions = field(default_factory=EntryOptions)  # as given by the caller
    next: datetime | None = None
    prev: datetime | None = None
    last_run: JobCompleted | None = None

    @property
    def label(self) -> str:
        return self.name if self.name is not None else f"#{self.id}"

    def replace_definition(self, other: "LiveEntry", changes: ChangeOptions, *, rewrap: bool) -> None:
        """Take the definition of `other`, which has the old options plus `changes`; keep the runtime state."""
        self.schedule, self.options = other.schedule, other.options
        self.run_once, self.missed, self.grace = other.run_once, other.missed, other.grace
        if rewrap:  # only if needed: new wrappers would lose the state of the old ones
            self.job, self.call, self.wrappers = other.job, other.call, other.wrappers
            self.args, self.kwargs, self.max_instances = other.args, other.kwargs, other.max_instances
        if "paused" in changes:
            self.paused = other.paused
        if "prev" in changes:
            self.prev = other.prev
        if "run_immediately" in changes:
            self.run_immediately = other.run_immediately

    def snapshot(self) -> Entry:
        return Entry(
            id=self.id,
            name=self.name,
            spec=self.schedule.text,
            tags=self.tags,
            next=self.next,
            prev=self.prev,
            paused=self.paused,
            triggered=self.schedule.triggered,
            run_once=self.run_once,
            schedule=self.schedule,
            job=self.job,
            workflow=self.workflow,
            run_immediately=self.run_immediately,
            missed=self.missed,
            grace=self.grace,
            wrappers=self.wrappers,
            args=self.args,
            kwargs=dict(self.kwargs),
            max_instances=self.max_instances,
            last_run=self.last_run,
        )


def by_next(entries: Iterable[Entry]) -> list[Entry]:
    """Return the entries sorted by next time; entries without one come last."""
    return sorted(entries, key=lambda entry: (entry.next is None, entry.next and entry.next.timestamp(), entry.id))


class Entries:
    """All entries, indexed by id, name and tag."""

    def __init__(self, limit: int) -> None:
        self._limit = limit  # 0: no limit
        self._ids = count(1)
        self._by_id: dict[EntryId, LiveEntry] = {}
        self._by_name: dict[str, LiveEntry] = {}
        self._by_tag: dict[str, dict[EntryId, LiveEntry]] = {}

    def __iter__(self) -> Iterator[LiveEntry]:
        return iter(list(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def new_id(self) -> EntryId:
        return EntryId(next(self._ids))

    def check_name(self, name: str | None) -> None:
        if name is None:
            return
        if not isinstance(name, str) or not name or name.startswith("#"):
            raise InvalidName(name, "must be a string that does not start with '#', which marks entries without a name")
        if name in self._by_name:
            raise DuplicateName(name)

    def check_room(self, more: int) -> None:
        if self._limit and len(self) + more > self._limit:
            raise MaxEntriesReached(self._limit)

    def add(self, entry: LiveEntry) -> None:
        self._by_id[entry.id] = entry
        if entry.name is not None:
            self._by_name[entry.name] = entry
        self._tag(entry, entry.tags)

    def remove(self, entry: LiveEntry) -> None:
        del self._by_id[entry.id]
        if entry.name is not None:
            del self._by_name[entry.name]
        self._untag(entry)

    def retag(self, entry: LiveEntry, tags: frozenset[str]) -> None:
        self._untag(entry)
        self._tag(entry, tags)

    def _tag(self, entry: LiveEntry, tags: frozenset[str]) -> None:
        entry.tags = tags
        for tag in tags:
            self._by_tag.setdefault(tag, {})[entry.id] = entry

    def _untag(self, entry: LiveEntry) -> None:
        for tag in entry.tags:
            del self._by_tag[tag][entry.id]
            if not self._by_tag[tag]:
                del self._by_tag[tag]

    def find(self, key: Key) -> LiveEntry | None:
        return self._by_name.get(key) if isinstance(key, str) else self._by_id.get(EntryId(key))

    def get(self, key: Key) -> LiveEntry:
        entry = self.find(key)
        if entry is None:
            raise EntryNotFound(key)
        return entry

    def of(self, key: Key) -> list[LiveEntry]:
        """Return the entry with this id or name, otherwise all entries of the workflow with this name."""
        entry = self.find(key)
        if entry is not None:
            return [entry]
        return [entry for entry in self if entry.workflow is not None and entry.workflow == key]

    def some(self, key: Key) -> Iterable[LiveEntry]:
        """Return the same as `of`; raise `EntryNotFound` if there are none."""
        entries = self.of(key)
        if not entries:
            raise EntryNotFound(key)
        return entries

    def tagged(self, tag: str) -> list[LiveEntry]:
        return list(self._by_tag.get(tag, {}).values())
