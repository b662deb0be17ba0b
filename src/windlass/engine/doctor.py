"""Diagnoses a database: one function loads facts, the others are pure and turn them into findings with a fix."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from shlex import quote
from urllib.parse import urlsplit

from windlass.core import duration
from windlass.core.jobs.spec import advice
from windlass.core.launches import POOL_QUEUE, pool_queue
from windlass.core.orgs import DEFAULT_ORG, owner
from windlass.effects.launchers import store_warning
from windlass.engine import maintenance, pools
from windlass.engine.database import MOST_COUNTED, URL_LIVE_WITHIN, Database
from windlass.engine.runs.inspect import serves
from windlass.schemas.monitoring import Quarantined
from windlass.store import doctor as store
from windlass.store import hooks, job_schemas, quarantine
from windlass.store import pools as pool_store
from windlass.store import workers as worker_store
from windlass.store.doctor import Server, Snapshot, Waiting
from windlass.store.hooks import RecordedUrl
from windlass.store.job_schemas import Drift
from windlass.store.pools import PoolRow
from windlass.store.workers import ALIVE_WITHIN, RUNTIME, WorkerRow

OLDEST_VERSION = 15
PATIENCE = timedelta(minutes=1)
MOST_ENTRIES = 10  # quarantine entries that are listed individually


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    check: str
    message: str
    fix: str | None = None


async def examine(db: Database) -> list[Finding]:
    """Return all findings about a reachable database; change nothing. Pending migrations end the checks early."""
    async with db.begin() as conn:
        server = await store.server(conn)
    missing = await maintenance.pending(db)
    findings = [*judge_server(server), judge_schema(missing)]
    if missing:
        return findings
    async with db.begin() as conn:
        types, lines = await store.types(conn), await store.waiting(conn)
        snapshots = await store.snapshots(conn, older_than=PATIENCE)
        workers = await worker_store.list_(conn, alive_within=ALIVE_WITHIN)
        registry = (await worker_store.registry(conn)).types
        urls = await hooks.list_urls(conn, live_within=URL_LIVE_WITHIN)
        called = await hooks.hooks_in_use(conn)
        aside = await quarantine.list_(conn, limit=1000)
        offered = await pool_store.list_(conn, org=None, cap=MOST_COUNTED)
        drifts = await job_schemas.drifting(conn, alive_within=ALIVE_WITHIN)
    alive = [worker for worker in workers if worker.alive]
    findings += [judge_types(types), judge_workers(alive, lines), *judge_lines(lines, alive, registry)]
    findings += judge_drifts(drifts)
    findings += judge_pools(offered, lines)
    findings += judge_object_store(offered, db.objects_url)
    findings.append(judge_public_url(urls, db.public_url.configured, called=called))
    return [*findings, *judge_queues(lines), *judge_snapshots(snapshots), *judge_quarantine(aside)]


def judge_server(server: Server) -> Iterator[Finding]:
    major = server.version // 10_000
    if major < OLDEST_VERSION:
        problem = f"Postgres {server.name} is too old"
        yield Finding(Level.PROBLEM, "version", problem, f"use Postgres {OLDEST_VERSION} or later")
    else:
        yield Finding(Level.OK, "version", f"Postgres {server.name}")
    weak = [name for name in ("fsync", "synchronous_commit", "full_page_writes") if getattr(server, name) == "off"]
    if weak:
        problem = f"{' and '.join(weak)} off: acknowledged writes can be lost in a crash"
        fix = "; ".join(f"alter system set {name} = on" for name in weak) + "; select pg_reload_conf()"
        yield Finding(Level.PROBLEM, "durability", problem, fix)
    else:
        yield Finding(Level.OK, "durability", "fsync, synchronous_commit and full_page_writes are on")
    if server.timezone.upper() not in ("UTC", "ETC/UTC", "GMT", "ETC/GMT"):
        problem = f"sessions default to {server.timezone}: timestamps of other clients without a time zone are shifted"
        fix = "alter database NAME set timezone = 'UTC' (and reset it for the role)"
        yield Finding(Level.WARNING, "time zone", problem, fix)
    else:
        yield Finding(Level.OK, "time zone", "UTC")


def judge_schema(missing: Sequence[str]) -> Finding:
    if missing:
        return Finding(Level.PROBLEM, "schema", f"not current, missing: {', '.join(missing)}", "windlass db migrate")
    return Finding(Level.OK, "schema", "current")


def judge_types(types: Iterable[str]) -> Finding:
    odd = [type_ for type_ in types if advice(type_)]
    if not odd:
        return Finding(Level.OK, "types", "all are domain.action.vN")
    named = ", ".join(map(repr, odd[:5])) + (f" and {len(odd) - 5} more" if len(odd) > 5 else "")
    fix = "name new jobs like content.thumbnail.v1: a version lets old jobs finish on old code"
    return Finding(Level.WARNING, "types", f"not of the form domain.action.vN: {named}", fix)


def judge_workers(alive: Sequence[WorkerRow], lines: Sequence[Waiting]) -> Finding:
    if alive:
        busy, slots = sum(w.active for w in alive), sum(w.concurrency for w in alive)
        return Finding(Level.OK, "workers", f"{len(alive)} alive, {busy} of {slots} slots busy")
    problem = "none is alive" + (" and jobs are waiting" if lines else "")
    return Finding(Level.WARNING, "workers", problem, "windlass worker MODULE:APP")


def judge_lines(
    lines: Sequence[Waiting], alive: Sequence[WorkerRow], registry: Mapping[str, tuple[str, bool]]
) -> Iterator[Finding]:
    """Yield a finding for jobs that have waited for more than a minute because no worker will claim them."""
    for line in lines:
        runtime, enabled = registry.get(line.type, (RUNTIME, True))
        org, queue = owner(line.queue)
        problem = f"{line.type} in queue {line.queue} has waited {duration.rough(line.waits)}"
        if line.waits <= PATIENCE:
            continue
        if queue.startswith(POOL_QUEUE) and not line.paused:
            continue  # see `judge_pools`
        if line.paused:
            fix = f"windlass queues resume {quote(queue)}" + (f" --org {org}" if org != DEFAULT_ORG else "")
            yield Finding(Level.WARNING, "waiting", f"{problem}: the queue is paused", fix)
        elif not enabled:
            fix = "set is_enabled of its row in workflow.workflow_registry"
            yield Finding(Level.WARNING, "waiting", f"{problem}: it is disabled in the registry", fix)
        elif runtime != RUNTIME:
            fix = f"start a {runtime} worker, or set its runtime in workflow.workflow_registry to {RUNTIME}"
            yield Finding(Level.WARNING, "waiting", f"{problem}: it is registered to runtime {runtime}", fix)
        elif not any(serves(worker, line.queue, line.type) for worker in alive):
            fix = f"start a worker that has a handler for it: windlass worker MODULE:APP --queue {quote(queue)}"
            yield Finding(Level.PROBLEM, "waiting", f"{problem}: no live worker serves it", fix)


def judge_drifts(drifts: Sequence[Drift]) -> Iterator[Finding]:
    """Yield a finding for each type of which live workers serve different schemas."""
    for drift in drifts:
        served = "; ".join(f"{digest} on {names}" for digest, names in zip(drift.digests, drift.workers, strict=True))
        problem = f"live workers serve several schemas of {drift.type}: {served}"
        fix = f"deploy the same code to all of them, and compare: windlass types show {quote(drift.type)}"
        yield Finding(Level.WARNING, "types", problem, fix)


def judge_pools(rows: Sequence[PoolRow], lines: Sequence[Waiting]) -> Iterator[Finding]:
    """Yield a finding for each pool that jobs wait for and that cannot be used."""
    for row in rows:
        if row.waiting and (fix := pools.fix_of(row)) is not None:
            state = "is not alive" if pools.is_silent(row) else f"has a problem: {row.problem}"
            yield Finding(Level.PROBLEM, "pools", f"{row.waiting} jobs wait for {row.name}, which {state}", fix)
    known = {pool_queue(row.name) for row in rows}
    for queue in sorted({owner(line.queue)[1] for line in lines} - known):
        if queue.startswith(POOL_QUEUE):
            name = queue.removeprefix(POOL_QUEUE)
            fix = "start a worker that is configured with it (WINDLASS_POOLS), or cancel the runs"
            yield Finding(Level.PROBLEM, "pools", f"jobs wait for {name}, and there is no such pool", fix)


def judge_object_store(rows: Sequence[PoolRow], url: str | None) -> Iterator[Finding]:
    """Yield a finding for each live pool whose jobs may run on other machines, if the object store is a folder."""
    for row in rows:
        warning = None if url is None or pools.is_silent(row) else store_warning(row.launcher, url)
        if warning is not None:
            yield Finding(Level.WARNING, "object store", f"pool {row.name}: {warning.problem}", warning.fix)


def judge_queues(lines: Sequence[Waiting]) -> Iterator[Finding]:
    longest: dict[str, Waiting] = {}
    for line in lines:
        if line.queue not in longest or line.waits > longest[line.queue].waits:
            longest[line.queue] = line
    for queue, line in sorted(longest.items()):
        problem = f"{queue}: the oldest waiting job ({line.type}) has waited {duration.rough(line.waits)}"
        late = line.waits > PATIENCE
        fix = "add workers or raise --concurrency, unless a finding above explains it" if late else None
        yield Finding(Level.WARNING if late else Level.OK, "queue", problem, fix)


def judge_public_url(urls: Sequence[RecordedUrl], own: str | None, *, called: bool) -> Finding:
    """Return the finding about the public URL: whether all processes agree on it and senders can reach it."""
    configured = {url.url for url in urls if url.configured and url.live} | ({own} if own else set())
    if len(configured) > 1:
        problem = f"processes have different public URLs: {', '.join(sorted(configured))}"
        return Finding(
            Level.PROBLEM, "public URL", problem, "set WINDLASS_PUBLIC_URL to the same value for all of them"
        )
    url = next(iter(configured), None) or (urls[0].url if urls else None)
    if not called:
        return Finding(Level.OK, "public URL", f"{url or 'none recorded'}; nothing is called from outside")
    if url is None:
        problem = "callbacks are in use, and no server has recorded its URL"
        return Finding(Level.WARNING, "public URL", problem, "start a server, or set WINDLASS_PUBLIC_URL")
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.startswith("127.") or host in ("::1", "0.0.0.0", "::"):  # noqa: S104 - compared only
        problem = f"callbacks are sent to {url}, which only this machine can reach"
        return Finding(Level.WARNING, "public URL", problem, "set WINDLASS_PUBLIC_URL where the server runs")
    return Finding(Level.OK, "public URL", f"callbacks are sent to {url}")


def judge_quarantine(entries: Sequence[Quarantined]) -> Iterator[Finding]:
    for entry in entries[:MOST_ENTRIES]:
        cause = f"{entry.error_type}: {entry.reason}"
        problem = f"{entry.kind} {entry.key} could not be processed ({entry.failures} times): {cause}"
        fix = f"fix the cause, then: windlass quarantine retry {entry.kind} {quote(entry.key)}"
        retried = entry.retry_at is not None
        yield Finding(
            Level.PROBLEM, "quarantine", problem, fix if retried else "see the log of that time for the cause"
        )
    if len(entries) > MOST_ENTRIES:
        problem = f"{len(entries) - MOST_ENTRIES} more items are in quarantine"
        yield Finding(Level.PROBLEM, "quarantine", problem, "windlass quarantine list")
    if not entries:
        yield Finding(Level.OK, "quarantine", "no items in quarantine")


def judge_snapshots(snapshots: Sequence[Snapshot]) -> Iterator[Finding]:
    for session in snapshots:
        who = (
            f"session {session.pid} ({session.application or session.user or 'unnamed'}, {session.state or 'unknown'})"
        )
        problem = f"{who} has held a snapshot for {duration.rough(session.age)}: vacuum cannot remove newer dead rows"
        yield Finding(Level.WARNING, "snapshots", problem, f"end it: select pg_terminate_backend({session.pid})")
    if not snapshots:
        yield Finding(Level.OK, "snapshots", f"none older than {duration.rough(PATIENCE)}")
