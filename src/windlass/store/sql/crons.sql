-- Schedules that enqueue jobs of the Open Job Spec. A process that fires a schedule holds the lock of its row.

-- name: put
-- scope: org
-- Insert or replace a schedule. If expression and time zone are unchanged and it is enabled, the next tick stays the
-- same. `is_new` is true if it was inserted.
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
-- scope: org
-- List schedules by name, with their total number.
select *, count(*) over () as total from windlass.cron where org = $1 order by name limit $2 offset $3

-- name: delete
-- scope: org
-- Delete a schedule, so that it no longer fires.
delete from windlass.cron where org = $1 and name = $2 returning *

-- name: find_due
-- scope: global
-- Return schedules whose next tick is due, and those with a buffered tick whose previous job has ended.
(select id from windlass.cron where enabled and next_run_at <= windlass.now() and id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron')) and org <> all(array(select name from windlass.org where disabled_at is not null))
  order by next_run_at limit $1)
union
(select c.id from windlass.cron c
  where c.buffered_at is not null and c.enabled and c.id <> all(array(select key::uuid from windlass.quarantine where kind = 'cron')) and c.org <> all(array(select name from windlass.org where disabled_at is not null)) and not exists (
    select from workflow.workflow_run j where j.id = c.last_job_id and j.status in ('pending', 'leased') and j.deleted_at is null)
  limit $1)

-- name: lock
-- scope: global
-- Lock an enabled schedule. A schedule that another session has locked is skipped, because that session fires it.
-- `live` means that the job of its last tick has not ended.
select c.*, windlass.now() as now,
       exists (select from workflow.workflow_run j
                where j.id = c.last_job_id and j.status in ('pending', 'leased') and j.deleted_at is null) as live
  from windlass.cron c where c.id = $1 and c.enabled for update of c skip locked

-- name: move
-- scope: global
-- Advance a schedule after its ticks were handled. $6 is the reason why a tick enqueued no job.
with moved as (
  update windlass.cron set next_run_at = $2, buffered_at = $3, last_job_id = coalesce($4, last_job_id),
         last_run_at = case when $4::uuid is null then last_run_at else windlass.now() end,
         run_count = run_count + case when $4::uuid is null then 0 else 1 end
   where id = $1 returning org, name)
insert into windlass.cron_event (org, name, tick, reason)
select org, name, $5::timestamptz, $6::text from moved where $5::timestamptz is not null

-- name: disable
-- scope: global
-- Disable an invalid schedule, so that it is not tried forever.
update windlass.cron set enabled = false, updated_at = windlass.now() where id = $1

-- name: skipped
-- scope: global
-- Return ticks that enqueued no job, written by transactions that the snapshot of a reader did not include: see events.sql.
select xid::text, id, org, name, tick, reason, created_at from windlass.cron_event
 where xid >= $1::text::xid8 or xid = any($2::text[]::xid8[]) order by xid, id limit 1000

-- name: prune_skipped
-- scope: global
-- Scan a batch of the oldest skipped ticks and delete those that are older than the cutoff.
delete from windlass.cron_event
 where (xid, id) in (select xid, id from windlass.cron_event order by xid, id limit $2)
   and created_at < windlass.now() - $1::interval
