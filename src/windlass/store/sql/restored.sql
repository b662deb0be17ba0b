-- Data that was restored from a dump of another cluster: its transactions are numbered by a counter that was further on.

-- name: foreign
-- Whether a trail holds transactions that this cluster has not had yet. Each is read from the end of its index.
with here as (select pg_snapshot_xmax(pg_current_snapshot()) as xmax)
select coalesce((select xid from windlass.event order by xid desc limit 1) >= here.xmax, false)
    or coalesce((select xid from workflow.workflow_event order by xid desc limit 1) >= here.xmax, false)
    or coalesce((select xid from windlass.cron_event order by xid desc limit 1) >= here.xmax, false)
  from here

-- name: bookmark
-- Where the reader of the trail for subscriptions was, in the numbers of the other cluster.
select place from windlass.bookmark where reader = 'subscriptions' for update

-- name: move_bookmark
-- The same in numbers of this cluster.
update windlass.bookmark set place = $1 where reader = 'subscriptions'

-- name: renumber_checkpoints
-- A saved step that a success made void stays void: 1 is before the events' 2.
update windlass.checkpoint c
   set xid = case when exists (select from workflow.workflow_event e
                                where e.workflow_id = c.job_id and e.event_type = 'succeeded' and e.xid > c.xid)
                  then '1'::xid8 else '2'::xid8 end

-- name: renumber_events
-- Lines that the bookmark had get 2, which every snapshot sees; those it had not get this transaction, and are new again.
-- $1 and $2 are the snapshot it was at: its xmax, and who was under way.
update windlass.event
   set xid = case when xid >= $1::text::xid8 or xid = any($2::text[]::xid8[]) then pg_current_xact_id() else '2'::xid8 end

-- name: renumber_job_events
-- The same for the trail of jobs.
update workflow.workflow_event
   set xid = case when xid >= $1::text::xid8 or xid = any($2::text[]::xid8[]) then pg_current_xact_id() else '2'::xid8 end

-- name: renumber_cron_events
-- The same for the ticks that made no job.
update windlass.cron_event
   set xid = case when xid >= $1::text::xid8 or xid = any($2::text[]::xid8[]) then pg_current_xact_id() else '2'::xid8 end

-- name: renumber_lines
-- Who follows log lines begins anew.
update windlass.job_log set xid = '2'::xid8

-- name: forget_takers
-- Which transaction took from a rate last: none of this cluster.
update windlass.rate set taken_by = null, taken = 0 where taken_by is not null
