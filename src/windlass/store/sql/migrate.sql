-- Renumbers data restored from a dump of another cluster, whose transaction counter was ahead of that of this cluster.
-- `tables` and `unpublish` are for conformance tests, which start without jobs, runs and published workflows.

-- name: is_foreign
-- scope: global
-- Return whether an event trail contains transaction ids that this cluster has not assigned yet. Each is read from the end of its
-- index.
with here as (select pg_snapshot_xmax(pg_current_snapshot()) as xmax)
select coalesce((select xid from windlass.event order by xid desc limit 1) >= here.xmax, false)
    or coalesce((select xid from workflow.workflow_event order by xid desc limit 1) >= here.xmax, false)
    or coalesce((select xid from windlass.cron_event order by xid desc limit 1) >= here.xmax, false)
  from here

-- name: bookmark
-- scope: global
-- Lock and return the position of the subscription reader, in transaction ids of the other cluster.
select place from windlass.bookmark where reader = 'subscriptions' for update

-- name: move_bookmark
-- scope: global
-- Set the position of the subscription reader in transaction ids of this cluster.
update windlass.bookmark set place = $1 where reader = 'subscriptions'

-- name: forget_usage_bookmark
-- scope: global
-- Delete the position up to which executions were counted, which is in transaction ids of the other cluster: counting
-- continues from the current position.
delete from windlass.bookmark where reader = 'usage'

-- name: renumber_checkpoints
-- scope: global
-- Renumber checkpoints. A saved step that a later success invalidated stays invalid: it gets 1, which is below the 2 of the
-- events.
update windlass.checkpoint c
   set xid = case when exists (select from workflow.workflow_event e
                                where e.workflow_id = c.job_id and e.event_type = 'succeeded' and e.xid > c.xid)
                  then '1'::xid8 else '2'::xid8 end

-- name: renumber_events
-- scope: global
-- Renumber events. Those that the bookmark had passed get 2, which is visible in every snapshot. The others get the id of this
-- transaction, so that they are new again. $1 and $2 describe the snapshot of the bookmark: its xmax and the transactions that
-- were in progress.
update windlass.event
   set xid = case when xid >= $1::text::xid8 or xid = any($2::text[]::xid8[]) then pg_current_xact_id() else '2'::xid8 end

-- name: renumber_job_events
-- scope: global
-- Renumber the event trail of jobs in the same way.
update workflow.workflow_event
   set xid = case when xid >= $1::text::xid8 or xid = any($2::text[]::xid8[]) then pg_current_xact_id() else '2'::xid8 end

-- name: renumber_cron_events
-- scope: global
-- Renumber the skipped ticks in the same way.
update windlass.cron_event
   set xid = case when xid >= $1::text::xid8 or xid = any($2::text[]::xid8[]) then pg_current_xact_id() else '2'::xid8 end

-- name: renumber_lines
-- scope: global
-- Renumber log lines. Readers that follow them start again.
update windlass.job_log set xid = '2'::xid8

-- name: forget_takers
-- scope: global
-- Clear the transaction that last took a token from a rate limit: its id is not one of this cluster.
update windlass.rate set taken_by = null, taken = 0 where taken_by is not null

-- name: tables
-- scope: global
-- Return the tables to empty: jobs, runs, events, schedules, and settings of queues and workers. Definitions are kept, because
-- processes cache the shapes of compositions by number, and so are orgs, their keys and members. Published workflows are deleted by `unpublish`.
select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where n.nspname in ('workflow', 'windlass') and c.relkind in ('r', 'p') and not c.relispartition
   and (n.nspname, c.relname) not in (('windlass', 'migration'), ('windlass', 'workflow'), ('windlass', 'version'), ('windlass', 'term'),
                                      ('windlass', 'server_key'), ('windlass', 'data_key'), ('windlass', 'plan'), ('windlass', 'org'), ('windlass', 'api_key'),
                                      ('windlass', 'identity'), ('windlass', 'member'), ('windlass', 'session'),
                                      ('windlass', 'audit'), ('windlass', 'sql_role'))
 order by 1

-- name: unpublish
-- scope: global
-- Mark all published workflows as deleted: their names become free and nothing starts new runs of them.
update windlass.workflow set deleted_at = windlass.now(), updated_at = windlass.now(), token_hash = null
 where deleted_at is null and not hidden
