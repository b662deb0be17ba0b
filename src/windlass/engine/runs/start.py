"""Starts runs, or creates them pending if their workflow's concurrency limit is reached."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from windlass.core.cron import schedule
from windlass.core.definition.parser import MAX_LABELS
from windlass.core.events.webhook import kept_headers
from windlass.core.explain.snapshot import EVENT_KEY
from windlass.core.jobs.spec import check_name
from windlass.core.json_value import encode
from windlass.core.runs.event import Begun
from windlass.core.runs.run import RunState, first_letters
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import Tenant, new_ids
from windlass.engine.definitions import find_live
from windlass.engine.orgs import quota
from windlass.engine.runs.inputs import Versions, check_early, require_checked, start_checked
from windlass.engine.runs.settle import settle
from windlass.engine.runs.writes import KeyTaken, NewRuns, Outdated, Wakeups
from windlass.errors import Conflict, Invalid
from windlass.schemas.common import CREATE_LIMIT
from windlass.store import runs
from windlass.store.postgres.pool import Connection, savepoint, translated
from windlass.store.runs import InsertedRun, LockedRun, NewRun
from windlass.store.workflows import Live

TRIES = 3  # a key may be taken between the lookup and the insert


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """The parameters of a new run. Labels are added to those of the workflow."""

    input: Any = field(default_factory=dict)
    idempotency_key: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    max_duration: timedelta | None = None
    headers: Mapping[str, str] | None = None  # of the starting request; templates may read them, secrets are dropped
    api_headers: Mapping[str, str] | None = None  # of a request to the API: kept only if the workflow reads them
    event: Mapping[str, str] | None = None  # name, key and id of the event that starts it, which are its headers
    id: UUID | None = None  # of the run if it is inserted: a known key returns another id
    depth: int = 0  # depth below other runs, if a handler waits for it


class Started(NamedTuple):
    """A started run. `inserted` is None if its key was known or it may have ended: then its row must be read."""

    id: UUID
    workflow_id: UUID
    inserted: InsertedRun | None


async def start(db: Tenant, name: str, specs: Sequence[RunSpec], *, connection: Connection | None = None) -> list[UUID]:
    """Start runs of a workflow, all or none, and return their ids. A known key stands for the run that has it.

    With `connection` the runs become part of the caller's transaction.
    """
    return [run.id for run in await start_many(db, name, specs, connection=connection)]


async def start_many(
    db: Tenant, name: str, specs: Sequence[RunSpec], *, connection: Connection | None = None
) -> list[Started]:
    """Start runs as `start` does, and return them as they were inserted."""
    if len(specs) > CREATE_LIMIT:
        raise Invalid(f"{len(specs)} runs in one call, the limit is {CREATE_LIMIT}: start in batches", field="runs")
    for spec in specs:
        check(spec)
        if schedule.is_key(spec.idempotency_key):
            message = (
                f"idempotency_key is {spec.idempotency_key!r}: schedule/ is reserved for schedules, use another key"
            )
            raise Invalid(message, field="idempotency_key")
        if spec.idempotency_key is not None and spec.idempotency_key.startswith(EVENT_KEY):
            message = f"idempotency_key is {spec.idempotency_key!r}: event/ is reserved for events, use another key"
            raise Invalid(message, field="idempotency_key")
    if not specs:
        return []

    async def attempt(checked: Versions) -> list[Started]:
        if connection is not None:
            with translated():
                async with savepoint(connection):  # all or none, even if the caller catches the error and commits
                    version = await _find(connection, db, name)
                    return (await _start(connection, db, version, specs, checked))[0]
        started, wakeups = await _commit(db, name, specs, checked)
        wakeups.poke(db)
        return started

    checked = await check_early(db, name, [spec.input for spec in specs])
    for _ in range(TRIES):
        try:
            return await start_checked(db, attempt, checked)
        except KeyTaken:
            continue
    raise Conflict("a run with one of these keys was started concurrently: start again")


async def include(
    conn: Connection, db: Tenant, name: str, specs: Sequence[RunSpec], *, checked: Versions | None
) -> tuple[list[UUID], Wakeups]:
    """Start runs within the transaction of another use case, which must poke the wakeups after its commit.

    `checked`: the versions that the inputs fit, see `inputs.start_checked`. None: the inputs are from the definition.
    """
    for spec in specs:
        check(spec)
    try:
        version = await _find(conn, db, name) if specs else None
        started, wakeups = await _start(conn, db, version, specs, checked) if version else ([], Wakeups())
    except KeyTaken:
        raise Conflict("a run with one of these keys was started concurrently: start again") from None
    return [run.id for run in started], wakeups


def check(spec: RunSpec) -> None:
    if spec.idempotency_key is not None:
        check_name(spec.idempotency_key, "idempotency_key", "leave it out or give a key", limit=1024)
    if spec.max_duration is not None and spec.max_duration <= timedelta():
        raise Invalid("max_duration must be positive", field="max_duration")
    if not isinstance(spec.labels, Mapping) or len(spec.labels) > MAX_LABELS:
        raise Invalid(f"labels is not a mapping of up to {MAX_LABELS} strings", field="labels")
    for key, value in spec.labels.items():
        check_name(key, "labels", "give the label a name")
        check_name(value, f"labels.{key}", "a label is a short string")


async def _commit(db: Tenant, name: str, specs: Sequence[RunSpec], checked: Versions) -> tuple[list[Started], Wakeups]:
    """Start runs in a separate transaction, which is a single statement if possible.

    That statement uses the last known version, without reading it first: it inserts nothing if the version is no longer
    the live one.
    """
    if (known := _last_known(db, name, checked)) is not None and _is_one_statement(db, known, specs):
        try:
            async with db.once() as conn:
                return await _start(conn, db, known, specs, checked, verify=True)
        except Outdated:
            db.live_versions.drop(db.org, name)
    async with db.once() as conn:
        version = await _find(conn, db, name)
        if conn.is_in_transaction() or _is_one_statement(db, version, specs):
            return await _start(conn, db, version, specs, checked)
    async with db.begin() as conn:
        return await _start(conn, db, version, specs, checked)


def _last_known(db: Tenant, name: str, checked: Versions) -> tuple[Live, Workflow] | None:
    """Return the version that was live when it was last read, or None if the inputs are not known to fit it: an error
    must be about the version that is live now. Its `now` is outdated; a start of one statement does not use it."""
    live = db.live_versions.get(db.org, name)
    workflow = db.definitions.get(live.version_id) if live is not None else None
    if live is None or workflow is None or (workflow.input is not None and live.version_id not in checked):
        return None
    return live, workflow


async def _find(conn: Connection, db: Tenant, name: str) -> tuple[Live, Workflow]:
    """Return the version that runs of this name start on. It is not locked: they also start on it if another one is
    published before they are inserted."""
    live = await find_live(conn, name, org=db.org)
    if not live.enabled:
        raise Conflict(f"workflow {name!r} is disabled: windlass workflows enable {name}")
    db.live_versions.keep(db.org, [live])
    return live, await db.definitions.one(conn, live.version_id)


def _is_one_statement(db: Tenant, version: tuple[Live, Workflow], specs: Sequence[RunSpec]) -> bool:
    """Return whether `_start` only inserts: then it needs no transaction around it, which saves two round trips."""
    live, workflow = version
    return (
        workflow.concurrency is None
        and quota.is_unlimited(db, db.org)
        and all(spec.idempotency_key is None and spec.max_duration == specs[0].max_duration for spec in specs)
        and db.step_templates.begins_with_jobs(live.version_id, workflow.plan)
    )


async def _start(
    conn: Connection,
    db: Tenant,
    version: tuple[Live, Workflow],
    specs: Sequence[RunSpec],
    checked: Versions | None,
    *,
    verify: bool = False,
) -> tuple[list[Started], Wakeups]:
    """Start runs on a version. `verify`: insert them with a single statement, which raises `Outdated` if the version is
    no longer the live one."""
    live, workflow = version
    known = await _known(conn, db, live, specs)
    fresh = _fresh(specs, known)
    if fresh and workflow.input is not None:
        require_checked(live.version_id, workflow, [spec.input for _, spec in fresh], checked)
    if fresh and not quota.is_unlimited(db, db.org):
        await quota.admit_runs(conn, db, len(fresh))
    new: list[InsertedRun] = []
    wakeups = await _begin(conn, db, live, workflow, fresh, new, verify=verify) if fresh else Wakeups()
    inserted = {} if wakeups.ended else {run.id: run for run in new}
    ids = {spec.idempotency_key: id_ for id_, spec in fresh if spec.idempotency_key is not None} | known
    made = iter([id_ for id_, spec in fresh if spec.idempotency_key is None])
    started = [next(made) if spec.idempotency_key is None else ids[spec.idempotency_key] for spec in specs]
    return [Started(id_, live.workflow_id, inserted.get(id_)) for id_ in started], wakeups


async def _known(conn: Connection, db: Tenant, live: Live, specs: Sequence[RunSpec]) -> dict[str, UUID]:
    """Return the existing runs with these keys. A key identifies one request and cannot be used for two workflows."""
    keys = [spec.idempotency_key for spec in specs if spec.idempotency_key is not None]
    rows = await runs.find_keys(conn, keys, org=db.org) if keys else {}
    for key, (id_, workflow_id) in rows.items():
        if workflow_id != live.workflow_id:
            raise Conflict(f"idempotency_key {key!r} belongs to run {id_} of another workflow: use another key")
    return {key: id_ for key, (id_, _) in rows.items()}


def _fresh(specs: Sequence[RunSpec], known: Mapping[str, UUID]) -> list[tuple[UUID, RunSpec]]:
    """Return the runs to create, one for each key."""
    seen = set(known)
    fresh = []
    ids = iter(new_ids(sum(spec.id is None for spec in specs)))  # ascending: pending runs begin in id order
    for spec in specs:
        if spec.idempotency_key is not None:
            if spec.idempotency_key in seen:
                continue
            seen.add(spec.idempotency_key)
        fresh.append((spec.id or next(ids), spec))
    return fresh


async def _begin(
    conn: Connection,
    db: Tenant,
    live: Live,
    workflow: Workflow,
    fresh: Sequence[tuple[UUID, RunSpec]],
    inserted: list[InsertedRun],
    *,
    verify: bool = False,
) -> Wakeups:
    """Insert the runs, append them to `inserted`, and begin those that the concurrency limit allows."""
    room, now = len(fresh), live.now
    if workflow.concurrency is not None:
        # Lock the workflow: otherwise two transactions could both take the last free slot.
        await runs.lock_workflow(conn, live.workflow_id)
        waiting = await runs.first_pending(conn, live.workflow_id, 1)  # a new run must not overtake pending ones
        room = 0 if waiting else max(0, workflow.concurrency - await runs.running(conn, live.workflow_id))
    if now is None or workflow.concurrency is not None:  # time may have passed while waiting for the lock
        now = await runs.now(conn)
    letters = first_letters(workflow.plan)
    locked = [
        LockedRun(id_, db.org, live.workflow_id, live.version_id, state, letters, None, 0, spec.depth, now, now)
        for n, (id_, spec) in enumerate(fresh)
        for state in [RunState.RUNNING.value if n < room else RunState.PENDING.value]
    ]

    rows: dict[timedelta, list[NewRun]] = defaultdict(list)
    for row, (_, spec) in zip(locked, fresh, strict=True):
        rows[spec.max_duration or workflow.max_duration].append(_row(row, spec, workflow))
    verified = live.number if verify else None
    new = NewRuns(db.org, live.workflow_id, live.version_id, rows, inserted, live=verified)
    events = {id_: [Begun()] if n < room else [] for n, (id_, _) in enumerate(fresh)}
    return await settle(conn, db, locked, events, actor=db.actor, new=new)


def _row(run: LockedRun, spec: RunSpec, workflow: Workflow) -> NewRun:
    labels = {**workflow.labels, **spec.labels}
    sent = spec.headers or (spec.api_headers if workflow.reads_headers else None)
    headers = spec.event or (kept_headers(sent) if sent else None)
    return NewRun(
        run.id,
        run.state,
        run.steps,
        run.fans,
        encode(spec.input, field="input", objects=True),
        encode(labels, field="labels") if labels else None,
        spec.idempotency_key,
        depth=spec.depth,
        headers=encode(headers, field="headers") if headers else None,
    )
