-- Items whose processing failed with an unexpected error. The table is nearly always empty.

-- name: put
-- scope: global
-- Put an item into quarantine, or postpone its next retry: 1 s, 2 s, 4 s, ... up to ten minutes.
insert into windlass.quarantine as q (kind, key, error_type, reason, retry_at, org)
values ($1, $2, $3, $4, case when $5::boolean then windlass.now() + interval '1 second' end,
        coalesce(windlass.org_of($1, $2), 'default'))
on conflict (kind, key) do update
   set error_type = excluded.error_type, reason = excluded.reason, failures = q.failures + 1, last_at = windlass.now(),
       retry_at = case when $5::boolean then windlass.now() + least(interval '1 second' * 2 ^ least(q.failures, 20), interval '10 minutes') end
returning failures

-- name: release
-- scope: global
-- Delete an entry: the item was processed, or no longer exists.
delete from windlass.quarantine where kind = $1 and key = $2

-- name: keys
-- scope: global
-- Return the keys of the entries of a kind.
select key from windlass.quarantine where kind = $1

-- name: take_due
-- scope: global
-- Claim entries that are due for a retry. Their next retry is postponed first: if this process dies, another one retries later.
update windlass.quarantine q
   set retry_at = windlass.now() + least(interval '1 second' * 2 ^ least(q.failures, 20), interval '10 minutes')
 where (q.kind, q.key) in (
         select kind, key from windlass.quarantine where retry_at <= windlass.now() and kind = any($1)
          order by retry_at limit $2 for update skip locked)
returning q.kind, q.key

-- name: retry_now
-- scope: org
-- Make an entry due at once. Returns no row if it does not exist or is only informational.
update windlass.quarantine set retry_at = windlass.now() where kind = $1 and key = $2 and org = $3 and retry_at is not null
returning kind, key, error_type, reason, failures, first_at, last_at, retry_at

-- name: list
-- scope: org
-- List the entries of an org, newest first. Null means all orgs.
select kind, key, error_type, reason, failures, first_at, last_at, retry_at from windlass.quarantine
 where $2::text is null or org = $2 order by last_at desc, kind, key limit $1

-- name: count
-- scope: global
-- Count the entries of each kind.
select kind, count(*)::int from windlass.quarantine group by kind order by kind

-- name: forget
-- scope: global
-- Delete informational entries older than $1, entries of jobs that have ended or no longer exist, and entries whose next retry
-- was due an hour ago without another failure: the item was processed or no longer exists.
delete from windlass.quarantine q
 where retry_at is null and last_at < windlass.now() - $1::interval
    or retry_at < windlass.now() - interval '1 hour'
    or kind = 'job' and not exists (
         select from workflow.workflow_run j
          where j.id = case when q.kind = 'job' then q.key::uuid end and j.status in ('pending', 'leased') and j.deleted_at is null)
