-- Who works here, and which runtime serves which type.

-- name: register
-- A worker says hello; the same id again means it restarted.
insert into windlass.worker (id, host, pid, queues, types, concurrency, state)
values ($1, $2, $3, $4, $5, $6, 'running')
on conflict (id) do update set host = excluded.host, pid = excluded.pid, queues = excluded.queues, types = excluded.types,
  concurrency = excluded.concurrency, state = 'running', active = 0, started_at = windlass.now(), seen_at = windlass.now()

-- name: seen
-- A worker is alive.
update windlass.worker set seen_at = windlass.now(), state = $2, active = $3 where id = $1

-- name: list
-- All workers, the latest sign of life first.
select id, host, pid, queues, types, concurrency, state, active, started_at, seen_at,
       seen_at > windlass.now() - $1::interval and state <> 'stopped' as alive
  from windlass.worker order by seen_at desc, id

-- name: forget
-- Workers silent for long are no longer listed.
delete from windlass.worker where seen_at < windlass.now() - $1::interval

-- name: registry
-- Which runtime serves which type?
select workflow_name, runtime, is_enabled from workflow.workflow_registry where deleted_at is null
