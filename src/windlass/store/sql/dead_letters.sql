-- Dead letters grouped by kind (type, queue, error and whether they belong to a run). One index contains them all, and each kind
-- is a range of it.

-- name: groups
-- scope: org
-- List at most $7 kinds of dead letters whose newest one is below position $6, the kind with the newest one first. Each
-- is counted up to $8.
with kind as materialized (
  select * from windlass.dead_letters($1)
   where ($2::text is null or type like $2) and ($3::text is null or queue = $3) and ($4::text is null or error = $4)
     and ($5::boolean is null or of_run = $5)),
page as materialized (
  select kind.*, latest.* from kind cross join lateral (
    select j.seq, j.id, j.updated_at, j.last_error from workflow.workflow_run j
     where j.status = 'failed' and j.deleted_at is null and j.org = $1 and j.type = kind.type and j.queue = kind.queue
       and windlass.error_kind(j.last_error, j.errors) = kind.error and (j.run_id is not null) = kind.of_run
     order by j.seq desc limit 1) as latest
   where latest.seq < $6 order by latest.seq desc limit $7)
select page.type, page.queue, page.error, page.of_run, counted.n as count, first.updated_at as first_at,
       page.updated_at as last_at, page.id as example_id, page.last_error as example, page.seq
  from page
 cross join lateral (
   select j.updated_at from workflow.workflow_run j
    where j.status = 'failed' and j.deleted_at is null and j.org = $1 and j.type = page.type and j.queue = page.queue
      and windlass.error_kind(j.last_error, j.errors) = page.error and (j.run_id is not null) = page.of_run
    order by j.seq limit 1) as first
 cross join lateral (
   select count(*) as n from (
     select 1 from workflow.workflow_run j
      where j.status = 'failed' and j.deleted_at is null and j.org = $1 and j.type = page.type and j.queue = page.queue
        and windlass.error_kind(j.last_error, j.errors) = page.error and (j.run_id is not null) = page.of_run
      limit $8) as dead) as counted
 order by page.seq desc

-- name: find
-- scope: org
-- Return at most $7 dead letters of these kinds, newest first, below position $6.
select dead.id, dead.run_id, dead.seq from windlass.dead_letters($1) as kind cross join lateral (
  select j.id, j.run_id, j.seq from workflow.workflow_run j
   where j.status = 'failed' and j.deleted_at is null and j.org = $1 and j.type = kind.type and j.queue = kind.queue
     and windlass.error_kind(j.last_error, j.errors) = kind.error and (j.run_id is not null) = kind.of_run and j.seq < $6
   order by j.seq desc limit $7) as dead
 where ($2::text is null or kind.type like $2) and ($3::text is null or kind.queue = $3)
   and ($4::text is null or kind.error = $4) and ($5::boolean is null or kind.of_run = $5)
 order by dead.seq desc limit $7

-- name: list
-- scope: org
-- Return the jobs that `find` returns, with all columns.
with page as materialized (
  select dead.id, dead.seq from windlass.dead_letters($1) as kind cross join lateral (
    select j.id, j.seq from workflow.workflow_run j
     where j.status = 'failed' and j.deleted_at is null and j.org = $1 and j.type = kind.type and j.queue = kind.queue
       and windlass.error_kind(j.last_error, j.errors) = kind.error and (j.run_id is not null) = kind.of_run and j.seq < $6
     order by j.seq desc limit $7) as dead
   where ($2::text is null or kind.type like $2) and ($3::text is null or kind.queue = $3)
     and ($4::text is null or kind.error = $4) and ($5::boolean is null or kind.of_run = $5)
   order by dead.seq desc limit $7)
select j.* from workflow.workflow_run j where j.id = any(array(select id from page)) order by j.seq desc

-- name: list_by_queue
-- scope: org
-- List dead letters, newest first, with their total number (counted up to 10,000).
select j.*, (select count(*) from (
         select from workflow.workflow_run
          where status = 'failed' and dead_letter and deleted_at is null and org = $1 and ($2::text is null or queue = $2)
          limit 10000) as counted) as total
  from workflow.workflow_run j
 where j.status = 'failed' and j.dead_letter and j.deleted_at is null and j.org = $1 and ($2::text is null or j.queue = $2)
 order by j.seq desc limit $3 offset $4

-- name: exists
-- scope: org
-- Return whether this job is a dead letter.
select exists (select from workflow.workflow_run
                where id = $1 and org = $2 and status = 'failed' and dead_letter and deleted_at is null)
