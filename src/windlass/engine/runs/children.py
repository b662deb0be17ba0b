"""Starts child runs: inserts them as pending in the transaction that starts their step. The sweep begins them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.json_value import decode, encode
from windlass.core.runs.command import StartChild
from windlass.core.runs.event import Ended, Event
from windlass.core.runs.run import MISFIT, Letter, Reason, first_letters
from windlass.core.workflows.step import ChildAction, Foreach, Step
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Database
from windlass.engine.orgs import quota
from windlass.errors import Invalid
from windlass.store import runs, steps, workflows
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun, NewChildren
from windlass.store.workflows import Live

MAX_DEPTH = 10
CHUNK = 1000  # items per query


class ChildRequest(NamedTuple):
    """A step of a run, and the instances to start."""

    run: LockedRun
    step: Step
    command: StartChild
    input: str  # JSON

    @property
    def workflow(self) -> str:
        assert isinstance(self.step.action, ChildAction)
        return self.step.action.workflow


async def start(
    conn: Connection, db: Database, requests: Sequence[ChildRequest], *, actor: str
) -> list[tuple[UUID, Event]]:
    """Insert the child runs; return the end of the step for each request that cannot be served."""
    live = await _live(conn, requests)
    definitions = await db.definitions.of(conn, {known.version_id for known in live.values()})
    room = await _Room.of(conn, requests, limit=db.tree_limit)
    deadlocks = await _deadlocks(conn, requests, live, definitions)
    items, rows = _Items(conn), list[NewChildren]()
    refused: list[tuple[UUID, Event]] = []
    for request in requests:
        known = live.get((request.run.org, request.workflow))
        if (
            why := _objection(request, known)
            or deadlocks.get((request.run.id, request.workflow))
            or room.objection(request)
            or await quota.child_objection(conn, db, request.run.org, request.command.count)
        ):
            end = Ended(request.command.step, Letter.FAILED, Reason("child", why), request.command.count)
            refused.append((request.run.id, end))
        elif known is not None:
            fitting, misfit = await _checked(db, request, definitions[known.version_id], items)
            rows += [_row(part, known, definitions[known.version_id]) for part in fitting]
            refused += [] if misfit is None else [(request.run.id, misfit)]
    if rows:
        await runs.insert_children(conn, rows, actor=actor)
    return refused


async def _checked(
    db: Database, request: ChildRequest, workflow: Workflow, items: "_Items"
) -> tuple[list[ChildRequest], Ended | None]:
    """Return the instances whose input fits the workflow, and one end for all others, with the first reason.

    The inputs are checked in the transaction, unlike those of other runs, because they are known only here. The
    validator's deadline bounds the time, and a schema that has exceeded it before is refused at once.
    """
    if workflow.input_schema is None:
        return [request], None
    fitting, misfits, reason = list[ChildRequest](), 0, ""
    for part, value in await _inputs(request, items):
        try:
            await db.schema_validator.check(workflow.input_schema, value, "input")
            fitting.append(part)
        except Invalid as error:
            misfits += part.command.count
            reason = reason or f"the input does not fit workflow {workflow.name!r}: {error}"
    step = request.command.step
    return fitting, Ended(step, Letter.FAILED, Reason(MISFIT, reason), misfits) if misfits else None


async def _inputs(request: ChildRequest, items: "_Items") -> list[tuple[ChildRequest, Any]]:
    """Return the requests with their inputs. With `foreach` each instance has its own, which contains the item."""
    shared = decode(request.input)
    if not isinstance(request.step.fan_out, Foreach):
        return [(request, shared)]
    step, first, count = request.command.step, request.command.first, request.command.count
    common = shared if isinstance(shared, dict) else {}
    return [
        (request._replace(command=StartChild(step, index, 1)), {**common, "item": item})
        for index, item in await items.load(request.run.id, step, first, count)
    ]


class _Items:
    """The items of fan-outs, read in chunks: a step whose input contains the item makes one request per instance."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._place: tuple[UUID, int] | None = None
        self._values: dict[int, Any] = {}

    async def load(self, run: UUID, step: int, first: int, count: int) -> list[tuple[int, Any]]:
        if self._place != (run, step) or not self._values.keys() >= {first, first + count - 1}:
            self._values = dict(await steps.items(self._conn, run, step, first, max(count, CHUNK)))
            self._place = run, step
        return [(index, self._values[index]) for index in range(first, first + count) if index in self._values]


async def _deadlocks(
    conn: Connection,
    requests: Iterable[ChildRequest],
    live: Mapping[tuple[str, str], Live],
    definitions: Mapping[int, Workflow],
) -> dict[tuple[UUID, str], str]:
    """Return the reasons why children would deadlock, by run and workflow name.

    The ancestors of such a child use up the concurrency limit of its workflow, and do not end before the child does.
    """
    limited: dict[tuple[UUID, UUID], tuple[str, int]] = {}
    for request in requests:
        known = live.get((request.run.org, request.workflow))
        limit = definitions[known.version_id].concurrency if known is not None else None
        if known is not None and limit is not None:
            limited[request.run.id, known.workflow_id] = request.workflow, limit
    if not limited:
        return {}
    counts = await runs.own_ancestors(conn, limited)
    return {
        (pair[0], name): f"workflow {name!r} has a concurrency of {limit}, and this run and its ancestors use it up: "
        "a child run would deadlock"
        for pair, (name, limit) in limited.items()
        if counts[pair] >= limit
    }


class _Room:
    """Counts how many runs may still be started below each root run.

    The limit keeps a tree from growing without bound and is not exact: two processes that start runs of one tree
    concurrently do not see each other's runs.
    """

    def __init__(self, roots: Mapping[UUID, UUID], live: dict[UUID, int], limit: int) -> None:
        self._roots, self._live, self._limit = roots, live, limit

    @classmethod
    async def of(cls, conn: Connection, requests: Iterable[ChildRequest], *, limit: int) -> "_Room":
        rows = await runs.live_below(conn, {request.run.id for request in requests}, cap=limit)
        return cls({id_: root for id_, (root, _) in rows.items()}, dict(rows.values()), limit)

    def objection(self, request: ChildRequest) -> str | None:
        root = self._roots[request.run.id]
        if self._live[root] + request.command.count > self._limit:
            return (
                f"run {root} would have more than {self._limit} live descendants: "
                "lower the concurrency of the step, or raise WINDLASS_TREE_LIMIT"
            )
        self._live[root] += request.command.count
        return None


async def _live(conn: Connection, requests: Iterable[ChildRequest]) -> Mapping[tuple[str, str], Live]:
    names: dict[str, set[str]] = defaultdict(set)
    for request in requests:
        names[request.run.org].add(request.workflow)
    versions: dict[tuple[str, str], Live] = {}
    for org, org_names in names.items():
        known = await workflows.live(conn, org_names, org=org)
        versions |= {(org, name): live for name, live in known.items()}
    return versions


def _objection(request: ChildRequest, known: Live | None) -> str | None:
    if known is None:
        return f"there is no workflow {request.workflow!r}"
    if not known.enabled:
        return f"workflow {request.workflow!r} is disabled"
    if request.run.depth >= MAX_DEPTH:
        return f"child runs can be nested at most {MAX_DEPTH} deep"
    return None


def _row(request: ChildRequest, known: Live, workflow: Workflow) -> NewChildren:
    return (
        request.run.id,
        request.command.step,
        request.command.first,
        request.command.count,
        request.run.round,
        known.workflow_id,
        known.version_id,
        first_letters(workflow.plan),
        request.input,
        workflow.max_duration if request.step.timeout is None else min(workflow.max_duration, request.step.timeout),
        isinstance(request.step.fan_out, Foreach),
        encode(dict(workflow.labels), field="labels") if workflow.labels else None,
    )
