-- Who works here, and which runtime serves which type.

-- name: register
-- Register a worker. The same id again means that it restarted, or that two processes share it: the answer is who had it
-- before, and whether that one may still be alive.
with former as (
  select directive, host, pid, state <> 'stopped' and seen_at > windlass.now() - interval '30 seconds' as alive
    from windlass.worker where id = $1),
registered as (
  insert into windlass.worker (id, host, pid, queues, types, concurrency, state)
  values ($1, $2, $3, $4, $5, $6, 'running')
  on conflict (id) do update set host = excluded.host, pid = excluded.pid, queues = excluded.queues, types = excluded.types,
    concurrency = excluded.concurrency, state = 'running', active = 0, directive = null,
    started_at = windlass.now(), seen_at = windlass.now())
select directive, host, pid, alive from former

-- name: seen
-- Record a sign of life; the answer is what an operator wants of the worker, and which process registered last under its id.
update windlass.worker set seen_at = windlass.now(), state = $2, active = $3 where id = $1
returning directive, host, pid, true as alive

-- name: list
-- Workers, the latest sign of life first: all of them, or the one that is named.
select id, host, pid, queues, types, concurrency, state, active, started_at, seen_at,
       seen_at > windlass.now() - $1::interval and state <> 'stopped' as alive, windlass.now() - seen_at as silence
  from windlass.worker where $2::text is null or id = $2 order by seen_at desc, id

-- name: forget
-- Workers silent for long are no longer listed.
delete from windlass.worker where seen_at < windlass.now() - $1::interval

-- name: direct
-- What a worker is to be told.
update windlass.worker set directive = $2 where id = $1 returning true

-- name: remove
-- One that is gone.
delete from windlass.worker where id = $1

-- name: registry
-- Which runtime serves which type?
select workflow_name, runtime, is_enabled from workflow.workflow_registry where deleted_at is null
