-- What starts runs: schedules of workflows, and the addresses of those that wait for a request.
-- Lock order: workflow, schedule, run.

-- name: find_due
-- Schedules with something to do: a tick whose time has come, or one that waited for a run that has ended.
(select id from windlass.schedule where not paused and next_run_at <= windlass.now() and id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger'))
  order by next_run_at limit $1)
union all
(select s.id from windlass.schedule s
  where s.buffered_at is not null and not s.paused and s.id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger')) and (s.next_run_at is null or s.next_run_at > windlass.now())
    and not exists (
      select from windlass.run r where r.workflow_id = s.workflow_id and r.state in ('pending', 'running')
         and r.idempotency_key like 'schedule/%' and not coalesce(r.labels ? 'backfill', false))
  limit $1)

-- name: hold_due
-- Take one of them with its workflow; what somebody else holds is in good hands, or is looked for again.
select s.id, s.org, s.workflow_id, w.name, w.enabled, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at,
       s.buffered_at, s.paused, windlass.now() as now
  from windlass.schedule s join windlass.workflow w on w.id = s.workflow_id
 where s.id = $1 and not s.paused and (s.next_run_at <= windlass.now() or s.buffered_at is not null) and w.deleted_at is null
   for no key update of w, s skip locked

-- name: hold_named
-- Take the schedule of a workflow of this name, waiting for whoever has it.
select s.id, s.org, s.workflow_id, w.name, w.enabled, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at,
       s.buffered_at, s.paused, windlass.now() as now
  from windlass.workflow w join windlass.schedule s on s.workflow_id = w.id
 where w.org = $1 and w.name = $2 and w.deleted_at is null
   for no key update of w, s

-- name: live_runs
-- The runs that the clock started and that are under way.
select id from windlass.run where workflow_id = $1 and state in ('pending', 'running')
   and idempotency_key like 'schedule/%' and not coalesce(labels ? 'backfill', false) order by id

-- name: move
-- A schedule after its ticks were seen to.
update windlass.schedule
   set next_run_at = $2, buffered_at = $3, skipped_at = coalesce($4, skipped_at),
       skipped_reason = case when $4::timestamptz is null then skipped_reason else $5 end,
       last_run_id = coalesce($6, last_run_id),
       last_run_at = case when $6::uuid is null then last_run_at else windlass.now() end
 where id = $1

-- name: set_next
-- When a schedule fires next, where that was open: its workflow was switched on.
update windlass.schedule set next_run_at = $2, updated_at = windlass.now() where id = $1 and not paused and next_run_at is null

-- name: silence
-- The schedule of a workflow that was switched off fires no more; the row stays.
update windlass.schedule set next_run_at = null, buffered_at = null, updated_at = windlass.now() where workflow_id = $1

-- name: pause
-- By a person, or because the row makes no sense.
update windlass.schedule
   set paused = true, paused_reason = $2, next_run_at = null, buffered_at = null, updated_at = windlass.now()
 where id = $1

-- name: resume
-- Ticks of the pause are not made up for.
update windlass.schedule
   set paused = false, paused_reason = null, next_run_at = $2, buffered_at = null, updated_at = windlass.now()
 where id = $1 and paused

-- name: keep
-- The schedules of workflows as just published. The same times go on where they were, others begin anew; a pause stays.
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

-- name: remove
-- These workflows have no cron trigger, or are gone.
delete from windlass.schedule where workflow_id = any($1)

-- name: lacking
-- Which of these workflows have no schedule, or no token?
select w.id from windlass.workflow w
 where w.id = any($1) and not exists (select from windlass.schedule s where s.workflow_id = w.id)
union
select w.id from windlass.workflow w where w.id = any($2) and w.token_hash is null

-- name: next_due
-- How long until a schedule enqueues a job; until one starts a run; whether a tick waits for a run; whether it need not any more.
select (select greatest(next_run_at, 'epoch') - windlass.now() from workflow.workflow_schedule
         where enabled and deleted_at is null and next_run_at < 'infinity'
           and id <> all(array(select key::uuid from windlass.quarantine where kind = 'schedule')) order by next_run_at limit 1),
       (select greatest(next_run_at, 'epoch') - windlass.now() from windlass.schedule
         where not paused and next_run_at < 'infinity'
           and id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger')) order by next_run_at limit 1),
       exists (select from windlass.schedule where buffered_at is not null and not paused),
       exists (select from windlass.schedule s
                where s.buffered_at is not null and not s.paused and s.id <> all(array(select key::uuid from windlass.quarantine where kind = 'trigger')) and not exists (
                  select from windlass.run r where r.workflow_id = s.workflow_id and r.state in ('pending', 'running')
                     and r.idempotency_key like 'schedule/%' and not coalesce(r.labels ? 'backfill', false)))

-- name: list
-- Schedules by the name of their workflow, $3 at a time, after name $2.
select w.name as workflow, s.id, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at, s.buffered_at, s.last_run_at,
       s.last_run_id, s.skipped_at, s.skipped_reason, s.paused, s.paused_reason, w.enabled, s.created_at, s.updated_at
  from windlass.workflow w join windlass.schedule s on s.workflow_id = w.id
 where w.org = $1 and w.name > $2 and w.deleted_at is null
 order by w.name limit $3

-- name: get
-- The same for one name, and what time it is.
select w.name as workflow, s.id, s.cron, s.timezone, s.input, s.overlap, s.catch_up, s.next_run_at, s.buffered_at, s.last_run_at,
       s.last_run_id, s.skipped_at, s.skipped_reason, s.paused, s.paused_reason, w.enabled, s.created_at, s.updated_at
  from windlass.workflow w join windlass.schedule s on s.workflow_id = w.id
 where w.org = $1 and w.name = $2 and w.deleted_at is null

-- name: give_tokens
-- Addresses for workflows that have none yet; the answer is whose token was taken.
update windlass.workflow w set token_hash = t.token_hash
  from unnest($1::uuid[], $2::bytea[]) as t(id, token_hash) where w.id = t.id and w.token_hash is null returning w.id

-- name: take_tokens
-- These workflows have no address any more.
update windlass.workflow set token_hash = null where id = any($1) and token_hash is not null

-- name: rotate
-- Another token; the old one stops working.
update windlass.workflow set token_hash = $2 where id = $1

-- name: of_token
-- Whose address is this, and which version is live?
select w.id, w.org, w.name, w.enabled, v.id as version_id, windlass.now() as now
  from windlass.workflow w join windlass.version v on v.workflow_id = w.id and v.number = w.live
 where w.token_hash = $1 and w.deleted_at is null
