-- Queries of the doctor command. The cost of each is bounded by the number of lanes, types or sessions, never by the number of
-- jobs.

-- name: server
-- scope: global
-- Return version, size and settings of the server. Works before the first migration.
select current_setting('server_version_num')::int as version, current_setting('server_version') as name,
       pg_database_size(current_database()) as size, current_setting('fsync') as fsync,
       current_setting('synchronous_commit') as synchronous_commit,
       current_setting('full_page_writes') as full_page_writes, current_setting('TimeZone') as timezone

-- name: waiting
-- scope: global
-- Return, for each queue and type, the longest time for which the first job of a lane has been claimable. One probe per
-- lane.
select lane.queue, lane.type, max(windlass.now() - greatest(j.run_at, j.updated_at)) as waits,
       lane.queue = any(array(select name from windlass.queue where paused)) as paused
  from windlass.lane cross join lateral (
    select run_at, updated_at from workflow.workflow_run j
     where j.status = 'pending' and j.due and j.deleted_at is null
       and j.queue = lane.queue and j.type = lane.type and j.priority = lane.priority and j.alone = lane.alone
       and j.seq = lane.seq) as j
 group by lane.queue, lane.type order by waits desc, lane.queue, lane.type

-- name: types
-- scope: global
-- Return the job types in the inbox. Of the jobs that are not yet due only the next 5000 are read.
select type from windlass.lane
union select type from windlass.finished
union select type from workflow.workflow_run where status = 'leased'
union (select type from workflow.workflow_run where status = 'pending' and not due order by run_at limit 5000)
order by type

-- name: snapshots
-- scope: global
-- Return sessions of this database whose transaction has held a snapshot or a transaction id for longer than $1: vacuum cannot
-- remove rows that died since. Autovacuum is left out: vacuum ignores the snapshots of other vacuums.
select pid, coalesce(usename, '') as usename, coalesce(application_name, '') as application,
       coalesce(state, '') as state, windlass.now() - xact_start as age
  from pg_stat_activity
 where datname = current_database() and (backend_xmin is not null or backend_xid is not null)
   and pid <> pg_backend_pid() and backend_type <> 'autovacuum worker' and xact_start < windlass.now() - $1::interval
 order by xact_start
