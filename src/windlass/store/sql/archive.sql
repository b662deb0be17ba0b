-- The archive: tables for the jobs and runs that ended in a week. They inherit from the inbox and the table of runs
-- (0038_archive.sql), so that queries read them too, unless they use `only`.

-- name: make
-- scope: global
-- Create the archive of a week, where 0 is the current one. Returns its name, or null if it already existed.
select windlass.make_archive(windlass.archive_week(windlass.now() + $1 * interval '7 days'))

-- name: find_jobs
-- scope: global
-- Scan the next $2 jobs of the inbox. Returns those that belong to no run and ended more than $1 ago, and whether there
-- are more jobs to scan.
select ids, more from windlass.find_old_jobs($1, $2)

-- name: move_jobs
-- scope: global
-- Archive these jobs, except those that are live again.
select windlass.archive_jobs($1)

-- name: find_runs
-- scope: global
-- Return up to $2 topmost runs that ended more than $1 ago, if all runs below them have ended too, with at most $3 jobs
-- in total (the oldest tree may have more); and whether there may be more.
select ids, more from windlass.find_old_runs($1, $2, $3)

-- name: move_runs
-- scope: global
-- Archive these runs, except those that are live again, with everything below them.
select windlass.archive_runs($1)

-- name: restore_runs
-- scope: owned
-- Move archived runs back, with the runs below them and all their jobs. Returns the number of runs.
select windlass.restore_runs($1)

-- name: restore_jobs
-- scope: org
-- Move archived jobs of an org back.
select windlass.restore_jobs(array(
  select id from workflow.workflow_run where id = any($1) and org = $2 and tableoid <> 'workflow.workflow_run'::regclass))

-- name: old
-- scope: global
-- Return the weeks, oldest first, whose archives contain only jobs and runs that ended before the cutoff.
select right(child.relname, 8) as week from pg_inherits join pg_class child on child.oid = inhrelid
 where inhparent = 'windlass.run'::regclass and child.relname ~ '^run_archive_[0-9]{8}$'
   and to_date(right(child.relname, 8), 'YYYYMMDD') + 7 <= windlass.now() - $1::interval
 order by week

-- name: clear
-- scope: global
-- Delete the rows of other tables that belong to the next $2 jobs and $2 runs of an archive that will be dropped.
-- Returns whether there may be more.
select windlass.clear_archive($1, $2)

-- name: drop
-- scope: global
-- Drop the archive of a week.
select windlass.drop_archive($1)
