-- Who works here, and which runtime serves which type.

-- name: register
-- A worker says hello; the same id again means it restarted.
insert into windlass.worker (id, host, pid, queues, types, concurrency, state)
values ($1, $2, $3, $4, $5, $6, 'running')
on conflict (id) do update set host = excluded.host, pid = excluded.pid, queues = excluded.queues, types = excluded.types,
  concurrency = excluded.concurrency, state = 'running', active = 0, directive = null,
  started_at = windlass.now(), seen_at = windlass.now()

-- name: seen
-- A worker is alive; the answer is what it is to be told.
update windlass.worker set seen_at = windlass.now(), state = $2, active = $3 where id = $1 returning directive

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
