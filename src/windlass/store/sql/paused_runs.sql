-- Paused runs: none of their jobs is claimed. The caller holds the locks of the runs.

-- name: pause
-- scope: owned
-- Mark runs as paused and insert notices for their live child runs: those of steps, and those that handlers wait for.
with paused as (
  update only windlass.run set paused_at = windlass.now() where id = any($1) and paused_at is null returning id)
insert into windlass.notice (run_id, word, reason)
select c.id, 'pause', $2 from paused join only windlass.run c on c.parent_id = paused.id where c.state in ('pending', 'running')
union all
select c.id, 'pause', $2 from paused join only workflow.workflow_run j on j.run_id = paused.id
  join only windlass.run c on c.job_id = j.id where c.state in ('pending', 'running')

-- name: lock_jobs
-- scope: owned
-- Lock the live jobs of these runs, in ascending id. This waits for sessions that are reporting on these jobs: they may
-- have read the run before it was paused.
select id from only workflow.workflow_run where run_id = any($1) and status in ('pending', 'leased') order by id for update

-- name: hold_jobs
-- scope: owned
-- Set `run_at` of the pending jobs of these runs to infinity, and keep the previous time in `paused_run_at`. Jobs whose
-- `run_at` is already infinity wait for an event and are left unchanged.
update only workflow.workflow_run set paused_run_at = run_at, run_at = 'infinity'
 where run_id = any($1) and status = 'pending' and run_at < 'infinity'

-- name: resume
-- scope: owned
-- Mark runs as no longer paused and insert notices for their live child runs.
with resumed as (
  update only windlass.run set paused_at = null where id = any($1) and paused_at is not null returning id)
insert into windlass.notice (run_id, word, reason)
select c.id, 'resume', $2 from resumed join only windlass.run c on c.parent_id = resumed.id where c.state in ('pending', 'running')
union all
select c.id, 'resume', $2 from resumed join only workflow.workflow_run j on j.run_id = resumed.id
  join only windlass.run c on c.job_id = j.id where c.state in ('pending', 'running')

-- name: release_jobs
-- scope: owned
-- Restore `run_at` of the held jobs of these runs. Returns their queues. The rows are locked in ascending id.
update only workflow.workflow_run j set run_at = j.paused_run_at
 where j.id = any(array(
         select id from only workflow.workflow_run where run_id = any($1) and status = 'pending' and paused_run_at is not null
          order by id for update))
returning j.queue
