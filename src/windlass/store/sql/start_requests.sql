-- Runs that SQL clients have requested, or that events start.

-- name: find
-- scope: global
-- Return the oldest requests with what their runs have in common. Those in quarantine have their own retries.
select id, org, workflow, sender from windlass.start_request
 where id <> all(array(select key::uuid from windlass.quarantine where kind = 'start'))
   and org <> all(array(select name from windlass.org where disabled_at is not null))
 order by created_at, id limit $1

-- name: take
-- scope: global
-- Delete and return those of these requests that no other session holds.
with mine as (
  select id from windlass.start_request where id = any($1) order by id for update skip locked),
gone as (
  delete from windlass.start_request where id = any(array(select id from mine))
  returning id, org, workflow, sender, input, idempotency_key, headers, created_at)
select id, org, workflow, sender, input, idempotency_key, headers from gone order by created_at, id
