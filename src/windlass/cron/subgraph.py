"""Groups entries connected by edges into future workflows of the durable engine. Pure.

`migration_check` lists the reasons why a group cannot be migrated.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from windlass.core.cron.expression import CLASSIC
from windlass.core.cron.schedule import CatchUp, Overlap
from windlass.core.cron.syntax import split_zone
from windlass.core.workflows.workflow import CronTrigger
from windlass.cron.dependencies import Dependency
from windlass.cron.entry import Entry, Missed
from windlass.cron.executions.breaker import CircuitBreaker
from windlass.cron.executions.context import EntryId
from windlass.cron.job import LocalWrapper, Wrapper

ONLY_STEP = "run"  # the step name of an entry without edges and workflow
CATCH_UP = {Missed.LATE: CatchUp.NONE, Missed.SKIP: CatchUp.NONE, Missed.ONCE: CatchUp.ONE, Missed.ALL: CatchUp.ALL}
SKIP, DELAY = "skip_if_running", "delay_if_running"

Edges = Mapping[EntryId, Sequence[Dependency]]


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
        return frozenset(filter(None, map(local, self.root.wrappers))) & known if self.alone else frozenset()

    def wrappers(self, entry: Entry) -> tuple[Wrapper, ...]:
        """Return the wrappers that stay on the job."""
        return tuple(wrapper for wrapper in entry.wrappers if local(wrapper) not in self.rules)


def local(wrapper: Wrapper) -> str | None:
    """Return the name of a wrapper that keeps state about other starts, which works in one process only."""
    if isinstance(wrapper, CircuitBreaker):
        return "circuit_breaker"
    return wrapper.name if isinstance(wrapper, LocalWrapper) else None


def parts(entries: Iterable[Entry], edges: Edges) -> list[Subgraph]:
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
    found: dict[EntryId | str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(head(entry.id), []).append(entry)
    return [Subgraph(tuple(some), edges) for some in found.values()]
