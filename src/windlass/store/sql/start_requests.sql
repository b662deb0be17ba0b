-- Requests to start runs, from SQL clients and from events.

-- name: find
-- scope: global
-- Return the oldest requests with the columns by which the caller groups them. Requests in quarantine are retried
-- separately.
select id, org, workflow, sender from windlass.start_request
 where id <> all(array(select key::uuid from windlass.quarantine where kind = 'start'))
   and org <> all(array(select name from windlass.org where disabled_at is not null))
 order by created_at, id limit $1

-- name: take
-- scope: global
-- Delete and return the given requests that no other session has locked.
with mine as (
  select id from windlass.start_request where id = any($1) order by id for update skip locked),
gone as (
  delete from windlass.start_request where id = any(array(select id from mine))
  returning id, org, workflow, sender, input, idempotency_key, headers, created_at)
select id, org, workflow, sender, input, idempotency_key, headers from gone order by created_at, id
