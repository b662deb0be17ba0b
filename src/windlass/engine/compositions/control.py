"""Creates and cancels compositions of jobs. Each is a run of a hidden workflow, published when its shape is new."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from windlass.core.compositions import MAX_LEVELS, Composition, Part
from windlass.core.jobs.spec import DEFAULT_PRIORITY, JobTemplate, OnConflict, Unique, check
from windlass.core.json_value import encode
from windlass.core.runs.event import Begun
from windlass.core.runs.run import Letter, RunState
from windlass.core.workflows.workflow import NO_TIME_LIMIT, Workflow
from windlass.engine.database import Tenant, new_ids
from windlass.engine.jobs.submit import REPLACED
from windlass.engine.orgs import quota
from windlass.engine.runs import control as runs
from windlass.engine.runs import sweep
from windlass.engine.runs.settle import settle
from windlass.engine.runs.writes import KeyTaken, NewRuns, Wakeups
from windlass.errors import Conflict, Duplicate, Invalid, NotFound
from windlass.store import claims, jobs, workflows
from windlass.store import compositions as store
from windlass.store import runs as run_store
from windlass.store.claims import KeyOwner
from windlass.store.compositions import NewComposition, Node, ReservedKey
from windlass.store.postgres.pool import Connection
from windlass.store.runs import LockedRun, NewRun
from windlass.store.workflows import Live

__all__ = ["Node"]
INPUT_LIMIT = 16 * 1_048_576
MAX_ID = 255
ATTEMPTS = 3  # where a part gives no number: see compositions.sql


async def create(db: Tenant, composition: Composition) -> UUID:
    """Insert and begin a composition in one transaction; before returning, begin the nested ones that are due."""
    if composition.levels > MAX_LEVELS:
        raise Invalid(f"there are {composition.levels} levels, the limit is {MAX_LEVELS}", field="$")
    text = encode(composition.input, field="$", limit=INPUT_LIMIT)
    known = await find_shapes(db, composition)
    rows = list(_rows(composition, _id(composition.id), known))
    async with db.begin() as conn:
        await quota.admit(db, composition.jobs, conn)
        replaces = await _reserve(conn, db, composition, rows)
        root = rows[0].run_id
        wakeups = await begin(
            conn,
            db,
            root,
            known[composition.workflow.name],
            Letter.WAITING * len(composition.workflow.steps),
            input_=text,
            name=composition.name,
            alias=rows[0].alias,
            timeout=composition.timeout,
        )
    wakeups.poke(db)
    if replaces:
        db.poke("cancel", "settle")  # for the cancelled jobs: workers stop them, loops settle their runs
    if wakeups.unsettled:
        await sweep.follow(db, [root])
    return root


async def find_shapes(db: Tenant, composition: Composition) -> dict[str, Live]:
    """Return the workflows of a composition and all nested ones, by name; publish new ones. They never change."""
    needed = dict(_shapes(composition))
    live_shapes = {name: live for name in needed if (live := db.shapes.get(db.org, name)) is not None}
    missing = [workflow for name, workflow in needed.items() if name not in live_shapes]
    if missing:
        live_shapes |= await _publish(db, missing)
    return live_shapes


def _shapes(composition: Composition) -> Iterable[tuple[str, Workflow]]:
    yield composition.workflow.name, composition.workflow
    for _, part in composition.nested():
        yield from _shapes(part)


async def _publish(db: Tenant, missing: list[Workflow]) -> dict[str, Live]:
    """Publish in a separate transaction: concurrent creators of the same shape need not wait for the composition."""
    names = [workflow.name for workflow in missing]
    async with db.begin() as conn:
        live_shapes = await workflows.live(conn, names, org=db.org)
        if len(live_shapes) < len(names):
            rows = [_shape_row(id_, shape) for id_, shape in zip(new_ids(len(missing)), missing, strict=True)]
            await store.publish(conn, [row for row in rows if row[1] not in live_shapes], org=db.org)
            live_shapes = await workflows.live(conn, names, org=db.org)
    db.shapes.keep(db.org, live_shapes.values())
    for workflow in missing:
        db.definitions.learn(live_shapes[workflow.name].version_id, workflow)
    return live_shapes


def _shape_row(id_: UUID, shape: Workflow) -> tuple[UUID, str, str, str]:
    return id_, shape.name, encode(shape.to_document(), field="steps", limit=INPUT_LIMIT), shape.fingerprint


async def begin(
    conn: Connection,
    db: Tenant,
    root: UUID,
    shape: Live,
    letters: str,
    *,
    input_: str,
    name: str,
    alias: str | None,
    fans: str | None = None,
    timeout: timedelta | None = None,
) -> Wakeups:
    """Create the run of a composition in the caller's transaction. Its name and the client's id become labels."""
    now = await run_store.now(conn)
    state = RunState.RUNNING.value
    locked = LockedRun(root, db.org, shape.workflow_id, shape.version_id, state, letters, fans, 0, 0, now, now)

    labels = {key: value for key, value in (("name", name), ("workflow_id", alias)) if value}
    row = NewRun(root, state, letters, fans, input_, encode(labels, field="labels") if labels else None)
    new = NewRuns(db.org, shape.workflow_id, shape.version_id, {timeout or NO_TIME_LIMIT: [row]}, [])
    try:
        return await settle(conn, db, [locked], {root: [Begun()]}, actor=db.actor, new=new)
    except KeyTaken:
        raise Duplicate(f"a workflow {root} already exists", existing=str(root)) from None


def job_columns(db: Tenant, template: JobTemplate) -> dict[str, Any]:
    """Return the columns of a job's row that differ from the defaults, as its part of the run's input."""
    spec, lifetime = template.spec, template.lifetime
    check(spec)
    columns = {
        "id": None if spec.id is None else str(spec.id),
        "payload": spec.payload,
        "priority": spec.priority if spec.priority != DEFAULT_PRIORITY else None,
        "max_attempts": spec.max_attempts if spec.max_attempts != ATTEMPTS else None,
        "timeout": spec.timeout.total_seconds() if spec.timeout else None,
        "retry": spec.retry.to_json() if spec.retry else None,
        "tags": list(spec.tags) or None,
        "meta": spec.meta,
        "envelope": spec.envelope,
        "expires_at": spec.expires_at.isoformat() if spec.expires_at else None,
        "unique_key": f"{db.org}/{spec.unique.key}" if spec.unique else None,
        "visibility": spec.visibility.total_seconds() if spec.visibility else None,
        "rate_key": f"{db.org}/{spec.limit.key}" if spec.limit else None,
        "delay": spec.delay.total_seconds() if spec.delay else None,
        "lifetime": lifetime.total_seconds() if lifetime else None,
        "run_at": "infinity" if spec.held else spec.run_at.isoformat() if spec.run_at else None,
    }
    return {name: value for name, value in columns.items() if value is not None}


async def cancel(db: Tenant, id_: str) -> None:
    """Cancel a composition and all nested ones: waiting jobs end at once, running jobs may finish."""
    async with db.once() as conn:
        run, root = await find(conn, db, id_)
    if run != root:
        async with db.once() as conn:
            begun = await run_store.states(conn, [run])
        if not begun:
            raise Conflict(f"workflow {id_} has not started: cancel the enclosing workflow")
    await runs.cancel(db, run, reason="the workflow was cancelled")
    await sweep.follow(db, [run])


async def run_of(db: Tenant, id_: str) -> UUID:
    """Return the run of a composition, given the id that its client uses."""
    async with db.once() as conn:
        return (await find(conn, db, id_))[0]


async def find(conn: Connection, db: Tenant, id_: str) -> tuple[UUID, UUID]:
    """Return the run of a composition and that of the outermost composition around it."""
    # No id has unprintable characters, and Postgres cannot compare with some of them.
    ids = await store.find(conn, own_id(id_), id_, org=db.org) if id_.isprintable() else None
    if ids is None:
        raise NotFound("workflow", id_[:MAX_ID])
    return ids


def own_id(text: str) -> UUID | None:
    """Return the UUID if the string is one in canonical form. Any other string is a client's id and kept as it is."""
    try:
        return UUID(text) if len(text) == 36 and str(UUID(text)) == text else None
    except ValueError:
        return None


def letters_of(node: Node, workflow: Workflow) -> str:
    return node.letters or node.brought or Letter.WAITING * len(workflow.steps)


def _rows(
    composition: Composition, run: UUID, known: Mapping[str, Live], place: tuple[UUID, int] | None = None
) -> Iterator[NewComposition]:
    labels = [part.label for part in composition.numbered]
    alias = composition.id if composition.id is not None and own_id(composition.id) is None else None
    yield NewComposition(
        run_id=run,
        parent_id=place[0] if place else None,
        parent_step=place[1] if place else None,
        kind=composition.kind.value,
        name=composition.name,
        alias=alias,
        version_id=known[composition.workflow.name].version_id,
        jobs=composition.jobs,
        labels=encode(labels, field="steps", limit=INPUT_LIMIT) if any(labels) else None,
        steps=None,
        retry_of=None,
    )
    for n, part in composition.nested():
        yield from _rows(part, _id(part.id), known, (run, n))


def _id(client_id: str | None) -> UUID:
    return (own_id(client_id) if client_id is not None else None) or new_ids(1)[0]


async def _reserve(conn: Connection, db: Tenant, composition: Composition, rows: list[NewComposition]) -> bool:
    """Reserve the ids and unique keys of the whole tree, or raise; return whether jobs were cancelled for them."""
    members = [
        (row.run_id, n, part)
        for row, part_of in zip(rows, _compositions(composition), strict=True)
        for n, part in enumerate(part_of.numbered)
        if isinstance(part, Part)
    ]
    # Unique keys before any row: a session that waits for a key must not hold locks that the key's owner needs.
    replaces = await take_keys(conn, db, [(run, n, part.unique) for run, n, part in members if part.unique])
    if await store.insert(conn, rows[0].run_id, rows, org=db.org) < len(rows):
        name = composition.id if len(rows) == 1 else "with one of these ids"
        raise Duplicate(f"a workflow {name} already exists", existing=composition.id)
    await _reserve_ids(conn, [(run, part) for run, _, part in members if "id" in part.fields])
    if limits := [(f"{db.org}/{part.limit.key}", part.limit) for _, _, part in members if part.limit is not None]:
        await claims.put_rate_limits(conn, limits)
    return replaces


async def _reserve_ids(conn: Connection, members: Sequence[tuple[UUID, Part]]) -> None:
    """Reserve the ids that clients gave to jobs, or raise `Duplicate` with a taken one in the client's spelling."""
    ids = {UUID(part.fields["id"]): run for run, part in members}
    free = await store.reserve(conn, list(ids.items())) if ids else set()
    seen: set[UUID] = set()
    for _, part in members:
        id_ = UUID(part.fields["id"])
        if id_ not in free or id_ in seen:
            name = (part.fields.get("envelope") or {}).get("alias", str(id_))
            raise Duplicate(f"a job {name} already exists", existing=id_)
        seen.add(id_)


def _compositions(composition: Composition) -> Iterator[Composition]:
    """Yield the compositions of the tree in the order of `_rows`."""
    yield composition
    for _, part in composition.nested():
        yield from _compositions(part)


# Unique keys are reserved for all jobs when a composition is created: a job that begins later must find its key free,
# and has no row that could hold the key until then


async def take_keys(conn: Connection, db: Tenant, members: Sequence[tuple[UUID, int, Unique]]) -> bool:
    """Reserve the keys of these steps, or raise; return whether other jobs were cancelled for them.

    `ignore` is treated like `reject`: a composition cannot contain a job that belongs elsewhere.
    """
    if not members:
        return False
    rows = [ReservedKey(f"{db.org}/{unique.key}", run, step) for run, step, unique in members]
    keys = [(row.key, unique) for row, (_, _, unique) in zip(rows, members, strict=True)]
    owners = await _find_owners(conn, rows, keys)
    replaced: list[UUID] = []
    for key, unique in keys:
        owner = owners.get(key)
        if owner is None:
            continue
        if owner.id is None or unique.on_conflict is not OnConflict.REPLACE:
            raise _duplicate(owner)
        replaced.append(owner.id)
    if replaced:
        await jobs.cancel(conn, replaced, org=db.org, actor=db.actor, reason=REPLACED)
    await store.reserve_keys(conn, rows)
    return bool(replaced)


async def take_keys_again(conn: Connection, steps: Sequence[tuple[UUID, UUID, int]]) -> None:
    """Reserve the keys of steps (old run, new run, step) that another composition repeats, or raise."""
    rows = await store.keys(conn, steps)
    if not rows:
        return
    owners = await _find_owners(conn, rows, [(row.key, Unique(key=row.key)) for row in rows])
    if owners:
        raise _duplicate(next(iter(owners.values())))
    await store.reserve_keys(conn, rows)


async def _find_owners(
    conn: Connection, rows: Sequence[ReservedKey], keys: Sequence[tuple[str, Unique]]
) -> Mapping[str, KeyOwner]:
    twice = [key for key, count in Counter(row.key for row in rows).items() if count > 1]
    if twice:
        raise Duplicate("two jobs of this workflow have the same unique key", existing=None)
    await claims.lock_keys(conn, [row.key for row in rows])
    return await claims.find_unique(conn, keys)


def _duplicate(owner: KeyOwner) -> Duplicate:
    if owner.id is None:
        return Duplicate(f"a waiting step of workflow {owner.workflow} has the same unique key", existing=None)
    return Duplicate(f"job {owner.id} has the same unique key", existing=owner.id)
