-- Checkpoints of jobs: state that a worker saved as a whole, and the results of the finished steps of a handler.

-- name: save
-- scope: org
-- Save the state of a live job. Returns the sequence number and the time of the save, or no row if there is no such live job or a
-- worker other than the caller holds it.
with job as (
  select id from workflow.workflow_run
   where id = $1 and org = $2 and deleted_at is null and status in ('pending', 'leased')
     and ($4::text is null or leased_by is not distinct from $4) for share)
insert into windlass.checkpoint as c (job_id, state) select id, $3::jsonb from job
on conflict (job_id, name) do update
   set state = excluded.state, sequence = c.sequence + 1, saved_at = excluded.saved_at, xid = excluded.xid
returning sequence, saved_at

-- name: get
-- scope: owned
-- Return the latest checkpoint of a job. For a handler that saves steps, return their results by name.
select state, sequence, saved_at from windlass.checkpoint where job_id = $1 and name = ''
union all
select jsonb_build_object('steps', jsonb_object_agg(name, state)), count(*)::int, max(saved_at) from windlass.checkpoint
 where job_id = $1 having count(*) > 0 and not exists (select from windlass.checkpoint where job_id = $1 and name = '')

-- name: of_jobs
-- scope: owned
-- Return the states that were saved as a whole for these jobs.
select job_id, state, sequence, saved_at from windlass.checkpoint where job_id = any($1) and name = ''

-- name: remove
-- scope: owned
-- Delete the checkpoints of a job, so that it starts from the beginning.
delete from windlass.checkpoint where job_id = $1

-- name: steps
-- scope: global
-- Return the finished steps that are still valid: saved for the same payload, and not followed by a success of the job.
select c.name, c.state from windlass.checkpoint c join workflow.workflow_run j on j.id = c.job_id
 where c.job_id = $1 and c.name <> '' and c.input = md5(j.payload::text)
   and not exists (select from workflow.workflow_event e
                    where e.workflow_id = c.job_id and e.event_type = 'succeeded' and e.xid > c.xid)

-- name: save_step
-- scope: global
-- Save a finished step of an attempt that still holds its job. Returns no row if the lease was lost.
with held as (
  select id, md5(payload::text) as input from workflow.workflow_run
   where id = $1 and claim_no = $2 and leased_by is not null for share)
insert into windlass.checkpoint (job_id, name, state, input) select id, $3, $4::jsonb, input from held
on conflict (job_id, name) do update
   set state = excluded.state, input = excluded.input, saved_at = excluded.saved_at, xid = excluded.xid
returning true
