-- Schedules that enqueue jobs of the Open Job Spec. Whoever serves one holds its row.

-- name: put
-- A schedule as it was said last; the same times go on where they were. Whether it is new is told, too.
insert into windlass.cron as c (id, org, name, expression, timezone, overlap, asked, template, next_run_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (org, name) do update
   set expression = excluded.expression, timezone = excluded.timezone, overlap = excluded.overlap, asked = excluded.asked,
       template = excluded.template, enabled = true, updated_at = windlass.now(),
       buffered_at = case when c.overlap = excluded.overlap then c.buffered_at end,
       next_run_at = case when (c.expression, c.timezone) = (excluded.expression, excluded.timezone) and c.enabled
                          then c.next_run_at else excluded.next_run_at end
returning *, xmax = 0 as is_new

-- name: list
-- By name, and how many there are.
select *, count(*) over () as total from windlass.cron where org = $1 order by name limit $2 offset $3

-- name: delete
-- It fires no more.
delete from windlass.cron where org = $1 and name = $2 returning *

-- name: find_due
-- Those whose time has come, and those whose tick waited for a job that has ended.
(select id from windlass.cron where enabled and next_run_at <= windlass.now() and id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron'))
  order by next_run_at limit $1)
union
(select c.id from windlass.cron c
  where c.buffered_at is not null and c.enabled and c.id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron')) and not exists (
    select from workflow.workflow_run j where j.id = c.last_job_id and j.status in ('pending', 'leased') and j.deleted_at is null)
  limit $1)

-- name: hold
-- Take one of them; what somebody else holds is in good hands. `live`: the job of its last tick is under way.
select c.*, windlass.now() as now,
       exists (select from workflow.workflow_run j
                where j.id = c.last_job_id and j.status in ('pending', 'leased') and j.deleted_at is null) as live
  from windlass.cron c where c.id = $1 and c.enabled for update of c skip locked

-- name: move
-- After its ticks were seen to; $6 says why a tick made no job.
with moved as (
  update windlass.cron set next_run_at = $2, buffered_at = $3, last_job_id = coalesce($4, last_job_id),
         last_run_at = case when $4::uuid is null then last_run_at else windlass.now() end,
         run_count = run_count + case when $4::uuid is null then 0 else 1 end
   where id = $1 returning org, name)
insert into windlass.cron_event (org, name, tick, reason)
select org, name, $5::timestamptz, $6::text from moved where $5::timestamptz is not null

-- name: switch_off
-- A schedule that makes no sense (any more) must not be tried for ever.
update windlass.cron set enabled = false, updated_at = windlass.now() where id = $1

-- name: next_due
-- How long until one is due; whether a tick need not wait any more.
select (select greatest(next_run_at, 'epoch') - windlass.now() from windlass.cron where enabled and next_run_at < 'infinity'
          and id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron')) order by next_run_at limit 1),
       exists (select from windlass.cron c
                where c.buffered_at is not null and c.enabled and c.id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron')) and not exists (
                 select from workflow.workflow_run j
                  where j.id = c.last_job_id and j.status in ('pending', 'leased') and j.deleted_at is null))

-- name: skipped
-- Ticks that made no job, of transactions that a reader has not seen: see live.sql.
select xid::text, id, name, tick, reason, created_at from windlass.cron_event
 where org = $3 and (xid >= $1::text::xid8 or xid = any($2::text[]::xid8[])) order by xid, id limit 1000

-- name: prune_skipped
-- Remove a batch of the oldest ticks that made no job, if they are older than the cutoff.
delete from windlass.cron_event
 where (xid, id) in (select xid, id from windlass.cron_event order by xid, id limit $2)
   and created_at < windlass.now() - $1::interval
