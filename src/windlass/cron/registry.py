"""Adding, changing and removing entries, edges and workflows: the checks, in the order users can rely on."""

from collections.abc import Iterable
from datetime import datetime

from windlass.core.cron import Cron as Spec
from windlass.core.step import Condition
from windlass.cron.builder import Workflow, WorkflowStep
from windlass.cron.context import EntryId
from windlass.cron.entry import EntryOptions, LiveEntry, Missed
from windlass.cron.errors import DependencyInUse, EntryPaused, InvalidName, Key, NotRunning
from windlass.cron.job import Job, wrapped
from windlass.cron.result import read_condition
from windlass.cron.scheduler import Scheduler
from windlass.errors import Invalid

NOBODY = EntryId(0)


class Registry:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._entries = scheduler, scheduler.entries

    def add(self, spec: str | Spec, job: Job, options: EntryOptions) -> EntryId:
        entry = self._made(spec, job, options)
        self._entries.check_name(entry.name)
        self._entries.check_room(1)
        self._entries.add(entry)
        self._scheduler.take_up([entry])
        return entry.id

    def upsert(self, spec: str | Spec, job: Job, options: EntryOptions) -> EntryId:
        name = options.get("name")
        if name is None:
            raise InvalidName(name, "is missing: an entry to add or update is found by its name")
        entry = self._entries.find(name)
        if entry is None:
            return self.add(spec, job, options)
        self.update(name, spec, job)
        return entry.id

    def update(self, key: Key, spec: str | Spec | None, job: Job | None) -> None:
        entry = self._entries.get(key)
        schedule = None if spec is None else self._scheduler.options.schedule(spec, entry.name)
        if job is not None:
            entry.call = wrapped(job, entry.wrappers)
            entry.job = job
            self._scheduler.runner.cancel(entry.id)
        if schedule is not None:
            entry.schedule = schedule
            self._scheduler.reschedule(entry)

    def remove(self, entries: Iterable[LiveEntry | None]) -> int:
        """How many of them there were."""
        gone = [entry for entry in entries if entry is not None]
        for entry in gone:
            self._scheduler.remove(entry)
        return len(gone)

    def set_paused(self, key: Key, paused: bool) -> None:
        self._entries.get(key).paused = paused

    def trigger(self, key: Key) -> str:
        if not self._scheduler.active:
            raise NotRunning
        entry = self._entries.get(key)
        if entry.paused:
            raise EntryPaused(key)
        return self._scheduler.dispatch(entry, self._scheduler.clock.now())

    def add_dependency(self, child: Key, parent: Key, condition: Condition | str) -> None:
        asked = read_condition(condition)
        self._scheduler.dependencies.add(self._entries.get(child).id, self._entries.get(parent).id, asked)

    def remove_dependency(self, child: Key, parent: Key) -> None:
        """Unknown names are mistakes; unknown ids are entries that are gone, and so are their edges."""
        child_id, parent_id = (
            self._entries.get(key).id if isinstance(key, str) else EntryId(key) for key in (child, parent)
        )
        if not any(edge.parent == parent_id for edge in self._scheduler.dependencies.of(child_id)):
            return
        if execution_id := self._scheduler.executions.using(child_id, parent_id):
            raise DependencyInUse(child, parent, execution_id)
        self._scheduler.dependencies.remove(child_id, parent_id)

    def add_workflow(self, workflow: Workflow) -> list[EntryId]:
        """Everything that can fail comes before the first change, so there is nothing to roll back."""
        workflow.check()
        made = {step.name: self._step(step, workflow.name) for step in workflow}
        for name in made:
            self._entries.check_name(name)
        self._entries.check_room(len(made))
        edges = [
            (made[step.name].id, made[parent].id, read_condition(condition))
            for step in workflow
            for parent, condition in workflow.edges(step)
        ]
        for entry in made.values():
            self._entries.add(entry)
        for edge in edges:
            self._scheduler.dependencies.add(*edge)
        self._scheduler.take_up(made.values())
        return [entry.id for entry in made.values()]

    def find(self, key: Key) -> LiveEntry | None:
        return self._entries.find(key)

    def chosen(self, tag: str | None) -> Iterable[LiveEntry]:
        return self._entries if tag is None else self._entries.tagged(tag)

    def id_of(self, key: Key) -> EntryId:
        """An id is taken as it is: the jobs of an entry that is gone can still be asked about."""
        if not isinstance(key, str):
            return EntryId(key)
        entry = self._entries.find(key)
        return NOBODY if entry is None else entry.id

    def _step(self, step: WorkflowStep, workflow: str) -> LiveEntry:
        return self._made(step.spec, step.job, EntryOptions(**step.options, name=step.name), workflow)

    def _made(self, spec: str | Spec, job: Job, options: EntryOptions, workflow: str | None = None) -> LiveEntry:
        _refuse_unknown(options)
        name, settings = options.get("name"), self._scheduler.options
        wrappers = (*settings.wrappers, *options.get("wrappers", ()))
        call = wrapped(job, wrappers)
        return LiveEntry(
            id=self._entries.new_id(),
            name=name,
            schedule=settings.schedule(spec, name),
            job=job,
            call=call,
            wrappers=wrappers,
            workflow=workflow,
            tags=frozenset(options.get("tags", ())),
            run_once=options.get("run_once", False),
            run_immediately=options.get("run_immediately", False),
            missed=_missed(options.get("missed", Missed.SKIP)),
            grace=options.get("grace"),
            paused=options.get("paused", False),
            prev=_aware(options.get("prev")),
        )


def _refuse_unknown(options: EntryOptions) -> None:
    if unknown := set(options) - EntryOptions.__optional_keys__:
        raise Invalid(f"an entry has no option {', '.join(sorted(unknown))}", field=min(unknown))


def _missed(policy: str) -> Missed:
    try:
        return Missed(policy)
    except ValueError:
        raise Invalid(f"missed is {policy!r}; allowed are {', '.join(Missed)}", field="missed") from None


def _aware(prev: datetime | None) -> datetime | None:
    if prev is not None and prev.utcoffset() is None:
        raise Invalid(f"prev is {prev}, without a time zone; it must be an aware datetime", field="prev")
    return prev
