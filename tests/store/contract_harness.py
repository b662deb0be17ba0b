"""Statements of the SQL contract: those of its design document and those that its clients send."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

# The statements of the design document, unchanged.
CREATE = """
insert into workflow.workflow_run (
  type,
  payload,
  idempotency_key
) values (
  'content.thumbnail.v1',
  '{"content_id":"c_123", "width": 300, "height": 300}',
  'content:c_123:thumbnail:300x300'
)
on conflict (idempotency_key) do nothing
returning id;
"""
CANCEL = """
update workflow.workflow_run
set status = 'cancelled', updated_at = now()
where id = :run_id
  and status in ('pending', 'leased');
"""
CLAIM = """
select id, type, payload, attempt, max_attempts
from workflow.workflow_run
where status = 'pending'
  and (type like 'billing.%' or type like 'payment.%')
  and run_at <= now()
  and deleted_at is null
order by priority asc, created_at asc
for update skip locked
limit 1;
"""
LEASE = """
update workflow.workflow_run
set status = 'leased',
    leased_by = :worker_id,
    lease_until = now() + interval '30 seconds',
    updated_at = now()
where id = :run_id;
"""
HEARTBEAT = """
update workflow.workflow_run
set lease_until = now() + interval '30 seconds',
    updated_at = now()
where id = :run_id and status = 'leased';
"""
CHECK = """
select status from workflow.workflow_run where id = :run_id;
-- if status = 'cancelled', stop execution gracefully
"""
LOG = """
insert into workflow.workflow_event (workflow_id, event_type, data)
values (:run_id, 'heartbeat', '{"extended_by_seconds": 30}');
"""
# What the unmodified clients send: unqualified names, the schema on the search path.
SUBMIT = """INSERT INTO workflow_run (id, type, payload, priority, run_at, idempotency_key, max_attempts)
  VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (idempotency_key) DO NOTHING RETURNING id"""
EVENT = "INSERT INTO workflow_event (workflow_id, event_type, data) VALUES ($1, $2, $3)"
STOP = """UPDATE workflow_run SET status = 'cancelled', updated_at = now()
  WHERE id = $1 AND status IN ('pending', 'leased')"""
_POLL = """UPDATE workflow_run SET status = 'leased', leased_by = $1, lease_until = now() + interval '30 seconds',
  updated_at = now() WHERE id = (SELECT id FROM workflow_run WHERE {due} AND deleted_at IS NULL
  AND (type LIKE $2 OR type LIKE $3) ORDER BY priority ASC, created_at ASC FOR UPDATE SKIP LOCKED LIMIT 1)
  RETURNING id, type, payload, attempt, max_attempts"""
POLL_PYTHON = _POLL.format(due="status = 'pending' AND run_at <= now()")
POLL_GO = _POLL.format(due="((status = 'pending' AND run_at <= now()) OR (status = 'leased' AND lease_until < now()))")
SUCCEED = "UPDATE workflow_run SET status = 'succeeded', result = $2, updated_at = now() WHERE id = $1"
FAIL = """UPDATE workflow_run SET status = $2, attempt = $3, run_at = $4, last_error = $5, updated_at = now()
  WHERE id = $1"""
EXTEND = """UPDATE workflow_run SET lease_until = now() + interval '1 second' * $2, updated_at = now()
  WHERE id = $1 AND status = 'leased'"""
DEPTH = "SELECT count(*) FROM workflow_run WHERE type LIKE $1 AND status = 'pending' AND deleted_at IS NULL"
COLUMNS = """id, type, payload, status, priority, run_at, idempotency_key, attempt, max_attempts, leased_by,
  lease_until, last_error, result, created_at, updated_at"""
GET = f"SELECT {COLUMNS} FROM workflow_run WHERE id = $1 AND deleted_at IS NULL"
LIST = f"""SELECT {COLUMNS} FROM workflow_run WHERE deleted_at IS NULL AND type = $1 AND status = $2
  ORDER BY created_at DESC LIMIT $3 OFFSET $4"""
EVENTS = """SELECT id, workflow_id, event_type, data, created_at FROM workflow_event WHERE workflow_id = $1
  ORDER BY created_at ASC"""
SCHEDULE = """INSERT INTO workflow_schedule (type, payload, schedule, timezone, next_run_at, priority, max_attempts)
  VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id"""
SCHEDULE_GO = """INSERT INTO workflow_schedule (id, type, payload, schedule, timezone, next_run_at, priority,
  max_attempts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"""
PAUSE = "UPDATE workflow_schedule SET enabled = $2, updated_at = now() WHERE id = $1 AND deleted_at IS NULL"
UNSCHEDULE = """UPDATE workflow_schedule SET deleted_at = now(), enabled = false, updated_at = now()
  WHERE id = $1 AND deleted_at IS NULL"""
SCHEDULES = """SELECT id, type, payload, schedule, timezone, next_run_at, last_run_at, enabled, priority, max_attempts
  FROM workflow_schedule WHERE deleted_at IS NULL ORDER BY created_at"""
TICK = """SELECT id, type, payload, schedule, timezone, next_run_at, priority, max_attempts FROM workflow_schedule
  WHERE next_run_at <= now() AND enabled = true AND deleted_at IS NULL ORDER BY next_run_at
  FOR UPDATE SKIP LOCKED LIMIT 10"""
FIRE = """INSERT INTO workflow_run (type, payload, priority, max_attempts, run_at, idempotency_key)
  VALUES ($1, $2, $3, $4, now(), $5) ON CONFLICT (idempotency_key) DO NOTHING RETURNING id"""
MOVE_ON = "UPDATE workflow_schedule SET next_run_at = $2, last_run_at = now(), updated_at = now() WHERE id = $1"
Connection = Any
NOW = datetime.now(UTC)


def bound(statement: str, **values: Any) -> tuple[str, list[Any]]:
    """Replace the `:name` parameters of a statement by `$n`; return it with its arguments."""
    names = list(dict.fromkeys(re.findall(r"(?<!:):(\w+)", statement)))
    for n, name in enumerate(names, 1):
        statement = statement.replace(f":{name}", f"${n}")
    return statement, [values[name] for name in names]


async def execute(conn: Connection, statement: str, **values: Any) -> list[Any]:
    text, arguments = bound(statement, **values)
    return list(await conn.fetch(text, *arguments))


async def row(conn: Connection, id_: UUID) -> dict[str, Any]:
    return dict(await conn.fetchrow("select * from workflow.workflow_run where id = $1", id_))


async def submitted(client: Connection, type_: str = "billing.invoice.v1", **columns: Any) -> UUID:
    id_ = uuid4()
    given = {"priority": 100, "run_at": NOW - timedelta(seconds=1), "key": None, "max_attempts": 3, **columns}
    await client.fetchval(SUBMIT, id_, type_, "{}", *(given[k] for k in ("priority", "run_at", "key", "max_attempts")))
    return id_


async def polled(client: Connection, worker: str = "billing-1", statement: str = POLL_PYTHON) -> UUID | None:
    found = await client.fetchrow(statement, worker, "billing.%", "payment.%")
    return found["id"] if found else None
