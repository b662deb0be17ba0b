-- The inbox. Invariants:
--  * every move out of `leased` clears `leased_by`, so the fence (id, claim_no, leased_by) of a report can be checked through
--    the primary key alone. A condition on `status` there would make the planner choose the lease index,
--  * a change and its event are written by one statement,
--  * a claim probes lanes (queue, type, priority, alone) past a cursor. Dead index entries at the front of a lane, which an old
--    snapshot keeps from being removed, are read only by `find_lanes`, and the worker bounds how often that runs,
--  * rows are locked in ascending id, or skipped when locked.

-- name: insert
-- scope: org
-- Insert a batch of jobs with their `created` events. A job whose idempotency key already exists is left out. Returns
-- the time of the insert and the ids that were inserted, or null instead of the ids if all were: that is the usual
-- case, and null saves a row per job. A duplicate id fails the whole statement, because checking for both costs a tenth
-- more.
-- A column without values is passed as an empty array, and a column with a single value as $16 to $19 and $25, because
-- the cost of an array grows with its length.
with requested as (
  select id, coalesce(type, $16) as type, payload, coalesce(queue, $17) as queue, coalesce(priority, $18) as priority,
         run_at, delay, coalesce(max_attempts, $19) as max_attempts, timeout, coalesce(retry, $25) as retry,
         idempotency_key, tags, meta, envelope, expires_at, unique_key, visibility, rate_key, (select windlass.now()) as now_at
    from unnest($1::uuid[], $2::text[], $3::jsonb[], $4::text[], $5::int[], $6::timestamptz[], $7::interval[], $8::int[],
                $9::interval[], $10::jsonb[], $11::text[], $12::jsonb[], $13::jsonb[],
                $20::jsonb[], $21::timestamptz[], $22::text[], $23::interval[], $24::text[])
         as a(id, type, payload, queue, priority, run_at, delay, max_attempts, timeout, retry, idempotency_key, tags, meta,
              envelope, expires_at, unique_key, visibility, rate_key)),
born as (
  insert into workflow.workflow_run (id, type, payload, queue, priority, run_at, max_attempts, timeout, retry,
                                     idempotency_key, tags, meta, org, created_at, updated_at,
                                     envelope, expires_at, unique_key, visibility, rate_key, needs_created_event)
  select id, type, payload, queue, priority, coalesce(run_at, now_at + delay, now_at), max_attempts, timeout, retry,
         idempotency_key, case when tags is null then null else array(select jsonb_array_elements_text(tags)) end,
         meta, $14, now_at, now_at, envelope, expires_at, unique_key, visibility, rate_key, false
    from requested
  on conflict (idempotency_key) do nothing
  returning id, created_at),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, actor, created_at)
  select id, 'created', $15, created_at from born)
select (select windlass.now()) as created_at,
       case when count(*) < cardinality($1) then coalesce(array_agg(id), '{}') end as inserted
  from born

-- name: find_keys
-- scope: org, in the key
-- Return the ids of the jobs that have these idempotency keys.
select idempotency_key, id from workflow.workflow_run where idempotency_key = any($1)

-- name: find_lanes
-- scope: global
-- List the lanes with due jobs in these queues, except paused ones: each lane once, with the lowest `seq` in it, by a
-- loose scan of the claim index. A type that is neither in $5 nor matches a pattern of $6 is skipped after its first lane.
-- Without patterns the scan continues at the next type of $5, so that types this worker does not serve cost almost nothing.
-- $5 null means all types.
-- $2 to $4 give, for each queue, the lane to continue after, and nulls mean from the beginning. Stops after $7 hops.
with recursive start as (
  select q.queue, coalesce(q.type, '') as type, coalesce(q.priority, -2147483648) as priority, coalesce(q.alone, false) as alone
    from unnest($1::text[], $2::text[], $3::int[], $4::boolean[]) as q(queue, type, priority, alone)
   where q.queue <> all(array(select name from windlass.queue where paused))),
lane as (
  (select head.*, $5::text[] is null or head.type = any($5) or head.type like any($6::text[]) as served
     from start cross join lateral (
       select j.queue, j.type, j.priority, j.seq, j.alone from only workflow.workflow_run j
        where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = start.queue
          and (j.type, j.priority, j.alone) > (start.type, start.priority, start.alone)
        order by j.queue, j.type, j.priority, j.alone, j.seq limit 1) as head)
  union all
  select next.*, $5::text[] is null or next.type = any($5) or next.type like any($6::text[])
    from lane cross join lateral (
      select case when lane.served then lane.type
                  when $6::text[] = '{}' then (select min(t.type) from unnest($5::text[]) as t(type) where t.type > lane.type)
                  else lane.type end as type,
             case when lane.served then lane.priority when $6::text[] = '{}' then -2147483648 else 2147483647 end as priority,
             lane.served and lane.alone or not lane.served and $6::text[] <> '{}' as alone) as past
    cross join lateral (
      select j.queue, j.type, j.priority, j.seq, j.alone from only workflow.workflow_run j
       where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue
         and (j.type, j.priority, j.alone) > (past.type, past.priority, past.alone)
       order by j.queue, j.type, j.priority, j.alone, j.seq limit 1) as next)
select queue, type, priority, seq, alone from lane limit $7

-- name: find_orgs
-- scope: global
-- List orgs other than `default` that have due jobs and are not disabled, after org $1: one probe for each.
with recursive hop as (
  (select j.org from only workflow.workflow_run j
    where j.status = 'pending' and j.deleted_at is null and j.org <> 'default' and j.due and j.org > $1 order by j.org limit 1)
  union all
  select next.org from hop cross join lateral (
    select j.org from only workflow.workflow_run j
     where j.status = 'pending' and j.deleted_at is null and j.org <> 'default' and j.due and j.org > hop.org
     order by j.org limit 1) as next)
select hop.org from hop where not exists (select from windlass.org o where o.name = hop.org and o.disabled_at is not null) limit $2

-- name: claim
-- scope: global
-- Claim up to $7 jobs from these lanes: the most urgent lane first, then the one whose first job has the lowest `seq`.
-- `any(array(...))` and the inner limit keep the plan on its indexes. A job whose rate limit is exhausted is marked as
-- not due (`rate_admit`). If many such jobs precede a claimable one, several claims are needed to get past them, each
-- of which spends at most half a second on it (`rate_enough`). Paused queues are read once per statement: a claim that
-- starts after a pause was committed returns nothing from that queue.
-- The jobs belong to the worker lease $10. If there is none, or it was not extended for two thirds of its length, each
-- job gets a lease of its own: the worker lease could expire before the worker extends it.
-- $11 to $13 are successful attempts of the same worker, to be recorded as in `succeed`: with one statement for both, a
-- drain is a quarter faster and takes one round trip instead of four. The claim is executed first, while the snapshot
-- is fresh: jobs that other sessions claimed after the snapshot was taken would have to be locked and read again, one
-- by one. After the claim nothing may wait for a lock, or two workers could deadlock: reports on locked rows are
-- skipped. Skipped and refused reports are the last rows of the result, with an id only; the caller records them in a
-- separate statement. A claim without reports omits the marked lines, which makes it a tenth cheaper for a single job.
-- moves: pending -> leased, leased -> succeeded
with lease as materialized (
  select id from windlass.worker_lease where id = $10::bigint and until - (until - extended_at) / 3 > windlass.now()),
lane as materialized (
  select l.queue, l.type, l.priority, l.alone, l.room, head.seq
    from unnest($1::text[], $2::text[], $3::int[], $4::bigint[], $5::boolean[], $6::int[])
         as l(queue, type, priority, seq, alone, room)
   cross join lateral (
     select j.seq from only workflow.workflow_run j
      where j.status = 'pending' and j.due and j.deleted_at is null
        and j.queue = l.queue and j.type = l.type and j.priority = l.priority and j.alone = l.alone and j.seq > l.seq
      order by j.seq limit 1) as head
   where l.queue <> all(array(select name from windlass.queue where paused))
   order by l.priority, head.seq),
picked as (
  select j.id from lane cross join lateral (
    select j.id from only workflow.workflow_run j
     where j.status = 'pending' and j.due and j.deleted_at is null
       and j.queue = lane.queue and j.type = lane.type and j.priority = lane.priority and j.alone = lane.alone
       and j.seq >= lane.seq
       and (j.expires_at is null or j.expires_at > (select windlass.now()))
       and case when j.rate_key is null then true
                when windlass.rate_enough() then false
                else windlass.rate_admit(j.rate_key, j.id, j.seq, true) end
     order by j.seq limit lane.room for update skip locked) as j
   limit $7),
claimed as (
  update only workflow.workflow_run
     set status = 'leased', leased_by = $8, worker_lease = (select id from lease),
         lease_until = case when not exists (select from lease) then (select windlass.now()) + $9::interval end,
         claim_no = claim_no + 1, stop_at = null, updated_at = (select windlass.now())
   where id = any(array(select id from picked))
  returning id, type, payload, queue, priority, seq, attempt, lost, max_attempts, claim_no,
            case when timeout > interval '36525 days' then interval '36525 days' else timeout end as timeout, retry,
            least(greatest(created_at, '0001-01-02'), '9999-12-30') as created_at, meta, alone,
            run_id, version_id, step, item, items, epoch),
-- with reports
free as materialized (
  select d.id, d.result from unnest($11::uuid[], $12::int[], $13::jsonb[]) as d(id, claim_no, result)
   cross join lateral (
     select from only workflow.workflow_run j
      where j.id = d.id and j.claim_no = d.claim_no and j.leased_by = $8 for no key update skip locked) as j
   where (select count(*) from claimed) >= 0),
done as (
  update only workflow.workflow_run j
     set status = 'succeeded', result = free.result, settled = true, leased_by = null, lease_until = null, worker_lease = null,
         updated_at = (select windlass.now())
    from free where j.id = free.id
  returning j.id, j.attempt + j.lost + 1 as number),
-- end
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, actor, attempt, created_at)
-- with reports
  select id, 'succeeded', $8, number, (select windlass.now()) from done union all
-- end
  select id, 'leased', $8, attempt + lost + 1, (select windlass.now()) from claimed)
select * from claimed
-- with reports
union all
select id, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null
  from unnest($11::uuid[]) as d(id)
 where (select count(*) from done) < cardinality($11::uuid[]) and id not in (select id from done)
-- end
 order by priority, seq

-- name: defer_first
-- scope: global
-- Postpone the first job of a lane by $6, because it cannot be claimed.
update only workflow.workflow_run set due = false, run_at = windlass.now() + $6::interval, updated_at = windlass.now()
 where id = (
   select id from only workflow.workflow_run
    where status = 'pending' and due and deleted_at is null
      and queue = $1 and type = $2 and priority = $3 and alone = $4 and seq > $5
    order by seq limit 1 for update skip locked)
returning id

-- name: lock
-- scope: global
-- Lock a batch of jobs with one statement, in ascending id.
select from only workflow.workflow_run where id = any($1) order by id for update

-- name: succeed
-- scope: global
-- Record successful attempts of one worker, or of the holders that $5 names row by row. A report that does not match the fence is
-- ignored and not in the result.
-- moves: leased -> succeeded
with done as (
  update only workflow.workflow_run j
     set status = 'succeeded', result = d.result, settled = true, leased_by = null, lease_until = null, worker_lease = null,
         updated_at = (select windlass.now())
    from unnest($1::uuid[], $2::int[], $3::jsonb[], $5::text[]) as d(id, claim_no, result, holder)
   where j.id = d.id and j.claim_no = d.claim_no and j.leased_by = coalesce(d.holder, $4)
  returning j.id, j.attempt + j.lost + 1 as number, d.holder),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, actor, attempt, created_at)
  select id, 'succeeded', coalesce(holder, $4), number, (select windlass.now()) from done)
select id from done

-- name: set_back
-- scope: global
-- Record failed attempts (with or without attempts left), released jobs and jobs that stopped on request. A report that does not
-- match the fence is ignored and not in the result. A job that was requested to stop is not retried. A step job that reports a
-- stop although the request was withdrawn (its run was retried in the meantime) becomes pending again.
-- moves: leased -> pending; leased -> failed; leased -> cancelled
with report as (
  select * from unnest($1::uuid[], $2::int[], $3::text[], $4::jsonb[], $5::interval[], $6::jsonb[], $8::boolean[], $9::text[])
             as d(id, claim_no, move, error, delay, result, dead_letter, holder)),
decided as (
  select d.*, case when d.move = 'cancel' and (j.run_id is null or j.cancel_requested)
                     or d.move = 'release' and j.cancel_requested then 'cancelled'
                   when d.move = 'fail' or d.move = 'retry' and j.cancel_requested then 'failed' else 'pending' end as status
    from report d join only workflow.workflow_run j on j.id = d.id),
done as (
  update only workflow.workflow_run j
     set status = d.status, settled = j.settled or d.status <> 'pending', result = case when d.move in ('fail', 'retry') then d.result else j.result end,
         attempt = j.attempt + case when d.move in ('fail', 'retry') then 1 else 0 end,
         run_at = case when d.move = 'retry' or d.move = 'release' and d.delay > interval '0'
                       then (select windlass.now()) + d.delay else j.run_at end,
         last_error = coalesce(d.error ->> 'message', j.last_error),
         errors = case when d.error is null or d.move = 'release' then j.errors else windlass.remember(j.errors, jsonb_build_object(
           'attempt', j.attempt + j.lost + 1, 'at', (select windlass.now())) || d.error) end,
         dead_letter = case when d.status = 'failed' then d.dead_letter end, leased_by = null, lease_until = null, worker_lease = null, updated_at = (select windlass.now())
    from decided d
   where j.id = d.id and j.claim_no = d.claim_no and j.leased_by = coalesce(d.holder, $7)
  returning j.id, j.status, d.move, d.error, d.delay, d.holder,
            j.attempt + j.lost + case when d.move in ('fail', 'retry') then 0 else 1 end as number),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt, created_at)
  select id, case status when 'pending' then 'retried' else status end,
         case when status = 'cancelled' then null
              when move in ('release', 'cancel')
              then jsonb_build_object('reason', coalesce('handed back: ' || (error ->> 'message'), 'handed back'))
              when status = 'pending' then jsonb_build_object('error', error ->> 'message', 'delay_seconds', extract(epoch from delay))
              else jsonb_build_object('error', error ->> 'message') end,
         coalesce(holder, $7), number, (select windlass.now()) from done)
select id, status from done

-- name: heartbeat
-- scope: global
-- Extend the leases of single jobs that this worker still holds, and return them with `cancel_requested`. A job that is not returned
-- was lost or cancelled. A row that another session has locked is skipped: otherwise one session with an open transaction would stop the
-- heartbeats of all jobs of this worker. A skipped row is read as it was before: it counts as held, and `extended` is false.
with named as materialized (select id, claim_no from unnest($1::uuid[], $2::int[]) as d(id, claim_no)),
free as (
  select j.id from named d join only workflow.workflow_run j on j.id = d.id and j.claim_no = d.claim_no and j.leased_by = $3
     for no key update of j skip locked),
held as (
  update only workflow.workflow_run j set lease_until = (select windlass.now()) + $4::interval, updated_at = (select windlass.now())
   where j.id = any(array(select id from free))
  returning j.id)
select j.id, j.claim_no, j.cancel_requested, j.id = any(array(select id from held)) as extended
  from named d join only workflow.workflow_run j on j.id = d.id and j.claim_no = d.claim_no and j.leased_by = $3

-- name: held
-- scope: global
-- Return the jobs that this worker still holds, with `cancel_requested`. `extended` is false for a job with a lease of its own.
select j.id, j.claim_no, j.cancel_requested, j.lease_until is null as extended from unnest($1::uuid[], $2::int[]) as d(id, claim_no)
  join only workflow.workflow_run j on j.id = d.id and j.claim_no = d.claim_no and j.leased_by = $3

-- name: become_due
-- scope: global
-- Mark pending jobs whose `run_at` has passed as due, and give them a `seq` in the order of `run_at`. Only the jobs in $2, unless
-- that is null.
with ripe as (
  select id, run_at from only workflow.workflow_run
   where status = 'pending' and not due and run_at <= windlass.now() and ($2::uuid[] is null or id = any($2))
     and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))
   order by run_at limit $1 for update skip locked),
placed as (
  select id, nextval('workflow.workflow_run_seq_seq') as seq from (select id from ripe order by run_at) as r)
update only workflow.workflow_run j set due = true, seq = placed.seq from placed where j.id = placed.id
returning j.queue

-- name: find_ripe
-- scope: global
-- Return the jobs that `become_due` would update.
select id from only workflow.workflow_run
 where status = 'pending' and not due and run_at <= windlass.now() and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now())) order by run_at limit $1

-- name: log_created
-- scope: global
-- Write the `created` events that bulk inserts by plain SQL left out. Only for the jobs in $2, unless that is null.
with silent as (
  select id, created_at from only workflow.workflow_run
   where needs_created_event and ($2::uuid[] is null or id = any($2))
     and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))
   order by seq limit $1 for no key update skip locked),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, actor, created_at)
  select id, 'created', 'sql', created_at from silent
   where (select e.id from workflow.workflow_event e where e.workflow_id = silent.id and e.event_type = 'created'
           order by e.id limit 1) is null)
update only workflow.workflow_run j set needs_created_event = false from silent where j.id = silent.id
returning j.id

-- name: find_unlogged
-- scope: global
-- Return the jobs that `log_created` would update.
select id from only workflow.workflow_run
 where needs_created_event and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))
 order by seq limit $1

-- name: find_expired
-- scope: global
-- Return the jobs with expired leases that `release_expired` would check.
select id from (
  select id from only workflow.workflow_run where status = 'leased' and worker_lease is null and lease_until < windlass.now()
  union all
  select id from only workflow.workflow_run
   where status = 'leased' and worker_lease = any(array(select id from windlass.worker_lease where until < windlass.now()))) as expired
 where id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now())) order by id limit $1

-- name: release_expired
-- scope: global
-- Release jobs whose lease has expired, whatever kind of worker held them: their own lease, or that of their worker. A
-- job that has used up its attempts this way fails. A job that was requested to stop is cancelled instead of retried.
-- Releases nothing in the first 5 seconds after the server started, and no lease within one lease length after a gap in
-- which no worker could send a heartbeat. The gaps are $3 to $4, and the time since $5, the last answer of the
-- database. See core/jobs/job.py (`Continuity`). `lease_until - updated_at` is the length of a lease, because every
-- extension sets both. If a job with a worker lease also has a `lease_until`, an older process has set it, which takes
-- the lease for one without an end.
-- A job that would fail if it lost one more lease is marked `alone`: from then on it is claimed separately, so that a
-- job that kills its workers takes no other jobs down with it. A Python worker (pid <> 0) may hold several such jobs.
-- They are released together, when all of them have expired, and none is charged, because it is unknown which one
-- killed the worker. The next worker starts with only one of them, so that the job at fault is charged and fails.
-- `expired` has two parts because a condition with `or` would read all leased jobs. The condition is checked again when
-- the rows are locked; `status ||` keeps that check on the primary key.
-- moves: leased -> pending; leased -> failed; leased -> cancelled
with gap as materialized (
  select since, until from unnest($3::timestamptz[], $4::timestamptz[]) as g(since, until)
   union all
  select $5::timestamptz, windlass.now()),
silent_worker as materialized (
  select id from windlass.worker_lease l
   where until < windlass.now()
     and not exists (
       select from gap where l.extended_at < gap.until and gap.until - gap.since >= (l.until - l.extended_at) / 3
          and windlass.now() < gap.until + (l.until - l.extended_at))),
expired as materialized (
  select id from only workflow.workflow_run where status = 'leased' and worker_lease is null and lease_until < windlass.now()
   union all
  select id from only workflow.workflow_run where status = 'leased' and worker_lease = any(array(select id from silent_worker))),
silent as materialized (
  select id, leased_by, alone from only workflow.workflow_run j
   where id = any(array(select id from expired)) and status || '' = 'leased'
     and (worker_lease is null and lease_until < windlass.now() or worker_lease = any(array(select id from silent_worker)))
     and pg_postmaster_start_time() < windlass.now() - interval '5 seconds'
     and ($6::uuid[] is null or id = any($6)) and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))
     and not (worker_lease is null and exists (
       select from gap where j.updated_at < gap.until and gap.until - gap.since >= (j.lease_until - j.updated_at) / 3
          and windlass.now() < gap.until + (j.lease_until - j.updated_at)))
     and not (j.alone and exists (
       select from windlass.worker w join only workflow.workflow_run o on o.leased_by = w.id
         left join windlass.worker_lease l on l.id = o.worker_lease
        where w.id = j.leased_by and w.pid <> 0 and o.status = 'leased' and o.alone
          and coalesce(l.until, o.lease_until) >= windlass.now()))
   order by id limit $1 for update of j skip locked),
judged as (
  select id, alone and count(*) filter (where alone) over (partition by leased_by) > 1
             and exists (select from windlass.worker w where w.id = silent.leased_by and w.pid <> 0) as spared from silent),
freed as (
  update only workflow.workflow_run j
     set lost = j.lost + case when s.spared then 0 else 1 end,
         alone = s.spared or j.attempt + j.lost + 2 >= j.max_attempts::bigint + case j.queue when 'sql' then 5 else 0 end,
         status = case when j.cancel_requested then 'cancelled'
                       when not s.spared and (j.attempt >= j.max_attempts
                         or j.attempt + j.lost + 1 >= j.max_attempts::bigint + case j.queue when 'sql' then 5 else 0 end)
                       then 'failed' else 'pending' end,
         dead_letter = case when not s.spared and not j.cancel_requested and (j.attempt >= j.max_attempts
                         or j.attempt + j.lost + 1 >= j.max_attempts::bigint + case j.queue when 'sql' then 5 else 0 end)
                       then j.retry @> '{"dead_letter": true}' end,
         last_error = 'lease lost: ' || coalesce(j.leased_by, 'the worker') || ' fell silent',
         errors = windlass.remember(j.errors, jsonb_build_object('type', 'LeaseLost', 'at', windlass.now(),
           'attempt', j.attempt + j.lost + 1, 'message', 'lease lost: ' || coalesce(j.leased_by, 'the worker') || ' fell silent')),
         leased_by = null, lease_until = null, worker_lease = null, updated_at = windlass.now()
    from judged s
   where j.id = s.id
  returning j.id, j.status, j.last_error, j.attempt + j.lost + case when s.spared then 1 else 0 end as number),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt)
  select id, case status when 'pending' then 'retried' else status end, jsonb_build_object('error', last_error), $2, number
    from freed)
select id, status from freed

-- name: cancel
-- scope: org
-- Cancel live jobs at once. Their workers learn of it with their next heartbeat, and a late report has no effect.
-- moves: pending -> cancelled; leased -> cancelled
with ended as (
  update only workflow.workflow_run j set status = 'cancelled', leased_by = null, lease_until = null, worker_lease = null, updated_at = windlass.now()
   where j.id = any(array(
           select id from only workflow.workflow_run
            where id = any($1) and org = $2 and status in ('pending', 'leased') and deleted_at is null
            order by id for update))
     and j.status in ('pending', 'leased')
  returning j.id, j.attempt + j.lost + 1 as number),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt)
  select id, 'cancelled', case when $4::text is null then null else jsonb_build_object('reason', $4::text) end, $3, number from ended)
select id from ended

-- name: reopen
-- scope: org
-- Restart finished jobs: attempts are counted from zero, and the event trail continues. Step jobs are excluded: their result and
-- error belong to the record of the run, and the run restarts them itself. A job is left unchanged if another live job, or a
-- later one of the given jobs, has its unique key.
-- moves: failed -> pending; cancelled -> pending
with again as (
  update only workflow.workflow_run j
     set status = 'pending', epoch = j.epoch + 1, attempt = 0, lost = 0, alone = false, run_at = windlass.now(), due = true,
         seq = nextval('workflow.workflow_run_seq_seq'), result = null, dead_letter = null, expires_at = null,
         updated_at = windlass.now()
   where j.id = any(array(
           select id from only workflow.workflow_run
            where id = any($1) and org = $2 and status in ('failed', 'cancelled') and deleted_at is null and run_id is null
              and not exists (
                     select from only workflow.workflow_run other
                      where other.unique_key is not null and other.unique_key = workflow_run.unique_key
                        and other.id <> workflow_run.id and other.deleted_at is null
                        and (other.status in ('pending', 'leased') or other.id = any($1) and other.seq > workflow_run.seq))
            order by id for update))
     and j.status in ('failed', 'cancelled')
  returning j.id, j.queue, j.epoch),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor)
  select id, 'retried', jsonb_build_object('reason', 'reopened', 'epoch', epoch), $3 from again)
select id, queue from again

-- name: lock_unique
-- scope: org
-- Lock the unique keys of these jobs, in ascending order, before restarting them. Serializes with sessions that enqueue a job
-- with one of the keys: see `lock_keys` in claims.sql.
select pg_advisory_xact_lock(hashtextextended(key, 0)) from (
  select distinct unique_key as key from workflow.workflow_run where id = any($1) and org = $2 and unique_key is not null
   order by unique_key) as keys

-- name: unique_holder
-- scope: org
-- Return the other live job that has the unique key of job $1, if there is one.
select other.id from workflow.workflow_run j join workflow.workflow_run other
    on other.unique_key is not null and other.unique_key = j.unique_key and other.id <> j.id
   and other.status in ('pending', 'leased') and other.deleted_at is null
 where j.id = $1 and j.org = $2 order by other.seq desc limit 1

-- name: soft_delete
-- scope: org
-- Mark jobs as deleted. A live job is no longer claimed. Locked in ascending id: see `heartbeat` in claims.sql.
update workflow.workflow_run set deleted_at = windlass.now()
 where id = any(array(
         select id from workflow.workflow_run where id = any($1) and org = $2 and deleted_at is null
          order by id for no key update)) returning id

-- name: get
-- scope: org
-- Return one job with all columns.
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until
  from workflow.workflow_run j where j.id = $1 and j.org = $2 and j.deleted_at is null

-- name: list
-- scope: org
-- List at most $6 jobs of `default`, newest first, with `seq` below $5. Finished jobs come from one probe per (type,
-- status), due jobs from one probe per lane, jobs that are not yet due from one probe per queue: the cost grows with
-- the page, not with the table. Unless $8 is true, step jobs are left out. All jobs of the HTTP and command types are
-- step jobs, so the finished ones are not even scanned.
with page as (
  (select j.id, j.seq from windlass.finished kind cross join lateral (
     select j.id, j.seq from workflow.workflow_run j
      where j.status in ('succeeded', 'failed', 'cancelled') and j.type = kind.type and j.status = kind.status
        and j.seq < $5 and j.org = $1 and j.deleted_at is null
        and ($3::text is null or j.queue = $3) and ($7::text is null or j.tags @> array[$7]) and ($8 or j.run_id is null)
      order by j.seq desc limit $6) as j
    where ($2::text[] is null or kind.status = any($2)) and ($4::text is null or kind.type like $4)
      and ($8::boolean or kind.type not in ('windlass.http.v1', 'windlass.command.v1')))
  union all
  (select j.id, j.seq from windlass.lanes(array(select * from windlass.pending_queues($1, true))) as lane cross join lateral (
     select j.id, j.seq from workflow.workflow_run j
      where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue and j.type = lane.type
        and j.priority = lane.priority and j.alone = lane.alone and j.seq < $5 and j.org = $1
        and ($7::text is null or j.tags @> array[$7]) and ($8 or j.run_id is null)
      order by j.seq desc limit $6) as j
    where ($2::text[] is null or 'pending' = any($2)) and ($3::text is null or lane.queue = $3)
      and ($4::text is null or lane.type like $4))
  union all
  (select j.id, j.seq from windlass.pending_queues($1, false) as w(queue) cross join lateral (
     select j.id, j.seq from workflow.workflow_run j
      where j.status = 'pending' and not j.due and j.queue = w.queue
        and j.seq < $5 and j.org = $1 and j.deleted_at is null
        and ($4::text is null or j.type like $4) and ($7::text is null or j.tags @> array[$7]) and ($8 or j.run_id is null)
      order by j.seq desc limit $6) as j
    where ($2::text[] is null or 'pending' = any($2)) and ($3::text is null or w.queue = $3))
  union all
  (select j.id, j.seq from workflow.workflow_run j
    where j.status = 'leased' and ($2::text[] is null or 'leased' = any($2))
      and j.seq < $5 and j.org = $1 and j.deleted_at is null
      and ($3::text is null or j.queue = $3) and ($4::text is null or j.type like $4)
      and ($7::text is null or j.tags @> array[$7]) and ($8 or j.run_id is null)
    order by j.seq desc limit $6))
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until from workflow.workflow_run j
 where j.id = any(array(select id from page order by seq desc limit $6)) order by j.seq desc

-- name: list_of_org
-- scope: org
-- List jobs of an org other than `default`, in the same order, from the index of its own jobs. The cost grows with the page; with a
-- filter that few jobs match it grows with the jobs of the org, but never with those of other orgs. $9 is the label that the caller is
-- restricted to.
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until from workflow.workflow_run j
 where j.org = $1 and j.org <> 'default' and j.deleted_at is null and ($2::text[] is null or j.status = any($2))
   and ($3::text is null or j.queue = $3) and ($4::text is null or j.type like $4) and j.seq < $5
   and ($7::text is null or j.tags @> array[$7])
   and ($9::text is null or j.meta ->> 'tenant_id' = $9) and ($8::boolean or j.run_id is null)
 order by j.seq desc limit $6

-- name: list_live_of_org
-- scope: org
-- Like `list_of_org`, for pending and leased jobs only ($2), which are few even if the history is long: the cost grows
-- with the pending jobs of the org and with all leased jobs. Naming both values of `due` makes `org` a condition of the
-- index.
with page as (
  (select j.id, j.seq from workflow.workflow_run j
    where j.status = 'pending' and j.due = any(array[true, false]) and j.org = $1 and j.org <> 'default' and j.deleted_at is null
      and 'pending' = any($2::text[]) and ($3::text is null or j.queue = $3) and ($4::text is null or j.type like $4) and j.seq < $5
      and ($7::text is null or j.tags @> array[$7])
      and ($9::text is null or j.meta ->> 'tenant_id' = $9) and ($8::boolean or j.run_id is null)
    order by j.seq desc limit $6)
  union all
  (select j.id, j.seq from workflow.workflow_run j
    where j.status = 'leased' and j.org = $1 and j.deleted_at is null
      and 'leased' = any($2) and ($3 is null or j.queue = $3) and ($4 is null or j.type like $4) and j.seq < $5
      and ($7 is null or j.tags @> array[$7]) and ($9 is null or j.meta ->> 'tenant_id' = $9) and ($8 or j.run_id is null)
    order by j.seq desc limit $6))
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until from workflow.workflow_run j
 where j.id = any(array(select id from page order by seq desc limit $6)) order by j.seq desc

-- name: list_of_label
-- scope: org
-- List jobs of `default` with label $9, in the same order: the cost grows with the jobs of the label. A condition on the label in `list`
-- would make the planner read all pending jobs.
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until from workflow.workflow_run j
 where j.meta ->> 'tenant_id' = $9::text and j.org = $1 and j.deleted_at is null and ($2::text[] is null or j.status = any($2))
   and ($3::text is null or j.queue = $3) and ($4::text is null or j.type like $4) and j.seq < $5
   and ($7::text is null or j.tags @> array[$7]) and ($8::boolean or j.run_id is null)
 order by j.seq desc limit $6

-- name: list_of_run
-- scope: org
-- List the step jobs of run $8, in the same order. All jobs of the run are scanned, so the cost grows with the run.
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until from workflow.workflow_run j
 where j.run_id = $8 and j.org = $1 and j.deleted_at is null and ($2::text[] is null or j.status = any($2))
   and ($3::text is null or j.queue = $3) and ($4::text is null or j.type like $4) and j.seq < $5
   and ($7::text is null or j.tags @> array[$7]) and ($9::text is null or j.meta ->> 'tenant_id' = $9)
 order by j.seq desc limit $6

-- name: list_held
-- scope: org
-- List the jobs that a worker holds, newest first. Scans all leased jobs.
select j.*, (select l.until from windlass.worker_lease l where l.id = j.worker_lease) as worker_until from only workflow.workflow_run j
 where j.status = 'leased' and j.leased_by = $1 and j.org = $2 and j.deleted_at is null order by j.seq desc limit $3

-- name: prune
-- scope: global
-- Delete a batch of jobs that ended, or were marked as deleted, before the cutoff. Scans the $2 oldest jobs of each
-- (type, status). Step jobs are deleted with their runs. Only the rows to delete are locked: locking every scanned row
-- would write to each of them.
with old as (
  select j.id from windlass.finished kind cross join lateral (
    select id, updated_at, run_id from only workflow.workflow_run j
     where j.status in ('succeeded', 'failed', 'cancelled') and j.type = kind.type and j.status = kind.status
     order by seq limit $2) as j
   where j.updated_at < windlass.now() - $1::interval
     and j.run_id is null limit $2),
hidden as (
  select id from only workflow.workflow_run j where deleted_at < windlass.now() - $1::interval
     and j.run_id is null limit $2),
held as (
  select id from only workflow.workflow_run j
   where j.id = any(array(select id from old union select id from hidden))
     and (j.status not in ('pending', 'leased') and j.updated_at < windlass.now() - $1::interval
          or j.deleted_at < windlass.now() - $1::interval)
   order by id for update skip locked),
gone as (
  delete from only workflow.workflow_run where id = any(array(select id from held)) returning id),
quiet as (delete from windlass.job_log where job_id = any(array(select id from gone))),
streamed as (delete from windlass.stream_chunk where job_id = any(array(select id from gone))),
saved as (delete from windlass.checkpoint where job_id = any(array(select id from gone))),
waits as (delete from windlass.waiter where job_id = any(array(select id from gone))),
said as (delete from windlass.progress where job_id = any(array(select id from gone))),
files as (update windlass.artifact set remove_at = windlass.now() where job_id = any(array(select id from gone)))
select count(*) from gone

-- name: depth
-- scope: global
-- Return the number of due jobs by queue and type, counted up to $1 per lane.
select lane.queue, lane.type, sum(n)::bigint as depth from windlass.lane cross join lateral (
  select count(*) as n from (
    select 1 from only workflow.workflow_run j
     where j.status = 'pending' and j.due and j.deleted_at is null
       and j.queue = lane.queue and j.type = lane.type and j.priority = lane.priority
       and j.alone = lane.alone limit $1) as waiting) as counted
 group by lane.queue, lane.type

-- name: live
-- scope: global
-- Return the queues and types that have due or leased jobs, from one snapshot.
select queue, type from windlass.lane
union
select queue, type from only workflow.workflow_run where status = 'leased'
