"""Groups entries into future workflows of the durable engine, and lists the reasons why they would behave differently.

Pure. Entries connected by edges form a group; each reason has a fix.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from windlass.core.cron.expression import parse
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.cron.syntax import CLASSIC, At, Every, split_zone
from windlass.core.definition.fields import step_name_mistake, workflow_name_mistake
from windlass.core.workflows.workflow import CronTrigger
from windlass.cron.context import EntryId
from windlass.cron.dependencies import Dependency
from windlass.cron.entry import Entry, Missed
from windlass.cron.job import LocalWrapper, Wrapper
from windlass.cron.recovery import CircuitBreaker
from windlass.errors import InvalidCron

Reason = tuple[str, str]  # (path, problem)
ONLY_STEP = "run"  # the step name of an entry without edges and workflow
CATCH_UP = {Missed.LATE: CatchUp.NONE, Missed.SKIP: CatchUp.NONE, Missed.ONCE: CatchUp.ONE, Missed.ALL: CatchUp.ALL}
SKIP, DELAY = "skip_if_running", "delay_if_running"
Edges = Mapping[EntryId, Sequence[Dependency]]

INSTEAD = {
    "skip_if_running": "remove it; a scheduled entry without edges may keep it",
    "delay_if_running": "remove it; an entry without edges may keep it",
    "max_instances": "remove it, or use max_instances=1 on a scheduled entry without edges",
    "max_concurrent": "remove it and set `concurrency` on the workflow or on its handlers (app.job)",
    "max_concurrent_skip": "remove it and set `overlap` on the workflow, or check in the job",
    "circuit_breaker": "remove it and check in the job",
}


@dataclass(frozen=True)
class Subgraph:
    entries: tuple[Entry, ...]  # in the order they were added
    edges: Edges

    @cached_property
    def roots(self) -> list[Entry]:
        return [entry for entry in self.entries if not self.edges[entry.id]]

    @property
    def root(self) -> Entry:
        return self.roots[0]

    @property
    def name(self) -> str | None:
        """Return the workflow's name; entries connected with `add_dependency` use the name of their root."""
        return self.root.workflow or self.root.name

    @property
    def alone(self) -> bool:
        """Whether this is a single entry that has no edges and is not part of a workflow."""
        return len(self.entries) == 1 and self.root.workflow is None

    def step(self, entry: Entry) -> str:
        return ONLY_STEP if self.alone else str(entry.name)

    def type(self, entry: Entry) -> str:
        """Return the job type for this entry."""
        return f"{'cron' if self.alone else self.name}.{entry.name}"

    @property
    def trigger(self) -> CronTrigger | None:
        """Return the root's schedule as a trigger; None for `@triggered`."""
        schedule = self.root.schedule
        if schedule.triggered:
            return None
        overlap = Overlap.SKIP if SKIP in self.rules else Overlap.ALLOW
        line = split_zone(schedule.text, CLASSIC)[1]
        return CronTrigger(line, schedule.zone.key, overlap=overlap, catch_up=CATCH_UP[self.root.missed])

    @property
    def concurrency(self) -> int | None:
        return 1 if DELAY in self.rules else None

    @cached_property
    def rules(self) -> frozenset[str]:
        """Return the wrappers of a single entry that have an equivalent in the engine: one run is one start."""
        known = {DELAY} if self.root.schedule.triggered else {SKIP, DELAY}
        return frozenset(filter(None, map(local_wrapper, self.root.wrappers))) & known if self.alone else frozenset()

    def wrappers(self, entry: Entry) -> tuple[Wrapper, ...]:
        """Return the wrappers that stay on the job."""
        return tuple(wrapper for wrapper in entry.wrappers if local_wrapper(wrapper) not in self.rules)


def local_wrapper(wrapper: Wrapper) -> str | None:
    """Return the name of a wrapper that keeps state about other starts, which works in one process only."""
    if isinstance(wrapper, CircuitBreaker):
        return "circuit_breaker"
    return wrapper.name if isinstance(wrapper, LocalWrapper) else None


def subgraphs(entries: Iterable[Entry], edges: Edges) -> list[Subgraph]:
    """Split entries into connected groups (union-find). Steps of one workflow belong together even without edges."""
    entries = sorted(entries, key=lambda entry: entry.id)
    leader: dict[EntryId | str, EntryId | str] = {}

    def head(key: EntryId | str) -> EntryId | str:
        while leader.setdefault(key, key) != key:
            leader[key] = key = leader[leader[key]]
        return key

    for entry in entries:
        with_it: list[EntryId | str] = [edge.parent for edge in edges[entry.id]]
        for other in with_it if entry.workflow is None else [*with_it, entry.workflow]:
            leader[head(entry.id)] = head(other)
    groups: dict[EntryId | str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(head(entry.id), []).append(entry)
    return [Subgraph(tuple(group), edges) for group in groups.values()]


def reasons(parts: Sequence[Subgraph]) -> Iterator[Reason]:
    """Yield all reasons in the order of the entries."""
    names = Counter(part.name for part in parts)
    for part in parts:
        yield from _of_whole(part)
        if part.name is not None and names[part.name] > 1:
            names[part.name] = 0  # report a duplicate name once
            yield part.name, "two workflows would have this name: rename an entry or a workflow"
        for entry in part.entries:
            where = label(entry) if part.alone else f"{part.name}.{label(entry)}"
            for what in (*_of_options(entry), *_of_wrappers(part, entry), *_of_times(part, entry)):
                yield where, what


def label(entry: Entry) -> str:
    return entry.name if entry.name is not None else f"#{entry.id}"


def _of_whole(part: Subgraph) -> Iterator[Reason]:
    for entry in part.entries:
        if entry.name is None:
            yield label(entry), "it has no name, and workflows and steps need one: name it"
        elif not part.alone and (mistake := step_name_mistake(entry.name)):
            yield f"{part.name}.{entry.name}", mistake
    if part.name is not None and (mistake := workflow_name_mistake(part.name)):
        yield part.name, mistake
    if len(part.roots) > 1:
        roots = ", ".join(map(label, part.roots))
        yield (
            str(part.name),
            f"it has {len(part.roots)} roots ({roots}): here each starts its own execution, but a run starts all of "
            "them: make a workflow of each, or put one step before them",
        )


def _of_options(entry: Entry) -> Iterator[str]:
    if entry.run_once:
        yield "it runs once and is removed, but a workflow stays: remove run_once and start a run with app.start"
    if entry.run_immediately:
        yield "it runs when it is added, but a workflow when it is due: remove run_immediately and use app.start"
    if entry.paused:
        yield "it is paused, but steps cannot be: resume it or remove it (app.enable_workflow disables a workflow)"
    if entry.grace is not None and entry.missed in (Missed.ONCE, Missed.ALL):
        yield "missed ticks run however old they are: remove `grace`"


def _of_wrappers(part: Subgraph, entry: Entry) -> Iterator[str]:
    for name in map(local_wrapper, part.wrappers(entry)):
        if name is not None:
            yield f"{name} counts starts in one process, but there may be several workers: {INSTEAD[name]}"


def _of_times(part: Subgraph, entry: Entry) -> Iterator[str]:
    schedule = entry.schedule
    if schedule.triggered:
        return
    if part.edges[entry.id]:
        yield "it has parents and its own schedule, but a run starts at the root: move it to its own workflow"
    if isinstance(schedule.rule, At):
        return  # runs once: already reported by `_of_options`
    if isinstance(schedule.rule, Every):
        yield f"{schedule.text!r} counts from the start of this process: use a cron expression such as */5 * * * *"
        return
    if schedule.zone.key is None:
        yield "its time zone has no name: use one of the IANA zones"
        return
    try:
        there = parse(schedule.text, dialect=CLASSIC, zone=schedule.zone)
    except InvalidCron as error:
        yield f"stored crons do not support {schedule.text!r} ({error}): write it without years and H"
        return
    if (there.rule, there.gap) != (schedule.rule, schedule.gap):
        yield (
            f"{schedule.text!r} would have other times: stored crons match if either day field matches, here both must "
            "(or as the dialect says): restrict one field and check the other in the job, or use Cron(dialect=CLASSIC)"
        )
