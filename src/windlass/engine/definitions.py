"""Caches workflow versions and step templates, and finds the live version of a name.

Versions never change, so cache entries are evicted only to limit the size.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property

from windlass.core.compositions import read
from windlass.core.definition.fields import workflow_name_mistake
from windlass.core.expressions import expression
from windlass.core.expressions.expression import Expression
from windlass.core.expressions.scope import Facts, Path, source_path
from windlass.core.jobs.spec import OWN_QUEUE
from windlass.core.json_value import encode
from windlass.core.launches import pool_queue
from windlass.core.runs.command import Enqueue
from windlass.core.runs.decide import decide
from windlass.core.runs.event import Begun
from windlass.core.runs.run import Run, RunState
from windlass.core.workflows.graph import Plan
from windlass.core.workflows.step import CommandAction, Foreach, HttpAction, JobAction, Parallel, Step
from windlass.core.workflows.step_payload import COMMAND_TYPE, HTTP_TYPE, Payload, compile_payload
from windlass.core.workflows.workflow import Workflow
from windlass.errors import NotFound, WindlassError
from windlass.store import workflows as store
from windlass.store.postgres.pool import Connection
from windlass.store.steps import Shape
from windlass.store.workflows import Live

ROOM = 1000
MAX_SUGGESTED = 10_000  # names that are searched for a similar one
PRIORITY = 100
TEMPLATE_ROOM = 10_000
NO_FACTS = Facts()
ANY_TIME = datetime.min.replace(tzinfo=UTC)
LEFT_OUT = "null"  # placeholder payload of a shape whose jobs each have their own
_log = logging.getLogger("windlass.definitions")


class UnreadableVersion(WindlassError):
    """A stored version that this process cannot read: from a newer release, changed by hand, or missing."""

    def __init__(self, version_id: int, error: Exception) -> None:
        super().__init__(f"version {version_id} of a workflow cannot be read by this process: {error}")


class Definitions:
    """A cache of the recently used versions, at most `room` of them.

    It has two generations: a used entry moves to the young one, and when that has `room / 2` entries the old one is
    dropped. So a hit costs a dict lookup, without the bookkeeping of an exact LRU order.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._half = max(room // 2, 1)
        self._reported: set[int] = set()  # versions that cannot be read and were logged
        self._young: dict[int, Workflow] = {}
        self._old: dict[int, Workflow] = {}

    async def of(self, conn: Connection, version_ids: Iterable[int]) -> dict[int, Workflow]:
        """Return these versions; load uncached ones with one query. Raise `UnreadableVersion` if one cannot be read."""
        ids = list(version_ids)
        workflows, errors = await self._find(conn, ids)
        for id_ in ids:
            if id_ in errors:
                raise errors[id_]
        return workflows

    async def one(self, conn: Connection, version_id: int) -> Workflow:
        """Return one version; raise `UnreadableVersion` if it cannot be read."""
        return self.get(version_id) or (await self.of(conn, [version_id]))[version_id]

    async def readable(self, conn: Connection, version_ids: Iterable[int]) -> dict[int, Workflow]:
        """Return those of these versions that this process can read. Each unreadable one is logged once."""
        return (await self._find(conn, version_ids))[0]

    async def _find(
        self, conn: Connection, version_ids: Iterable[int]
    ) -> tuple[dict[int, Workflow], dict[int, UnreadableVersion]]:
        cached: dict[int, Workflow] = {}
        missing: dict[int, None] = {}
        for id_ in version_ids:
            known = self._young.get(id_) or self.get(id_)
            if known is not None:
                cached[id_] = known
            else:
                missing[id_] = None
        if not missing:
            return cached, {}
        loaded, errors = await self._load(conn, missing)
        return cached | loaded, errors

    def get(self, version_id: int) -> Workflow | None:
        """Return a cached version, without a query."""
        known = self._young.get(version_id)
        if known is None:
            known = self._old.pop(version_id, None)
            if known is not None:
                self._keep(version_id, known)
        return known

    def learn(self, version_id: int, workflow: Workflow) -> None:
        """Cache a version that this process has published, so that it need not be read back."""
        if self.get(version_id) is None:
            self._keep(version_id, workflow)

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    async def _load(
        self, conn: Connection, ids: Iterable[int]
    ) -> tuple[dict[int, Workflow], dict[int, UnreadableVersion]]:
        documents = await store.documents(conn, ids)
        loaded: dict[int, Workflow] = {}
        errors: dict[int, UnreadableVersion] = {}
        for id_ in ids:
            try:
                if id_ not in documents:
                    raise NotFound("version", id_)
                loaded[id_] = read(documents[id_])
            except Exception as error:  # only this version fails: its document may come from a newer release
                errors[id_] = UnreadableVersion(id_, error)
                if id_ not in self._reported:
                    self._reported.add(id_)
                    _log.error("%s", errors[id_], exc_info=error)
            else:
                self._keep(id_, loaded[id_])
        return loaded, errors

    def _keep(self, version_id: int, workflow: Workflow) -> None:
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}
        self._young[version_id] = workflow


async def find_live(conn: Connection, name: str, *, org: str) -> Live:
    """Return the version that a new run of this name starts on."""
    check_workflow_name(name)
    live = (await store.live(conn, [name], org=org)).get(name)
    if live is None:
        raise await unknown_workflow(conn, name, org=org)
    return live


def check_workflow_name(name: str) -> None:
    """Raise `NotFound` for a string that cannot be a workflow's name, without a query."""
    if workflow_name_mistake(name):
        raise NotFound("workflow", ascii(name))


async def unknown_workflow(conn: Connection, name: str, *, org: str) -> NotFound:
    """Return the error for an unknown workflow name, with a similar name as a hint if there is one."""
    near = get_close_matches(name, await store.names(conn, org=org, limit=MAX_SUGGESTED), n=1)
    return NotFound("workflow", name, hint=f"did you mean {near[0]}?" if near else None)


@dataclass(frozen=True, eq=False)
class StepTemplate:
    """The data for starting a step, computed once per version: the common columns of its jobs, its `if`, its templates.

    A turn that creates hundreds of jobs of one step writes their common columns once.
    """

    version_id: int
    number: int
    plan: Plan

    @property
    def step(self) -> Step:
        return self.plan.steps[self.number]

    @cached_property
    def payload(self) -> Payload:
        return compile_payload(self.step.action)

    @cached_property
    def condition(self) -> Expression | None:
        return None if self.step.condition is None else expression.parse(self.step.condition)

    @cached_property
    def per_item(self) -> bool:
        """Return whether each instance has a payload of its own that SQL cannot build."""
        foreach = isinstance(self.step.fan_out, Foreach)
        return self.payload.uses_item or (foreach and isinstance(self.step.action, CommandAction))

    @cached_property
    def is_plain(self) -> bool:
        """Return whether all jobs of the step have the same constant payload, without templates."""
        return self.payload.is_constant and not self.per_item

    @cached_property
    def source(self) -> Path | None:
        """Return the path that a fan-out takes its items or its count from."""
        match self.step.fan_out:
            case Foreach(path) | Parallel(str(path)):
                return source_path(path)
            case _:
                return None

    @cached_property
    def shape(self) -> Shape:
        step = self.step
        type_, queue, priority = _job_columns(step)
        return Shape(
            version_id=self.version_id,
            step=self.number,
            type=type_,
            payload=self.constant if self.is_plain else LEFT_OUT,
            queue=queue,
            priority=priority,
            max_attempts=step.max_attempts,
            timeout=step.timeout,
            retry=encode(step.retry.to_json(), field="retry") if step.retry else None,
            foreach=isinstance(step.fan_out, Foreach) and isinstance(step.action, JobAction),
        )

    @cached_property
    def constant(self) -> str:
        """Return the payload of a step without templates."""
        return encode(self.payload.fill(NO_FACTS), field=f"the input of {self.step.name}")

    def steps(self, references: Iterable[Path]) -> set[int]:
        """Return the numbers of the steps that these paths refer to."""
        return {self.plan.number[path.name] for path in references if path.root == "tasks"}


class StepTemplates:
    """A cache of step templates, by version and step; cleared when full."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], StepTemplate] = {}
        self._begin_with_jobs: dict[int, bool] = {}  # by version

    def of(self, version_id: int, number: int, plan: Plan) -> StepTemplate:
        known = self._known.get((version_id, number))
        if known is None:
            if len(self._known) >= TEMPLATE_ROOM:
                self._known.clear()
            known = self._known[version_id, number] = StepTemplate(version_id, number, plan)
        return known

    def begins_with_jobs(self, version_id: int, plan: Plan) -> bool:
        """Return whether a new run begins by creating only jobs without templates, independently of the time."""
        known = self._begin_with_jobs.get(version_id)
        if known is None:
            if len(self._begin_with_jobs) >= TEMPLATE_ROOM:
                self._begin_with_jobs.clear()
            run, commands = decide(Run.new(plan), [Begun()], ANY_TIME)
            known = self._begin_with_jobs[version_id] = (
                run.state is RunState.RUNNING
                and not plan.composition
                and all(
                    isinstance(command, Enqueue) and self.of(version_id, command.step, plan).is_plain
                    for command in commands
                )
            )
        return known


def _job_columns(step: Step) -> tuple[str, str, int]:
    """Return the type, queue and priority of the step's jobs."""
    match step.action:
        case JobAction(type_, _, queue, priority, placement):
            return type_, queue if placement.is_local else pool_queue(placement.runs_on), priority
        case HttpAction():
            return HTTP_TYPE, OWN_QUEUE, PRIORITY
        case CommandAction(_, placement):
            return COMMAND_TYPE, OWN_QUEUE if placement.is_local else pool_queue(placement.runs_on), PRIORITY
        case _:
            raise TypeError(f"step {step.name} needs no job")
