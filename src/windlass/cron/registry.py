"""Creates, adds, changes and removes entries, edges and workflows. The order of the checks is part of the API."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

from windlass.core import duration
from windlass.core.cron.syntax import At
from windlass.core.workflows.step import Condition, compensation_name
from windlass.cron.builder import TRIGGERED, Workflow, WorkflowStep
from windlass.cron.context import EntryId
from windlass.cron.dependencies import Dependency, read_condition
from windlass.cron.entry import After, ChangeOptions, Entry, EntryOptions, LiveEntry, Missed, When, by_next
from windlass.cron.errors import DependencyInUse, EntryNotFound, EntryPaused, InvalidName, Key, NotRunning
from windlass.cron.executions import Triggered
from windlass.cron.job import Job, Wrapper, wrapped
from windlass.cron.scheduler import Scheduler
from windlass.cron.wrappers import max_instances
from windlass.errors import Invalid

UNKNOWN = EntryId(0)
REWRAPS = {"args", "kwargs", "wrappers", "max_instances"}  # options that are part of the wrapped call


class Registry:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler, self._entries = scheduler, scheduler.entries

    def add(self, spec: When, job: Job, options: EntryOptions) -> EntryId:
        entry = self._new(spec, job, options)
        refuse_past(entry, self._scheduler.clock.now())
        edges = self._parents(options)
        self._entries.check_name(entry.name)
        self._entries.check_room(1)
        self._entries.add(entry)
        self._scheduler.dependencies.replace(entry.id, edges)  # no cycle: nothing depends on the new entry yet
        self._scheduler.admit([entry])
        return entry.id

    def upsert(self, spec: When, job: Job, options: EntryOptions) -> EntryId:
        name = options.get("name")
        if name is None:
            raise InvalidName(name, "is missing: an entry to add or update is found by its name")
        entry = self._entries.find(name)
        if entry is None:
            return self.add(spec, job, options)
        self._change(entry, spec, job, options)
        return entry.id

    def update(self, key: Key, spec: When | None, job: Job | None, changes: ChangeOptions) -> None:
        self._change(self._entries.get(key), spec, job, changes)

    def remove(self, key: Key) -> int:
        """Remove an entry or a workflow; return the number of removed entries."""
        return self._removed(self._entries.of(key))

    def remove_by_tag(self, tag: str) -> int:
        return self._removed(self._entries.tagged(tag))

    def set_paused(self, key: Key, paused: bool) -> None:
        for entry in self._entries.some(key):
            entry.paused = paused

    def trigger(self, key: Key) -> Triggered:
        if not self._scheduler.active:
            raise NotRunning
        entry = self._root(key)
        if entry.paused:
            raise EntryPaused(key)
        return self._scheduler.trigger(entry)

    def add_dependency(self, child: Key, parent: Key, condition: Condition | str) -> None:
        edge_condition = read_condition(condition)
        self._scheduler.dependencies.add(self._entries.get(child).id, self._entries.get(parent).id, edge_condition)

    def remove_dependency(self, child: Key, parent: Key) -> None:
        """Remove the edges between two entries. Raise for unknown names; ignore unknown ids: those entries are gone."""
        child_id, parent_id = (
            self._entries.get(key).id if isinstance(key, str) else EntryId(key) for key in (child, parent)
        )
        if not any(edge.parent == parent_id for edge in self._scheduler.dependencies.of(child_id)):
            return
        self._refuse_in_use(child, child_id, parent, parent_id)
        self._scheduler.dependencies.remove(child_id, parent_id)

    def add_workflow(self, workflow: Workflow) -> list[EntryId]:
        """Register a workflow. All checks come before the first change, so there is nothing to roll back."""
        workflow.check()
        now = self._scheduler.clock.now()
        entries = {step.name: self._step(workflow, step) for step in workflow}
        undo = {
            step.name: self._new(TRIGGERED, step.compensation, {"name": compensation_name(step.name)}, workflow.name)
            for step in workflow
            if step.compensation is not None
        }
        compensations = [(entries[name].id, entry.id) for name, entry in undo.items()]
        entries |= {compensation_name(name): entry for name, entry in undo.items()}
        for name, entry in entries.items():
            self._entries.check_name(name)
            refuse_past(entry, now)
        self._entries.check_room(len(entries))
        edges = [
            (entries[step.name].id, entries[parent].id, condition)
            for step in workflow
            for parent, condition in workflow.edges(step)
        ]
        for entry in entries.values():
            self._entries.add(entry)
        for edge in edges:
            self._scheduler.dependencies.add(*edge)
        for pair in compensations:
            self._scheduler.dependencies.compensate(*pair)
        self._scheduler.admit(entries.values())
        return [entry.id for entry in entries.values()]

    def entry(self, key: Key) -> Entry | None:
        entry = self._entries.find(key)
        return None if entry is None else self._snapshot(entry)

    def entries(self, tag: str | None) -> list[Entry]:
        """Return snapshots sorted by next time; entries without one come last."""
        return by_next(map(self._snapshot, self._entries if tag is None else self._entries.tagged(tag)))

    def id_of(self, key: Key) -> EntryId:
        """Return the id for a key. Ids are not checked: jobs of a removed entry may still be running."""
        if not isinstance(key, str):
            return EntryId(key)
        entry = self._entries.find(key)
        return UNKNOWN if entry is None else entry.id

    def _snapshot(self, entry: LiveEntry) -> Entry:
        snapshot, scheduler = entry.snapshot(), self._scheduler
        if scheduler.active:
            return snapshot
        now = scheduler.clock.now()
        first = now if entry.run_immediately else entry.schedule.next(now, years=scheduler.options.search_years)
        return replace(snapshot, next=first)

    def _change(self, entry: LiveEntry, spec: When | None, job: Job | None, changes: ChangeOptions) -> None:
        options = EntryOptions(**{**entry.options, **changes, "name": entry.name})
        changed = self._new(entry.schedule if spec is None else spec, entry.job if job is None else job, options)
        if spec is not None:
            refuse_past(changed, self._scheduler.clock.now())
        if "after" in changes:
            self._replace_parents(entry, changes)
        self._entries.retag(entry, changed.tags)
        entry.replace_definition(changed, changes, rewrap=job is not None or not REWRAPS.isdisjoint(changes))
        if job is not None:
            self._scheduler.runner.cancel(entry.id)
        if spec is not None or "run_immediately" in changes:
            self._scheduler.reschedule(entry)

    def _replace_parents(self, entry: LiveEntry, changes: ChangeOptions) -> None:
        edges, graph = self._parents(changes), self._scheduler.dependencies
        for edge in graph.of(entry.id):
            if edge not in edges:
                self._refuse_in_use(entry.label, entry.id, edge.parent, edge.parent)
        graph.replace(entry.id, edges)

    def _refuse_in_use(self, child: Key, child_id: EntryId, parent: Key, parent_id: EntryId) -> None:
        if execution_id := self._scheduler.executions.using(child_id, parent_id):
            raise DependencyInUse(child, parent, execution_id)

    def _removed(self, entries: Iterable[LiveEntry]) -> int:
        removed = list(entries)
        self._scheduler.remove(removed)
        return len(removed)

    def _root(self, key: Key) -> LiveEntry:
        """Return the entry that a trigger of this key starts; for a workflow, its root."""
        entries = self._entries.of(key)
        roots = [entry for entry in entries if len(entries) == 1 or not self._scheduler.dependencies.of(entry.id)]
        if not roots:
            raise EntryNotFound(key)
        if len(roots) > 1:
            names = ", ".join(entry.label for entry in roots)
            raise Invalid(f"workflow {key} has {len(roots)} roots: trigger one of them ({names})", field="key")
        return roots[0]

    def _parents(self, options: ChangeOptions) -> list[Dependency]:
        return [
            Dependency(self._entries.get(parent).id, condition)
            for parent, condition in read_after(options.get("after", ()))
        ]

    def _step(self, workflow: Workflow, step: WorkflowStep) -> LiveEntry:
        entry = self._new(step.spec, step.job, cast(EntryOptions, {**step.options, "name": step.name}), workflow.name)
        workflow.check_schedule(step, entry.schedule)
        return entry

    def _new(self, spec: When, job: Job, options: EntryOptions, workflow: str | None = None) -> LiveEntry:
        """Return a new entry, not yet registered. Checks everything that does not depend on other entries."""
        id_, settings = self._entries.new_id(), self._scheduler.options
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
        raise Invalid(f"missed is {policy!r}; allowed: {', '.join(Missed)}", field="missed") from None


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
