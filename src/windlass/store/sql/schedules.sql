-- Schedules that enqueue jobs: the contract's public table. Foreign tickers serve it too; the key keeps a tick single.

-- name: find_due
-- Schedules whose time has come.
select id from workflow.workflow_schedule
 where next_run_at <= windlass.now() and enabled and deleted_at is null
   and id <> all(array(select key::uuid from windlass.quarantine where kind = 'schedule'))
 order by next_run_at limit $1

-- name: lock_due
-- Lock those of these schedules that are due and that no other ticker holds; also what time it is.
select id, type, schedule, timezone, windlass.now() as moment from workflow.workflow_schedule
 where id = any($1) and next_run_at <= windlass.now() and enabled and deleted_at is null
 order by id for update skip locked

-- name: fire
-- Enqueue a job for each tick, once whoever ticks, and move the schedules on; a schedule without a next time is paused.
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
-- Schedules by type, $1 at a time, after one of them.
select id, type, payload, schedule, timezone, next_run_at, last_run_at, enabled from workflow.workflow_schedule
 where deleted_at is null and (type, id) > ($2, $3) order by type, id limit $1
