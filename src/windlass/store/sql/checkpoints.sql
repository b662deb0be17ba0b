-- How far jobs had got: what a worker saved as a whole, and the results of a handler's finished steps.

-- name: save
-- Keep the state of a live job; the answer is the number of the save and when it was. Nothing back: no such live job, or
-- another worker holds it than the one that speaks.
with job as (
  select id from workflow.workflow_run
   where id = $1 and org = $2 and deleted_at is null and status in ('pending', 'leased')
     and ($4::text is null or leased_by is not distinct from $4) for share)
insert into windlass.checkpoint as c (job_id, state) select id, $3::jsonb from job
on conflict (job_id, name) do update
   set state = excluded.state, sequence = c.sequence + 1, saved_at = excluded.saved_at, xid = excluded.xid
returning sequence, saved_at

-- name: get
-- What was last saved of a job. Of a handler that saves steps: their results by name.
select state, sequence, saved_at from windlass.checkpoint where job_id = $1 and name = ''
union all
select jsonb_build_object('steps', jsonb_object_agg(name, state)), count(*)::int, max(saved_at) from windlass.checkpoint
 where job_id = $1 having count(*) > 0 and not exists (select from windlass.checkpoint where job_id = $1 and name = '')

-- name: of_jobs
-- What was saved as a whole, of many jobs.
select job_id, state, sequence, saved_at from windlass.checkpoint where job_id = any($1) and name = ''

-- name: remove
-- Forget what a job saved: it starts from nothing.
delete from windlass.checkpoint where job_id = $1

-- name: steps
-- The finished steps that still count: of the same payload, and not of an execution that ran to its good end.
select c.name, c.state from windlass.checkpoint c join workflow.workflow_run j on j.id = c.job_id
 where c.job_id = $1 and c.name <> '' and c.input = md5(j.payload::text)
   and not exists (select from workflow.workflow_event e
                    where e.workflow_id = c.job_id and e.event_type = 'succeeded' and e.xid > c.xid)

-- name: save_step
-- Record a finished step of an attempt that still holds its job. Nothing back: the lease was lost.
with held as (
  select id, md5(payload::text) as input from workflow.workflow_run
   where id = $1 and claim_no = $2 and leased_by is not null for share)
insert into windlass.checkpoint (job_id, name, state, input) select id, $3, $4::jsonb, input from held
on conflict (job_id, name) do update
   set state = excluded.state, input = excluded.input, saved_at = excluded.saved_at, xid = excluded.xid
returning true
