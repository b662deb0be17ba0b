-- Artifacts of attempts. An artifact of a deleted job has `remove_at` and is not visible. An artifact of the attempt
-- that succeeded has the fence of its job's last claim.

-- name: reserve
-- scope: global
-- Record an artifact that an attempt is about to write. Returns whether the attempt still holds its job, and whether it
-- has fewer than $10 other artifacts. The limit is approximate if an attempt writes several artifacts concurrently.
with held as (
  select id, org from only workflow.workflow_run where id = $1 and claim_no = $2 and leased_by is not null for share),
others as (select count(*) as many from windlass.artifact where job_id = $1 and fence = $2 and name <> $3),
made as (
  insert into windlass.artifact (job_id, fence, name, org, run_id, step, index, attempt, key, media_type)
  select held.id, $2, $3, held.org, $4, $5, $6, $7, $8, $9 from held cross join others where others.many < $10
  on conflict (job_id, fence, name) do update
     set size = null, media_type = excluded.media_type, created_at = excluded.created_at
  returning true)
select exists (select from held), exists (select from made)

-- name: complete
-- scope: global
-- Record that an artifact was written. Returns no row if the attempt no longer holds its job.
with held as (
  select id from only workflow.workflow_run where id = $1 and claim_no = $2 and leased_by is not null for share)
update windlass.artifact a set size = $4 from held where a.job_id = held.id and a.fence = $2 and a.name = $3 returning true

-- name: list
-- scope: org
-- List the artifacts of a run, or of one of its steps, by step, index, name and attempt.
select a.step, a.index, a.name, a.fence, a.attempt, a.size, a.media_type, a.key, a.created_at,
       coalesce(j.status = 'succeeded' and j.claim_no = a.fence, false) as is_result
  from windlass.artifact a left join workflow.workflow_run j on j.id = a.job_id
 where a.run_id = $1 and a.org = $2 and a.size is not null and a.remove_at is null and ($3::text is null or a.step = $3)
   and (a.step, a.index, a.name, a.fence) > ($4::text, $5::int, $6::text, $7::int)
 order by a.step, a.index, a.name, a.fence limit $8

-- name: find
-- scope: org
-- Return one artifact: of attempt $6 if that is given, else of the attempt that succeeded, else of the latest one
-- unless $7.
select a.step, a.index, a.name, a.fence, a.attempt, a.size, a.media_type, a.key, a.created_at,
       coalesce(j.status = 'succeeded' and j.claim_no = a.fence, false) as is_result
  from windlass.artifact a left join workflow.workflow_run j on j.id = a.job_id
 where a.run_id = $1 and a.org = $2 and a.step = $3 and a.index = $4 and a.name = $5 and a.size is not null and a.remove_at is null
   and ($6::int is null or a.attempt = $6) and (not $7 or j.status = 'succeeded' and j.claim_no = a.fence)
 order by is_result desc, a.fence desc limit 1

-- name: list_of_job
-- scope: org
-- List the artifacts of a job, by name and attempt.
select a.step, a.index, a.name, a.fence, a.attempt, a.size, a.media_type, a.key, a.created_at,
       coalesce(j.status = 'succeeded' and j.claim_no = a.fence, false) as is_result
  from windlass.artifact a left join workflow.workflow_run j on j.id = a.job_id
 where a.job_id = $1 and a.org = $2 and a.size is not null and a.remove_at is null and (a.name, a.fence) > ($3::text, $4::int)
 order by a.name, a.fence limit $5

-- name: find_of_job
-- scope: org
-- Return one artifact of a job: of attempt $4 if that is given, else of the attempt that succeeded, else of the latest
-- one.
select a.step, a.index, a.name, a.fence, a.attempt, a.size, a.media_type, a.key, a.created_at,
       coalesce(j.status = 'succeeded' and j.claim_no = a.fence, false) as is_result
  from windlass.artifact a left join workflow.workflow_run j on j.id = a.job_id
 where a.job_id = $1 and a.org = $2 and a.name = $3 and a.size is not null and a.remove_at is null
   and ($4::int is null or a.attempt = $4)
 order by is_result desc, a.fence desc limit 1

-- name: of_steps
-- scope: owned
-- Return which instances of steps have an artifact of this name, of the attempt that succeeded, up to $4 for each
-- requested artifact.
select wanted.run_id, wanted.step, wanted.name, a.index
  from unnest($1::uuid[], $2::text[], $3::text[]) as wanted (run_id, step, name) cross join lateral (
    select a.index from windlass.artifact a join workflow.workflow_run j on j.id = a.job_id
     where a.run_id = wanted.run_id and a.step = wanted.step and a.name = wanted.name and a.size is not null
       and j.status = 'succeeded' and j.claim_no = a.fence
     order by a.index limit $4) as a

-- name: removable
-- scope: global
-- Return artifacts of deleted jobs whose objects are to be deleted now.
select job_id, fence, name, key from windlass.artifact where remove_at <= windlass.now() order by remove_at limit $1

-- name: forget
-- scope: global
-- Delete the rows of artifacts whose objects were deleted.
delete from windlass.artifact a using unnest($1::uuid[], $2::int[], $3::text[]) as gone (job_id, fence, name)
 where a.job_id = gone.job_id and a.fence = gone.fence and a.name = gone.name and a.remove_at is not null

-- name: postpone
-- scope: global
-- Postpone the deletion of objects by $4.
update windlass.artifact a set remove_at = windlass.now() + $4::interval
  from unnest($1::uuid[], $2::int[], $3::text[]) as kept (job_id, fence, name)
 where a.job_id = kept.job_id and a.fence = kept.fence and a.name = kept.name and a.remove_at is not null
