-- Claims and reports of workers that use HTTP: they name queues instead of types, expect strict order, and may omit their worker
-- id. The other inbox queries are in jobs.sql.

-- name: fetch
-- scope: org
-- Claim up to $2 jobs of org $8: queues in the given order, then by priority, then by `seq`. Lanes are found by a loose
-- index scan, as in `windlass.lane`. `line` has more rows than needed, because other sessions may have locked some of
-- them. There must be no sort above `line`: rate limits are charged row by row, and only for rows that are taken.
-- `status ||` keeps the planner off the partial indexes, which would return the rows in another order. A job whose rate
-- limit is exhausted is marked as not due when it is reached and takes no row of `line`, so it hides no other job.
-- Times that plain SQL set outside the supported calendar are clamped. `expires_at` needs `case`, because `least` and
-- `greatest` ignore nulls.
-- Only types that are in $9 or match a LIKE pattern of $10 are claimed; null means all types. Of a type that was not
-- requested only the first lane is visited.
-- moves: pending -> leased
with recursive open_queue as (
  select q.queue, q.rank from unnest($1::text[]) with ordinality as q(queue, rank)
   where not exists (select from windlass.queue p where p.name = q.queue and p.paused)
     and not exists (select from windlass.worker w where w.id = $3 and (w.state = 'draining' or w.directive is not null))),
lane as (
  (select open_queue.rank, head.*, $9::text[] is null or head.type = any($9) or head.type like any($10::text[]) as requested
     from open_queue cross join lateral (
       select j.queue, j.type, j.priority, j.alone, j.seq from only workflow.workflow_run j
        where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = open_queue.queue
        order by j.queue, j.type, j.priority, j.alone, j.seq limit 1) as head)
  union all
  select lane.rank, next.*, $9::text[] is null or next.type = any($9) or next.type like any($10::text[])
    from lane cross join lateral (
      select j.queue, j.type, j.priority, j.alone, j.seq from only workflow.workflow_run j
       where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue
         and (j.type, j.priority, j.alone)
             > (lane.type, case when lane.requested then lane.priority else 2147483647 end, lane.alone or not lane.requested)
       order by j.type, j.priority, j.alone, j.seq limit 1) as next),
line as materialized (
  select first.id from lane cross join lateral (
    select j.id, j.seq from only workflow.workflow_run j
     where j.status = 'pending' and j.due and j.deleted_at is null
       and j.queue = lane.queue and j.type = lane.type and j.priority = lane.priority and j.alone = lane.alone
       and j.seq >= lane.seq and j.org = $8 and (j.expires_at is null or j.expires_at > (select windlass.now()))
       and ($6::text is null or j.meta ->> 'tenant_id' = $6)
       and case when j.rate_key is null then true
                when windlass.rate_enough() then false
                else windlass.rate_admit(j.rate_key, j.id, j.seq, false) end
     order by j.seq limit case when lane.alone then 1 else $2::int * 2 + 10 end) as first
   where lane.requested
   order by lane.rank, lane.priority, first.seq),
picked as (
  select j.id from line cross join lateral (
    select j.id from only workflow.workflow_run j
     where j.id = line.id and j.status || '' = 'pending'
       and case when j.rate_key is null then true else windlass.rate_admit(j.rate_key, j.id, j.seq, true) end
       for update skip locked) as j
   limit $2::int),
claimed as (
  update only workflow.workflow_run
     set status = 'leased', leased_by = $3, worker_lease = null, claim_no = claim_no + 1, updated_at = (select windlass.now()),
         lease = least(coalesce($4::interval, visibility, $5::interval), $7::interval),
         lease_until = (select windlass.now()) + least(coalesce($4::interval, visibility, $5::interval), $7::interval),
         stop_at = (select windlass.now()) + case when timeout > interval '36525 days' then interval '36525 days' else timeout end,
         timeout = case when timeout > interval '36525 days' then interval '36525 days' else timeout end,
         visibility = case when visibility > interval '36525 days' then interval '36525 days' else visibility end,
         run_at = case when isfinite(run_at) then least(greatest(run_at, '0001-01-02'), '9999-12-30') else run_at end,
         created_at = least(greatest(created_at, '0001-01-02'), '9999-12-30'),
         expires_at = case when expires_at is not null then least(greatest(expires_at, '0001-01-02'), '9999-12-30') end
   where id = any(array(select id from picked))
  returning *),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, actor, attempt, created_at)
  select id, 'leased', $3, attempt + lost + 1, (select windlass.now()) from claimed)
select * from claimed order by array_position($1, queue), priority, seq

-- name: set_aside
-- scope: owned
-- Release jobs that this transaction claimed but cannot hand out. They are postponed by $4, and the reason is recorded
-- as their last error. No attempt is charged, because a process of another version may be able to read them.
-- moves: leased -> pending
with done as (
  update only workflow.workflow_run j
     set status = 'pending', run_at = (select windlass.now()) + $4::interval, last_error = d.reason,
         errors = windlass.remember(j.errors, jsonb_build_object('type', 'Unreadable', 'message', d.reason,
                    'attempt', j.attempt + j.lost + 1, 'at', (select windlass.now()))),
         leased_by = null, lease_until = null, worker_lease = null, updated_at = (select windlass.now())
    from unnest($1::uuid[], $2::text[]) as d(id, reason)
   where j.id = d.id and j.leased_by = $3
  returning j.id, j.last_error, j.attempt + j.lost + 1 as number)
insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt, created_at)
select id, 'retried', jsonb_build_object('error', last_error, 'reason', 'set aside'), $5, number, (select windlass.now()) from done

-- name: runs_of
-- scope: org
-- Return the runs that these jobs belong to. Takes no lock, because runs must be locked before jobs. $2 null means all orgs.
select distinct run_id from workflow.workflow_run where id = any($1) and ($2::text is null or org = $2) and run_id is not null

-- name: lock
-- scope: org
-- Lock the jobs that a report is about, in ascending id, and return them with their status, their holder, and whether they are to
-- stop. $2 null means all orgs.
select id, type, '' as payload, queue, priority, seq, attempt, lost, max_attempts, claim_no,
       case when timeout > interval '36525 days' then interval '36525 days' else timeout end, retry, least(greatest(created_at, '0001-01-02'), '9999-12-30'), null as meta,
       alone, run_id, version_id, step, item, items, epoch, status, leased_by, cancel_requested
  from workflow.workflow_run where id = any($1) and ($2::text is null or org = $2) and deleted_at is null order by id for update

-- name: succeed
-- scope: org
-- Record successful attempts of a worker ($4), of jobs that belong to no run, each under its fence if it has one. A
-- report that does not match is ignored and not in the result. $6 is the label that the caller is restricted to.
-- moves: leased -> succeeded
with done as (
  update only workflow.workflow_run j
     set status = 'succeeded', result = d.result, settled = true, leased_by = null, lease_until = null, worker_lease = null,
         updated_at = (select windlass.now())
    from unnest($1::uuid[], $2::int[], $3::jsonb[]) as d(id, claim_no, result)
   where j.id = d.id and j.claim_no = coalesce(d.claim_no, j.claim_no) and j.leased_by = $4 and j.org = $5 and j.run_id is null
     and j.deleted_at is null and ($6::text is null or j.meta ->> 'tenant_id' = $6)
  returning j.id, j.queue, j.attempt + j.lost + 1 as number),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, actor, attempt, created_at)
  select id, 'succeeded', $4, number, (select windlass.now()) from done)
select id, queue from done

-- name: read
-- scope: owned
-- Return the current rows of these jobs.
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until
  from workflow.workflow_run j where j.id = any($1)

-- name: heartbeat
-- scope: org
-- Extend the leases that this worker holds among these jobs, by the length it requests or else by the length of the
-- current lease. The rows are locked in ascending id, as everywhere, so that two heartbeats for the same jobs cannot
-- deadlock.
with held as (
  update only workflow.workflow_run j
     set lease_until = (select windlass.now()) + least(coalesce($3::interval, j.lease, $4::interval), $5::interval), updated_at = (select windlass.now())
   where j.id = any(array(
           select id from only workflow.workflow_run where id = any($1) and leased_by = $2 and org = $6 order by id for no key update))
  returning j.id, j.cancel_requested, j.attempt + j.lost + 1 as number, j.envelope #>> '{options,metadata,test_directive}' as directive,
            extract(epoch from least(coalesce($3::interval, j.lease, $4::interval), $5::interval)) as seconds),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt, created_at)
  select id, 'heartbeat', jsonb_build_object('extended_by_seconds', seconds), $2, number, (select windlass.now()) from held)
select id, cancel_requested, directive from held

-- name: cancelled
-- scope: org
-- Return which of these jobs were cancelled, in ascending id.
select id from workflow.workflow_run where id = any($1::uuid[]) and org = $2 and status = 'cancelled' order by id

-- name: seen
-- scope: org
-- Record a heartbeat of an HTTP worker. The first one inserts its row. Returns its state, its directive and the time.
insert into windlass.worker (id, host, pid, queues, types, concurrency, state, active, org)
values ($1, $2, 0, $3, '{}', 0, $4, $5, $7)
on conflict (id) do update set seen_at = windlass.now(), active = excluded.active,
  state = case when $6 then excluded.state when worker.state = 'stopped' then 'running' else worker.state end
 where worker.org = $7
returning state, directive, windlass.now()

-- name: register
-- scope: org
-- Record the queues (their stored names) and the types that an HTTP worker fetches. Columns that its heartbeats report
-- are kept.
insert into windlass.worker (id, host, pid, queues, types, concurrency, state, org) values ($1, $2, 0, $3, $4, 0, 'running', $5)
on conflict (id) do update set seen_at = windlass.now(), queues = excluded.queues, types = excluded.types,
  state = case worker.state when 'stopped' then 'running' else worker.state end
 where worker.org = $5 and worker.pid = 0

-- name: overdue
-- scope: global
-- Return attempts that exceeded their timeout without being stopped by their worker.
select id, claim_no from only workflow.workflow_run
 where status = 'leased' and stop_at is not null and stop_at <= windlass.now() and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))
 order by stop_at limit $1

-- name: find_expired
-- scope: global
-- Return the jobs that `expire` would end.
select id from only workflow.workflow_run
 where status = 'pending' and expires_at is not null and expires_at <= windlass.now() and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now())) order by id limit $1

-- name: expire
-- scope: global
-- Fail jobs that were not started before `expires_at`. Only the jobs in $3, unless that is null.
-- moves: pending -> failed
with late as (
  select id from only workflow.workflow_run
   where status = 'pending' and expires_at is not null and expires_at <= windlass.now()
     and ($3::uuid[] is null or id = any($3)) and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))
   order by id limit $1 for update skip locked),
ended as (
  update only workflow.workflow_run j
     set status = 'failed', last_error = 'the job was not started before its expiry', updated_at = windlass.now(),
         errors = windlass.remember(j.errors, jsonb_build_object('type', 'Expired', 'message', 'the job was not started before its expiry',
                                                                 'attempt', j.attempt + j.lost, 'at', windlass.now()))
   where j.id = any(array(select id from late))
  returning j.id, j.attempt + j.lost as number),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt)
  select id, 'failed', '{"error": "the job was not started before its expiry", "reason": "expired"}'::jsonb, $2, number from ended)
select id from ended

-- name: activate
-- scope: org
-- Make a job that was held back (`run_at` is infinity) due now.
update only workflow.workflow_run set run_at = windlass.now(), updated_at = windlass.now()
 where id = $1 and org = $2 and status = 'pending' and run_at = 'infinity' and deleted_at is null returning queue

-- name: unlabelled
-- scope: owned
-- Return which of these jobs do not have this label.
select id from workflow.workflow_run where id = any($1::uuid[]) and meta ->> 'tenant_id' is distinct from $2

-- name: details
-- scope: org
-- Return one job with all columns, and when its last attempt since the latest restart began, with the number of that attempt,
-- from its event trail.
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until,
       trail.started_at, trail.number, windlass.now() as now
  from workflow.workflow_run j
 cross join lateral (
   select max(e.created_at) filter (where e.event_type = 'leased') as started_at,
          max(e.attempt) filter (where e.event_type = 'leased') as number
     from workflow.workflow_event e
    where e.workflow_id = j.id and e.id > coalesce((
      select max(o.id) from workflow.workflow_event o where o.workflow_id = j.id and o.data ->> 'reason' = 'reopened'), 0)) as trail
 where j.id = $1 and j.org = $2 and j.deleted_at is null

-- name: lock_keys
-- scope: org, in the key
-- Lock these unique keys, so that sessions that enqueue jobs with the same key run one after the other. The caller passes the
-- keys in ascending order, so that two sessions cannot deadlock.
select pg_advisory_xact_lock(hashtextextended(key, 0)) from unnest($1::text[]) as key

-- name: find_unique
-- scope: org, in the key
-- Return, for each unique key, the latest job that counts as existing: its state is one of `states` (values of
-- `core.jobs.spec.LIVE`, or final statuses) and it was created within `period`. If there is none, return a composition
-- step that has reserved the key and has no job yet.
select u.key, j.id, j.status, j.run_at, j.workflow
  from unnest($1::text[], $2::jsonb[], $3::interval[]) as u(key, states, period)
 cross join lateral (
   (select id, status, run_at, null as workflow from workflow.workflow_run
    where unique_key is not null and unique_key = u.key and deleted_at is null
      and u.states ? case when status <> 'pending' then status when run_at = 'infinity' then 'held'
                             when run_at <= windlass.now() then 'due' when attempt + lost > 0 then 'again' else 'waiting' end
      and (u.period is null or created_at > windlass.now() - u.period)
      and (expires_at is null or expires_at > windlass.now() or status <> 'pending')
    order by seq desc limit 1)
   union all
   (select null, 'waiting', null, coalesce(c.alias, c.run_id::text)
      from windlass.reserved_key k
      join windlass.composition c on c.run_id = k.run_id
      join windlass.run root on root.id = c.root_id
      left join windlass.run r on r.id = k.run_id
     where k.key = u.key and u.states ? 'waiting' and root.state in ('pending', 'running')
       and (r.id is null or (r.state in ('pending', 'running') and substr(r.steps, k.step + 1, 1) = '.'))
       and (u.period is null or c.created_at > windlass.now() - u.period)
     limit 1)
   limit 1) as j

-- name: put_rate_limits
-- scope: org, in the key
-- Insert or update rate limits. Remaining tokens are kept, up to the new maximum.
insert into windlass.rate as r (key, per_period, period, concurrency, tokens)
select key, per_period, period, concurrency, coalesce(greatest(per_period, 1), 1)
  from unnest($1::text[], $2::float8[], $3::interval[], $4::int[]) as n(key, per_period, period, concurrency) order by key
on conflict (key) do update
   set per_period = excluded.per_period, period = excluded.period, concurrency = excluded.concurrency,
       tokens = least(r.tokens, excluded.tokens)
 where (r.per_period, r.period, r.concurrency) is distinct from (excluded.per_period, excluded.period, excluded.concurrency)
