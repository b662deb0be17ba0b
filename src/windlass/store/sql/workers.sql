-- Workers, and which runtime serves which type.

-- name: register
-- scope: global
-- Register a worker. If the id already exists, the worker restarted or two processes share the id: returns the previous process,
-- and whether it may still be alive.
with former as (
  select directive, host, pid, state <> 'stopped' and seen_at > windlass.now() - interval '30 seconds' as alive
    from windlass.worker where id = $1),
registered as (
  insert into windlass.worker (id, host, pid, queues, types, concurrency, state)
  values ($1, $2, $3, $4, $5, $6, 'running')
  on conflict (id) do update set host = excluded.host, pid = excluded.pid, queues = excluded.queues, types = excluded.types,
    concurrency = excluded.concurrency, state = 'running', active = 0, directive = null, digests = null,
    started_at = windlass.now(), seen_at = windlass.now())
select directive, host, pid, alive from former

-- name: seen
-- scope: global
-- Record a heartbeat of a worker. Returns the directive of an operator, and the process that registered last under this id.
update windlass.worker set seen_at = windlass.now(), state = $2, active = $3 where id = $1
returning directive, host, pid, true as alive

-- name: list
-- scope: org
-- List the workers of org $3, the latest heartbeat first: all of them, or the one with the given id. Null means all orgs.
select id, host, pid, queues, types, concurrency, state, active, started_at, seen_at,
       seen_at > windlass.now() - $1::interval and state <> 'stopped' as alive, windlass.now() - seen_at as silence
  from windlass.worker where ($2::text is null or id = $2) and ($3::text is null or org = $3) order by seen_at desc, id

-- name: forget
-- scope: global
-- Delete workers whose last heartbeat is older than the cutoff.
delete from windlass.worker where seen_at < windlass.now() - $1::interval

-- name: direct
-- scope: org
-- Set the directive for a worker.
update windlass.worker set directive = $2 where id = $1 and org = $3 returning true

-- name: remove
-- scope: org
-- Delete a worker that is gone.
delete from windlass.worker where id = $1 and org = $2

-- name: registry
-- scope: global
-- Return which runtime serves which type.
select workflow_name, runtime, is_enabled from workflow.workflow_registry where deleted_at is null
