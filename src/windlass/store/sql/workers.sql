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

-- name: open_lease
-- scope: global
-- Insert the lease of a process with this worker id. A process never uses the lease of another one, even if that had
-- the same id: otherwise its heartbeats would keep the jobs of its dead predecessor leased.
insert into windlass.worker_lease (worker, until) values ($1, windlass.now() + $2::interval) returning id

-- name: extend_lease
-- scope: global
-- Extend the lease of a worker, and so those of all jobs that were claimed under it. A missing row was deleted while
-- the process was suspended, and is inserted again.
insert into windlass.worker_lease (id, worker, until) values ($1, $2, windlass.now() + $3::interval)
on conflict (id) do update set extended_at = excluded.extended_at, until = excluded.until

-- name: find_under_lease
-- scope: global
-- Return the jobs that were claimed under a worker lease at least $2 ago.
select id, claim_no from only workflow.workflow_run
 where status = 'leased' and worker_lease = $1 and updated_at <= windlass.now() - $2::interval

-- name: part_from_lease
-- scope: global
-- Give jobs of a worker lease leases of their own, because the process that has the worker lease does not run them. A
-- row that another session has locked is skipped until the next call.
with parted as (
  select j.id from unnest($1::uuid[], $2::int[]) as d(id, claim_no)
    join only workflow.workflow_run j on j.id = d.id and j.claim_no = d.claim_no and j.worker_lease = $3
     for no key update of j skip locked)
update only workflow.workflow_run set worker_lease = null, lease_until = windlass.now() + $4::interval, updated_at = windlass.now()
 where id = any(array(select id from parted)) returning id

-- name: close_lease
-- scope: global
-- Delete the lease of a worker that has stopped, unless it has jobs: these are released when the lease expires.
delete from windlass.worker_lease where id = $1
   and not exists (select from only workflow.workflow_run j where j.status = 'leased' and j.worker_lease = $1)

-- name: forget_leases
-- scope: global
-- Delete leases that expired before the cutoff and have no jobs any more. `not exists` would be planned as a join of all leased jobs.
delete from windlass.worker_lease l where until < windlass.now() - $1::interval
   and (select j.id from only workflow.workflow_run j where j.status = 'leased' and j.worker_lease = l.id limit 1) is null

-- name: date_open_leases
-- scope: global
-- Give leases that plain SQL took without `lease_until` an end: $1 after their last update. After that, the job is
-- released like any other. A job whose worker lease does not exist (the row was deleted by hand) gets a lease of $2,
-- which its worker extends if it is alive.
update only workflow.workflow_run j
   set lease_until = case when worker_lease is null then least(updated_at, windlass.now()) + $1::interval
                          else windlass.now() + $2::interval end,
       updated_at = case when worker_lease is null then updated_at else windlass.now() end, worker_lease = null
 where status = 'leased'
   and (worker_lease is null and lease_until is null
        or worker_lease is not null and not exists (select from windlass.worker_lease l where l.id = j.worker_lease))

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
-- Return whether there are other orgs than `default`, and which runtime serves which type: a row without a type if none
-- is registered. Workers read both every few seconds.
select exists (select from windlass.org where name <> 'default'), r.workflow_name, r.runtime, r.is_enabled
  from (select 1) as one left join workflow.workflow_registry r on r.deleted_at is null
