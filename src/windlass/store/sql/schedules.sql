-- Schedules that enqueue jobs: the public table of the contract. Foreign schedulers may fire it too, and the idempotency key
-- ensures one job per tick.

-- name: find_due
-- Return schedules that are due.
select id from workflow.workflow_schedule
 where next_run_at <= windlass.now() and enabled and deleted_at is null
   and id <> all(array(select key::uuid from windlass.quarantine where kind = 'schedule'))
 order by next_run_at limit $1

-- name: lock_due
-- Lock those of these schedules that are due and that no other session has locked. Also returns the current time.
select id, type, schedule, timezone, windlass.now() as moment from workflow.workflow_schedule
 where id = any($1) and next_run_at <= windlass.now() and enabled and deleted_at is null
 order by id for update skip locked

-- name: fire
-- Enqueue one job per tick, whichever scheduler fires it, and advance the schedules. A schedule without a next time is disabled
-- and enqueues nothing.
with tick as (
  select * from unnest($1::uuid[], $2::timestamptz[]) as t(id, next_run_at)),
born as (
  insert into workflow.workflow_run (type, payload, priority, max_attempts, needs_created_event, idempotency_key)
  select s.type, s.payload, s.priority, s.max_attempts, false,
         'schedule:' || s.id || ':' || extract(epoch from date_trunc('second', greatest(s.next_run_at, 'epoch')))::bigint
    from workflow.workflow_schedule s join tick on tick.id = s.id where tick.next_run_at is not null
  on conflict (idempotency_key) do nothing
  returning id),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, actor) select id, 'created', $3 from born),
moved as (
  update workflow.workflow_schedule s
     set next_run_at = coalesce(tick.next_run_at, s.next_run_at), enabled = tick.next_run_at is not null,
         last_run_at = case when tick.next_run_at is null then s.last_run_at else windlass.now() end, updated_at = windlass.now()
    from tick where s.id = tick.id)
select id from born

-- name: list
-- List schedules by type, $1 at a time, after a given one.
select id, type, payload, schedule, timezone, next_run_at, last_run_at, enabled from workflow.workflow_schedule
 where deleted_at is null and (type, id) > ($2, $3) order by type, id limit $1
