-- Schedules of workflows, and the addresses of workflows that are triggered by requests. Lock order: workflow,
-- schedule, run. The queries with names in _sql are for the public table of schedules that enqueue jobs. Other
-- schedulers may fire that too, and the idempotency key ensures one job per tick.

-- name: find_due
-- scope: global
-- Return schedules with a due tick, or with a buffered tick whose previous run has ended.
(select id from windlass.schedule where not paused and next_run_at <= windlass.now() and id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger')) and org <> all(array(select name from windlass.org where disabled_at is not null))
  order by next_run_at limit $1)
union all
(select s.id from windlass.schedule s
  where s.buffered_at is not null and not s.paused and s.id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger')) and s.org <> all(array(select name from windlass.org where disabled_at is not null)) and (s.next_run_at is null or s.next_run_at > windlass.now())
    and not exists (
      select from windlass.run r where r.workflow_id = s.workflow_id and r.state in ('pending', 'running')
         and r.idempotency_key like 'schedule/%' and not coalesce(r.labels ? 'backfill', false))
  limit $1)

-- name: lock_due
-- scope: global
-- Lock one due schedule with its workflow. Returns no row if another session has locked either: that session handles it, or it is
-- found again later.
select s.id, s.org, s.workflow_id, w.name, w.enabled, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at,
       s.buffered_at, s.paused, windlass.now() as now
  from windlass.schedule s join windlass.workflow w on w.id = s.workflow_id
 where s.id = $1 and not s.paused and (s.next_run_at <= windlass.now() or s.buffered_at is not null) and w.deleted_at is null
   for no key update of w, s skip locked

-- name: lock_named
-- scope: org
-- Lock the schedule of the workflow with this name, waiting for other sessions.
select s.id, s.org, s.workflow_id, w.name, w.enabled, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at,
       s.buffered_at, s.paused, windlass.now() as now
  from windlass.workflow w join windlass.schedule s on s.workflow_id = w.id
 where w.org = $1 and w.name = $2 and w.deleted_at is null
   for no key update of w, s

-- name: live_runs
-- scope: global
-- Return the live runs that the schedule of this workflow started, without backfills.
select id from windlass.run where workflow_id = $1 and state in ('pending', 'running')
   and idempotency_key like 'schedule/%' and not coalesce(labels ? 'backfill', false) order by id

-- name: move
-- scope: owned
-- Advance a schedule after its ticks were handled.
update windlass.schedule
   set next_run_at = $2, buffered_at = $3, skipped_at = coalesce($4, skipped_at),
       skipped_reason = case when $4::timestamptz is null then skipped_reason else $5 end,
       last_run_id = coalesce($6, last_run_id),
       last_run_at = case when $6::uuid is null then last_run_at else windlass.now() end
 where id = $1

-- name: set_next
-- scope: owned
-- Set the next tick of a schedule that has none, because its workflow was enabled.
update windlass.schedule set next_run_at = $2, updated_at = windlass.now() where id = $1 and not paused and next_run_at is null

-- name: disable
-- scope: owned
-- Clear the next tick of the schedule of a workflow that was disabled. The row is kept.
update windlass.schedule set next_run_at = null, buffered_at = null, updated_at = windlass.now() where workflow_id = $1

-- name: pause
-- scope: owned
-- Pause a schedule, on request or because its row is invalid.
update windlass.schedule
   set paused = true, paused_reason = $2, next_run_at = null, buffered_at = null, updated_at = windlass.now()
 where id = $1

-- name: resume
-- scope: owned
-- Resume a paused schedule. Ticks missed during the pause are not made up for.
update windlass.schedule
   set paused = false, paused_reason = null, next_run_at = $2, buffered_at = null, updated_at = windlass.now()
 where id = $1 and paused

-- name: put
-- scope: org
-- Insert or update the schedules of workflows that were just published. If cron expression and time zone are unchanged, the next
-- tick stays the same, otherwise it is set anew. A paused schedule stays paused.
insert into windlass.schedule as s (id, org, workflow_id, cron, timezone, input, overlap, catch_up, next_run_at)
select k.id, $9, k.workflow_id, k.cron, k.timezone, k.input, k.overlap, k.catch_up, k.next_run_at
  from unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::jsonb[], $6::text[], $7::text[], $8::timestamptz[])
    as k(id, workflow_id, cron, timezone, input, overlap, catch_up, next_run_at)
on conflict (workflow_id) do update
   set cron = excluded.cron, timezone = excluded.timezone, input = excluded.input, overlap = excluded.overlap,
       catch_up = excluded.catch_up, updated_at = windlass.now(),
       next_run_at = case when s.paused then null
                          when (s.cron, s.timezone) = (excluded.cron, excluded.timezone) then s.next_run_at
                          else excluded.next_run_at end,
       buffered_at = case when (s.cron, s.timezone, s.overlap) = (excluded.cron, excluded.timezone, excluded.overlap)
                          then s.buffered_at end

-- name: set_events
-- scope: owned
-- Set the names of the events that start runs of workflows; null means that no event does.
update windlass.workflow w set event = k.event from unnest($1::uuid[], $2::text[]) as k(id, event)
 where w.id = k.id and w.event is distinct from k.event

-- name: remove
-- scope: owned
-- Delete the schedules of workflows that have no cron trigger or were deleted.
delete from windlass.schedule where workflow_id = any($1)

-- name: missing
-- scope: owned
-- Return which of these workflows lack a schedule or a token.
select w.id from windlass.workflow w
 where w.id = any($1) and not exists (select from windlass.schedule s where s.workflow_id = w.id)
union
select w.id from windlass.workflow w where w.id = any($2) and w.token_hash is null

-- name: next_due
-- scope: global
-- Return how long until a schedule of plain SQL enqueues a job; of the schedules of workflows, how long until one
-- starts a run, whether any tick is buffered, and whether a buffered tick can fire now; and of the schedules of the
-- Open Job Spec, how long until one is due, and whether a buffered tick can fire now.
select (select greatest(next_run_at, 'epoch') - windlass.now() from workflow.workflow_schedule
         where enabled and deleted_at is null and next_run_at < 'infinity'
           and id <> all(array(select key::uuid from windlass.quarantine where kind = 'schedule')) and org <> all(array(select name from windlass.org where disabled_at is not null)) order by next_run_at limit 1),
       (select greatest(next_run_at, 'epoch') - windlass.now() from windlass.schedule
         where not paused and next_run_at < 'infinity'
           and id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger')) and org <> all(array(select name from windlass.org where disabled_at is not null)) order by next_run_at limit 1),
       exists (select from windlass.schedule where buffered_at is not null and not paused),
       exists (select from windlass.schedule s
                where s.buffered_at is not null and not s.paused and s.id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger')) and s.org <> all(array(select name from windlass.org where disabled_at is not null)) and not exists (
                  select from windlass.run r where r.workflow_id = s.workflow_id and r.state in ('pending', 'running')
                     and r.idempotency_key like 'schedule/%' and not coalesce(r.labels ? 'backfill', false))),
       (select greatest(next_run_at, 'epoch') - windlass.now() from windlass.cron where enabled and next_run_at < 'infinity'
          and id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron')) and org <> all(array(select name from windlass.org where disabled_at is not null)) order by next_run_at limit 1),
       exists (select from windlass.cron c
                where c.buffered_at is not null and c.enabled and c.id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron')) and c.org <> all(array(select name from windlass.org where disabled_at is not null)) and not exists (
                 select from workflow.workflow_run j
                  where j.id = c.last_job_id and j.status in ('pending', 'leased') and j.deleted_at is null))

-- name: list
-- scope: org
-- List at most $3 schedules by workflow name, after name $2.
select w.name as workflow, s.id, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at, s.buffered_at, s.last_run_at,
       s.last_run_id, s.skipped_at, s.skipped_reason, s.paused, s.paused_reason, w.enabled, s.created_at, s.updated_at
  from windlass.workflow w join windlass.schedule s on s.workflow_id = w.id
 where w.org = $1 and w.name > $2 and w.deleted_at is null
 order by w.name limit $3

-- name: get
-- scope: org
-- Return the schedule of one workflow.
select w.name as workflow, s.id, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at, s.buffered_at, s.last_run_at,
       s.last_run_id, s.skipped_at, s.skipped_reason, s.paused, s.paused_reason, w.enabled, s.created_at, s.updated_at
  from windlass.workflow w join windlass.schedule s on s.workflow_id = w.id
 where w.org = $1 and w.name = $2 and w.deleted_at is null

-- name: add_tokens
-- scope: owned
-- Set tokens for workflows that have none. Returns the workflows whose token was set.
update windlass.workflow w set token_hash = t.token_hash
  from unnest($1::uuid[], $2::bytea[]) as t(id, token_hash) where w.id = t.id and w.token_hash is null returning w.id

-- name: remove_tokens
-- scope: owned
-- Remove the tokens of these workflows.
update windlass.workflow set token_hash = null where id = any($1) and token_hash is not null

-- name: rotate
-- scope: owned
-- Replace the token of a workflow. The old one stops working.
update windlass.workflow set token_hash = $2 where id = $1

-- name: of_token
-- scope: global
-- Return the workflow of this token, with its live version. A workflow of a disabled org counts as disabled.
select w.id, w.org, w.name, w.enabled and w.org <> all(array(select name from windlass.org where disabled_at is not null)) as enabled, v.id as version_id, windlass.now() as now
  from windlass.workflow w join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.token_hash = $1 and w.deleted_at is null

-- name: find_due_sql
-- scope: global
-- Return schedules that are due.
select id from workflow.workflow_schedule
 where next_run_at <= windlass.now() and enabled and deleted_at is null
   and id <> all(array(select key::uuid from windlass.quarantine where kind = 'schedule')) and org <> all(array(select name from windlass.org where disabled_at is not null))
 order by next_run_at limit $1

-- name: lock_due_sql
-- scope: global
-- Lock the given schedules that are due and not locked by another session. Also returns the current time.
select id, type, schedule, timezone, windlass.now() as now from workflow.workflow_schedule
 where id = any($1) and next_run_at <= windlass.now() and enabled and deleted_at is null
 order by id for update skip locked

-- name: fire_sql
-- scope: global
-- Enqueue one job per tick, whichever scheduler fires it, and advance the schedules. A schedule without a next time is disabled
-- and enqueues nothing.
with tick as (
  select * from unnest($1::uuid[], $2::timestamptz[]) as t(id, next_run_at)),
born as (
  insert into workflow.workflow_run (type, payload, priority, max_attempts, org, queue, needs_created_event, idempotency_key)
  select s.type, s.payload, s.priority, s.max_attempts, s.org, windlass.stored_queue(s.org, 'sql'), false,
         windlass.stored_queue(s.org, 'schedule:' || s.id || ':' ||
           extract(epoch from date_trunc('second', greatest(s.next_run_at, 'epoch')))::bigint)
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

-- name: list_sql
-- scope: org
-- List at most $1 schedules by type, after a given one.
select id, type, payload, schedule, timezone, next_run_at, last_run_at, enabled from workflow.workflow_schedule
 where org = $4 and deleted_at is null and (type, id) > ($2, $3) order by type, id limit $1
