-- Progress that jobs report while they run.

-- name: report
-- scope: global
-- Store the latest progress of each job. Only reports that match the claim number ($2) are stored: those of the attempt that
-- holds the job or held it last.
with report as (
  select * from unnest($1::uuid[], $2::int[], $3::double precision[], $4::text[], $5::jsonb[])
             as t(id, claim_no, fraction, message, data)),
accepted as (
  select t.* from report t join only workflow.workflow_run j on j.id = t.id where j.claim_no = t.claim_no)
insert into windlass.progress as p (job_id, fraction, message, data)
select id, fraction, message, data from accepted order by id
on conflict (job_id) do update
   set fraction = excluded.fraction, message = excluded.message, data = excluded.data, updated_at = excluded.updated_at

-- name: record
-- scope: org
-- Store the progress of a live job, reported through the API. Returns no row if there is no such live job, or if the worker $6 does
-- not hold it, or not under the fence $7; null means any.
with job as (
  select id from only workflow.workflow_run
   where id = $1 and org = $2 and deleted_at is null and status in ('pending', 'leased')
     and ($6::text is null or leased_by = $6) and ($7::int is null or claim_no = $7 and leased_by is not null) for share)
insert into windlass.progress (job_id, fraction, message, data) select id, $3, $4, $5::jsonb from job
on conflict (job_id) do update
   set fraction = excluded.fraction, message = excluded.message, data = excluded.data, updated_at = excluded.updated_at
returning updated_at

-- name: get
-- scope: owned
-- Return the latest progress of a job.
select fraction, message, data, updated_at from windlass.progress where job_id = $1
