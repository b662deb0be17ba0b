-- Things set aside because processing them failed in a way nobody foresaw. The table is nearly always empty.

-- name: put
-- Set one aside, or push its next try further away: 1 s, 2 s, 4 s, ... up to ten minutes.
insert into windlass.quarantine as q (kind, key, error_type, reason, retry_at)
values ($1, $2, $3, $4, case when $5::boolean then windlass.now() + interval '1 second' end)
on conflict (kind, key) do update
   set error_type = excluded.error_type, reason = excluded.reason, failures = q.failures + 1, last_at = windlass.now(),
       retry_at = case when $5::boolean then windlass.now() + least(interval '1 second' * 2 ^ least(q.failures, 20), interval '10 minutes') end
returning failures

-- name: release
-- It was processed, or it is gone.
delete from windlass.quarantine where kind = $1 and key = $2

-- name: take_due
-- Claim what is due for another try. Its next turn is moved first: if this process dies, another one tries later.
update windlass.quarantine q
   set retry_at = windlass.now() + least(interval '1 second' * 2 ^ least(q.failures, 20), interval '10 minutes')
 where (q.kind, q.key) in (
         select kind, key from windlass.quarantine where retry_at <= windlass.now() and kind = any($1)
          order by retry_at limit $2 for update skip locked)
returning q.kind, q.key

-- name: retry_now
-- Let it be tried in a moment; no row back: it is not there, or is only reported.
update windlass.quarantine set retry_at = windlass.now() where kind = $1 and key = $2 and retry_at is not null
returning kind, key, error_type, reason, failures, first_at, last_at, retry_at

-- name: list
-- The latest first.
select kind, key, error_type, reason, failures, first_at, last_at, retry_at from windlass.quarantine
 order by last_at desc, kind, key limit $1

-- name: count
-- How many of each kind.
select kind, count(*)::int from windlass.quarantine group by kind order by kind

-- name: forget
-- Entries that only inform go after $1. A job's entry goes when the job has ended or is gone. What is an hour past its next try
-- without another failure was processed, or exists no more.
delete from windlass.quarantine q
 where retry_at is null and last_at < windlass.now() - $1::interval
    or retry_at < windlass.now() - interval '1 hour'
    or kind = 'job' and not exists (
         select from workflow.workflow_run j
          where j.id = case when q.kind = 'job' then q.key::uuid end and j.status in ('pending', 'leased') and j.deleted_at is null)
