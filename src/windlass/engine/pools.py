"""Records and lists the pools that processes offer, and checks that the pools of a workflow's steps exist."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from hashlib import sha256

from windlass.core import duration
from windlass.core.launches import SUBPROCESS, is_pool_name
from windlass.core.workflows.step import pool_of
from windlass.core.workflows.workflow import Workflow
from windlass.engine.database import MOST_COUNTED, Database, Tenant
from windlass.engine.orgs import audit
from windlass.errors import Conflict, InvalidWorkflow, NotFound
from windlass.schemas.monitoring import Pool
from windlass.store import pools as store
from windlass.store.pools import PoolRow

ALIVE_WITHIN = timedelta(seconds=30)  # its process reports every 15 s


async def offer(db: Database, pools: Iterable[tuple[str, str, int, str | None]]) -> None:
    """Record pools of this process, given as (name, launcher, size, image). From then on, steps may name them."""
    async with db.begin() as conn:
        await store.offer(conn, pools)


async def report(db: Database, name: str, *, holder: str, problem: str | None) -> None:
    """Record the process that launches the jobs of a pool, and its problem if it cannot launch them."""
    async with db.once() as conn:
        await store.report(conn, name, holder=holder, problem=problem)


async def instance(db: Database) -> str:
    """Return a name that distinguishes jobs of this database from jobs of other databases on the same cluster."""
    async with db.once() as conn:
        identity = await store.identity(conn)
    return f"windlass-{sha256(identity.encode()).hexdigest()[:12]}"


async def list_(db: Tenant) -> list[Pool]:
    """Return the pools, sorted by name, with the numbers of waiting and running jobs of the caller's org; for the
    operator, those of all orgs."""
    async with db.once() as conn:
        rows = await store.list_(conn, org=_counted_org(db), cap=MOST_COUNTED)
    return [_schema(row, db) for row in rows]


async def get(db: Tenant, name: str) -> Pool:
    if not is_pool_name(name):
        raise NotFound("pool", ascii(name[:100]))
    async with db.once() as conn:
        rows = await store.list_(conn, org=_counted_org(db), cap=MOST_COUNTED, name=name)
    if not rows:
        raise NotFound("pool", name)
    return _schema(rows[0], db)


async def forget(db: Tenant, name: str) -> None:
    """Remove a pool that no process offers. Workflows may still name it: their steps wait until a process offers it."""
    pool = await get(db, name)
    async with db.begin() as conn:
        if not await store.forget(conn, name, silent_for=ALIVE_WITHIN):
            raise Conflict(f"pool {name} was seen at {pool.seen_at:%H:%M:%S}: stop the workers that offer it first")
        await audit.record(conn, db, "pool.forget", name)


def is_silent(row: PoolRow) -> bool:
    """Return whether no process has offered the pool recently."""
    return row.silence > ALIVE_WITHIN


def fix_of(row: PoolRow) -> str | None:
    """Return the fix for a pool that cannot be used; None if it can be used."""
    if is_silent(row):
        worker = (
            "windlass worker --allow-commands"
            if row.launcher == SUBPROCESS
            else "a worker whose WINDLASS_POOLS has this pool"
        )
        silence = duration.rough(row.silence)
        return f"no process has offered it for {silence}: start {worker}, or `windlass pools forget {row.name}`"
    if row.problem is not None:
        return f"run `windlass pools test {row.name}` where its worker runs, and fix what it reports"
    return None


def _counted_org(db: Tenant) -> str | None:
    return None if db.acts_for_all else db.org


def _schema(row: PoolRow, db: Tenant) -> Pool:
    return Pool(
        name=row.name,
        launcher=row.launcher,
        max_parallel=row.max_parallel,
        image=row.image,
        holder=row.holder if db.acts_for_all else None,
        problem=row.problem,
        fix=fix_of(row),
        seen_at=row.seen_at,
        alive=not is_silent(row),
        waiting=row.waiting,
        running=row.running,
    )


def _start_of(pool: str) -> str:
    """Return how to start a pool that no process offers."""
    if pool == SUBPROCESS:
        return "it exists where commands are allowed: start `windlass worker --allow-commands`"
    return "a pool exists once a worker whose WINDLASS_POOLS has it was started"


async def check_placements(db: Database, workflows: Sequence[Workflow]) -> None:
    """Raise `InvalidWorkflow` with every `runs_on` that names a pool which no process has offered."""
    placed = [
        (workflow, step.name, pool)
        for workflow in workflows
        for step in workflow.steps
        if (pool := pool_of(step.action)) is not None
    ]
    if not placed:
        return
    async with db.once() as conn:
        known = await store.names(conn)
    names = f"the pools are {', '.join(known)}" if known else "there is none yet"
    mistakes = [
        (
            f"tasks.{step}.runs_on" if len(workflows) == 1 else f"{workflow.name}: tasks.{step}.runs_on",
            f"there is no pool {pool!r}: {names}; {_start_of(pool)}",
        )
        for workflow, step, pool in placed
        if pool not in known
    ]
    if mistakes:
        raise InvalidWorkflow(mistakes)
