"""Starts the runs that SQL clients have requested with `windlass.start`, and those that events trigger.

A request is deleted in the transaction that inserts its run, so it starts exactly one. A request that cannot start one
(a disabled workflow, a quota, an input that does not fit) is put into quarantine alone and retried. An event starts
nothing if its workflow has been disabled, deleted or given another trigger since.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from uuid import UUID

from windlass.core.expressions import expression
from windlass.core.expressions.scope import Facts, JsonText
from windlass.core.json_value import decode
from windlass.core.workflows.workflow import EventTrigger
from windlass.engine import quarantine
from windlass.engine.database import Database, Tenant
from windlass.engine.quarantine import Kind, split_batch
from windlass.engine.runs import start
from windlass.engine.runs.inputs import Versions, start_checked
from windlass.engine.runs.start import RunSpec
from windlass.store import workflows
from windlass.store.messages import start_requests
from windlass.store.messages.start_requests import FoundRequest, StartRequest
from windlass.store.postgres.pool import Connection


async def serve(db: Database, *, batch: int = 500) -> int:
    """Start the oldest requested runs; return how many requests were processed."""
    async with db.once() as conn:
        rows = await start_requests.find(conn, batch)
    alike: dict[FoundRequest, list[UUID]] = defaultdict(list)
    for row in rows:
        alike[row._replace(id=UUID(int=0))].append(row.id)
    served = 0
    for ids in alike.values():
        served += sum(await split_batch(ids, partial(_start, db), partial(quarantine.set_aside, db, Kind.START)))
    return served


async def retry(db: Database, id_: UUID) -> bool:
    """Serve one request from the quarantine."""
    await _start(db, [id_])
    return True


async def _start(db: Database, ids: Sequence[UUID]) -> int:
    """Serve requests of one sender for one workflow."""
    return await start_checked(db, partial(_take, db, ids))


async def _take(db: Database, ids: Sequence[UUID], checked: Versions) -> int:
    async with db.begin() as conn:
        taken = await start_requests.take(conn, ids)
        if not taken:
            return 0
        tenant = db.tenant(taken[0].org, actor=taken[0].sender)
        requests = [request for request in taken if request.headers is None]
        requests += await _triggered(conn, tenant, [request for request in taken if request.headers is not None])
        specs = [
            RunSpec(
                id=request.id,
                input=decode(request.input),
                idempotency_key=request.idempotency_key,
                event=decode(request.headers) if request.headers else None,
            )
            for request in requests
        ]
        _, wakeups = await start.include(conn, tenant, taken[0].workflow, specs, checked=checked)
    wakeups.poke(db)
    return len(taken)


async def _triggered(conn: Connection, db: Tenant, requests: Sequence[StartRequest]) -> list[StartRequest]:
    """Return the requests whose event still matches the trigger of the workflow, including its `if`."""
    if not requests:
        return []
    name = requests[0].workflow
    live = (await workflows.live(conn, [name], org=db.org)).get(name)
    if live is None or not live.enabled:
        return []
    trigger = (await db.definitions.one(conn, live.version_id)).trigger
    return [request for request in requests if isinstance(trigger, EventTrigger) and _holds(trigger, request)]


def _holds(trigger: EventTrigger, request: StartRequest) -> bool:
    headers = decode(request.headers)
    if headers["event-name"] != trigger.event:
        return False
    if trigger.condition is None:
        return True
    facts = Facts(trigger_body=JsonText(request.input), trigger_headers=headers)
    return expression.evaluate(expression.parse(trigger.condition), facts).holds
