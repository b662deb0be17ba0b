"""An entry: a job, when it runs, and what is known about it. Inside it changes; outside only snapshots are seen."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, TypedDict

from windlass.core.cron import Cron as Spec
from windlass.cron.context import EntryId
from windlass.cron.job import Call, Job, Wrapper


class Missed(StrEnum):
    """What becomes of ticks that passed while nobody was there: between `prev` and the moment the entry is taken up."""

    SKIP = "skip"
    ONCE = "once"  # the latest of them
    ALL = "all"  # each, oldest first, at most 100


class StepOptions(TypedDict, total=False):
    """What can be said about a step's entry besides its name, its spec and its job."""

    tags: Iterable[str]
    run_once: bool
    run_immediately: bool
    missed: Missed | Literal["skip", "once", "all"]
    prev: datetime | None
    grace: timedelta | None
    paused: bool
    wrappers: Iterable[Wrapper]


class EntryOptions(StepOptions, total=False):
    """The same, and its name."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry as it was when you asked. `next` is None before the scheduler runs and for `@triggered`."""

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
    workflow: str | None = None  # that it was added with
    run_immediately: bool = False  # and has not yet
    missed: Missed = Missed.SKIP
    grace: timedelta | None = None
    wrappers: tuple[Wrapper, ...] = field(default=(), repr=False)  # the scheduler's and its own


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
    missed: Missed = Missed.SKIP
    grace: timedelta | None = None
    paused: bool = False
    next: datetime | None = None
    prev: datetime | None = None

    @property
    def label(self) -> str:
        return self.name if self.name is not None else f"#{self.id}"

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
        )


def by_next(entries: Iterable[LiveEntry]) -> list[LiveEntry]:
    """The next to run first, those without a time last."""
    return sorted(entries, key=lambda entry: (entry.next is None, entry.next and entry.next.timestamp(), entry.id))
