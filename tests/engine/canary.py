"""Fills every kind of row of an org with a string that no other org may see. Names are not secret."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from tests.engine.harness import ManualWorker
from windlass.core.artifacts import Reference
from windlass.core.compositions import Composition, Part
from windlass.core.cron.schedule import Overlap
from windlass.core.jobs.job import Failed
from windlass.core.jobs.spec import JobSpec, JobTemplate, Limit, SchemaMode, Unique
from windlass.core.workflows.workflow import CompositionKind
from windlass.engine import artifacts, messages, quarantine, secrets, workflows
from windlass.engine.compositions import control as compositions
from windlass.engine.database import Tenant
from windlass.engine.events import subscriptions
from windlass.engine.jobs import checkpoints, queues, schemas, submit
from windlass.engine.jobs import control as jobs
from windlass.engine.orgs import keys
from windlass.engine.quarantine import Kind
from windlass.engine.runs import start
from windlass.engine.runs.start import RunSpec
from windlass.engine.schedules import ojs as ojs_schedules
from windlass.engine.workers import remote, remote_reports, turn
from windlass.engine.workers.remote import Fetch
from windlass.engine.workers.remote_reports import RemoteReport
from windlass.engine.workers.turn import Turn
from windlass.store.messages import waiters
from windlass.store.messages.waiters import HandlerWait

CANARY = "canary-7f3a"
NAME = "vault"  # of every named object


@dataclass(frozen=True)
class Planted:
    """Ids and names of the objects of the org."""

    workflow: str
    run: UUID
    job: UUID
    failed_job: UUID
    composition: UUID
    subscription: UUID
    cron: str
    queue: str
    worker: str
    job_type: str
    key: str


async def plant(db: Tenant) -> Planted:
    """Write the canary to every table. `db` must not be isolated, because loops and Python workers are involved."""
    c, n = CANARY, NAME
    tasks: dict[str, Any] = {
        "pay": {"job": f"{n}.pay.v1", "queue": n, "input": {"secret": c}},
        "each": {"job": f"{n}.each.v1", "queue": n, "foreach": "input.items"},
        "nap": {"sleep": "1d"},
        "answer": {"wait_for_webhook": {"timeout": "1d"}},
    }
    document = {"name": n, "description": c, "labels": {n: c}, "trigger": {"cron": "0 0 1 1 *"}, "tasks": tasks}
    await workflows.publish_many(db, [document])
    await secrets.set_(db, "CANARY", c)
    spec = RunSpec(input={"secret": c, "items": [c, c]}, labels={n: c}, idempotency_key=n)
    [run] = await start.start(db, n, [spec])
    worker = ManualWorker(db, f"{n}-ours")
    await worker.register([n])
    [job, failed] = await jobs.submit(
        db,
        [
            JobSpec(
                type=f"{n}.a.v1",
                payload={"secret": c},
                queue=n,
                tags=[c],
                meta={"tenant_id": n, "note": c},
                idempotency_key=n,
            ),
            JobSpec(type=f"{n}.b.v1", payload={"secret": c}, queue=f"{n}-dead", max_attempts=1),
        ],
    )
    limited = JobSpec(
        type=f"{n}.c.v1", payload=[c], queue=n, unique=Unique(key=n), limit=Limit(key=n, rate=1, concurrency=1)
    )
    await submit.push(db, [limited, JobSpec(type=f"{n}.c.v1", payload=[c], queue=n, limit=limited.limit)])
    [[taken]] = await remote.fetch(db, [Fetch(queues=[f"{n}-dead"], count=1, worker=n)])
    lane = replace((await turn.look(db, [db.stored(n)]))[0], seq=0)
    request = Turn(worker=f"{n}-ours", lease=timedelta(days=1), lanes=[(lane, 1)], count=1)
    [[mine], _] = await turn.turn(db, request)
    await turn.turn(
        db,
        Turn(
            worker=f"{n}-ours",
            lease=timedelta(days=1),
            lines=[(mine.id, mine.epoch, 1, 1, mine.created_at, "INFO", c)],
        ),
    )
    await checkpoints.save(db, mine.id, {"secret": c})
    await checkpoints.record_progress(db, mine.id, 0.5, c, {"secret": c})
    await artifacts.reserve(db, mine, Reference(run, "pay", 0, n), media_type=f"text/{c}")
    await artifacts.complete(db, mine, Reference(run, "pay", 0, n), 1)
    await remote.heartbeat(db, n, [taken.id], host=c)
    await remote_reports.record(
        db, [RemoteReport(failed, Failed({"type": c, "message": c}, retryable=False), worker=n)]
    )
    part = Part(type=f"{n}.part.v1", fields={"payload": [c]}, queue=n)
    composition = await compositions.create(db, Composition(kind=CompositionKind.CHAIN, parts=(part, part), name=n))
    subscription, _ = await subscriptions.create(db, {"url": f"https://{c}.example/x", "events": ["job.failed"]})
    template = JobTemplate(JobSpec(type=f"{n}.tick.v1", payload=[c], queue=n))
    await ojs_schedules.put(
        db,
        n,
        expression="0 0 1 1 *",
        timezone="UTC",
        overlap=Overlap.ALLOW,
        asked={"name": n, "note": c},
        template=template,
    )
    await messages.publish(db, n, key=n, payload={"secret": c}, id_=c)
    async with db.begin() as conn:
        await waiters.begin_in_handlers(conn, [HandlerWait(mine.id, c, n, c, is_signal=False)])
        await conn.execute(
            "insert into windlass.start_request (id, org, workflow, input, idempotency_key, sender)"
            " values (gen_random_uuid(), $1, $2, to_jsonb($3::text), $3, $3)",
            db.org,
            n,
            c,
        )
    await schemas.register(db, f"{n}.a.v1", "1.0.0", {"title": c}, mode=SchemaMode.OFF)
    await queues.pause(db, f"{n}-paused")
    await queues.set_depth_limit(db, n, max_depth=1000, config={"note": c})
    await quarantine.set_aside(db, Kind.RUN, run, RuntimeError(c))
    made = await keys.create(db, role="developer", name=n)
    return Planted(n, run, job, failed, composition, subscription.id, n, n, n, f"{n}.a.v1", made.row.id)
