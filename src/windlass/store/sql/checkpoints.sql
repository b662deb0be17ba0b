-- Checkpoints of jobs: state that a worker saved as a whole, and the results of the finished steps of a handler.

-- name: save
-- scope: org
-- Save the state of a live job. Returns the sequence number and the time of the save, or no row if there is no such
-- live job, or if the worker $4 does not hold it, or not under the fence $5; null means any.
with job as (
  select id from only workflow.workflow_run
   where id = $1 and org = $2 and deleted_at is null and status in ('pending', 'leased')
     and ($4::text is null or leased_by is not distinct from $4)
     and ($5::int is null or claim_no = $5 and leased_by is not null) for share)
insert into windlass.checkpoint as c (job_id, state) select id, $3::jsonb from job
on conflict (job_id, name) do update
   set state = excluded.state, sequence = c.sequence + 1, saved_at = excluded.saved_at, xid = excluded.xid
returning sequence, saved_at

-- name: get
-- scope: owned
-- Return the latest checkpoint of a job. For a handler that saves steps, return their results by name.
select state, sequence, saved_at from windlass.checkpoint where job_id = $1 and name = ''
union all
select jsonb_build_object('steps', jsonb_object_agg(name, state)), count(*)::int, max(saved_at) from windlass.checkpoint
 where job_id = $1 and not waits having count(*) > 0 and not exists (select from windlass.checkpoint where job_id = $1 and name = '')

-- name: of_jobs
-- scope: owned
-- Return the states that were saved as a whole for these jobs, and the waits with which workers have suspended them, latest first.
select job_id, name, state, sequence, saved_at, waits, until is not null as timed_out from windlass.checkpoint
 where job_id = any($1) and (name = '' or kind = 'wait' and name like 'suspend-%') order by saved_at desc

-- name: remove
-- scope: owned
-- Delete the checkpoints of a job and end the waits of its handler, so that it starts from the beginning.
with closed as (
  update windlass.waiter w set state = 'closed'
    from (select id from windlass.waiter where job_id = $1 and state in ('new', 'open', 'received') order by id for update) as live
   where w.id = live.id)
delete from windlass.checkpoint where job_id = $1

-- name: recorded
-- scope: global
-- Return the recorded calls of the handlers of these jobs that are still valid: saved for the same payload, and not
-- followed by a success of the job, after which it has another epoch. The payload is hashed once for each job. `over`
-- is computed with the clock of the database: a sleep has ended if it is true. A wait for a message has ended if
-- `waits` is false, and has timed out if it still has an `until`.
with job as materialized (
  select j.id, md5(j.payload::text) as input,
         case when j.epoch > 0 then (select e.xid from workflow.workflow_event e where e.workflow_id = j.id
                                        and e.event_type = 'succeeded' order by e.xid desc limit 1) end as succeeded
    from only workflow.workflow_run j
   where j.id = any($1) and exists (select from windlass.checkpoint c where c.job_id = j.id and c.name <> ''))
select c.job_id, c.name, c.kind, c.place, c.state, c.waits, coalesce(c.until <= (select windlass.now()), false) as over
  from job join windlass.checkpoint c on c.job_id = job.id
 where c.name <> '' and c.input = job.input and (job.succeeded is null or c.xid > job.succeeded)
 order by c.job_id, c.place

-- name: record
-- scope: global
-- Record calls of an attempt that still holds its job. Returns no row if the lease was lost.
with held as (
  select id, md5(payload::text) as input from only workflow.workflow_run
   where id = $1 and claim_no = $2 and leased_by is not null for share)
insert into windlass.checkpoint as c (job_id, name, kind, place, state, waits, until, input)
select held.id, r.name, r.kind, r.place, r.state, coalesce(r.waits, false), (select windlass.now()) + r.delay, held.input
  from held cross join unnest($3::text[], $4::text[], $5::int[], $6::jsonb[], $7::boolean[], $8::interval[])
                       as r(name, kind, place, state, waits, delay)
on conflict (job_id, name) do update
   set sequence = c.sequence + 1, kind = excluded.kind, place = excluded.place, state = excluded.state, waits = excluded.waits, until = excluded.until,
       input = excluded.input, saved_at = excluded.saved_at, xid = excluded.xid
returning true

-- name: record_steps
-- scope: org
-- Record finished steps of an attempt that an HTTP worker ($3) still holds under its fence ($4). Returns no row if the
-- lease was lost. A step whose record is still valid, as in `recorded`, keeps its first value, because the request may
-- be a retry.
with held as materialized (
  select j.id, md5(j.payload::text) as input,
         case when j.epoch > 0 then (select e.xid from workflow.workflow_event e where e.workflow_id = j.id
                                        and e.event_type = 'succeeded' order by e.xid desc limit 1) end as succeeded
    from only workflow.workflow_run j
   where j.id = $1 and j.org = $2 and j.leased_by = $3 and j.claim_no = $4 and j.deleted_at is null for share of j),
recorded as (
  insert into windlass.checkpoint as c (job_id, name, kind, state, input)
  select held.id, r.name, 'step', r.state, held.input
    from held cross join unnest($5::text[], $6::jsonb[]) as r(name, state)
  on conflict (job_id, name) do update
     set sequence = c.sequence + 1, kind = excluded.kind, place = null, state = excluded.state, waits = false, until = null,
         input = excluded.input, saved_at = excluded.saved_at, xid = excluded.xid
   where c.input is distinct from excluded.input or c.xid <= (select succeeded from held))
select true from held

-- name: suspend
-- scope: global
-- Suspend jobs whose handlers wait until the first of the waits $12, $13 ends, and record their new calls ($5 to $11).
-- A report that does not match the fence is ignored and not in the result. The caller has locked the jobs with an
-- earlier statement: a session that ends a wait locks the job first, so its change is either visible here, or it finds
-- the job pending and makes it due. A job that was requested to stop is cancelled. `expires_at` is cleared, because the
-- job has started.
-- moves: leased -> pending; leased -> cancelled
with held as materialized (
  select j.id, d.holder, md5(j.payload::text) as input
    from unnest($1::uuid[], $2::int[], $3::text[]) as d(id, claim_no, holder) join only workflow.workflow_run j on j.id = d.id
   where j.claim_no = d.claim_no and j.leased_by = coalesce(d.holder, $4)),
recorded as (
  insert into windlass.checkpoint as own (job_id, name, kind, place, state, waits, until, input)
  select held.id, r.name, r.kind, r.place, r.state, coalesce(r.waits, false), (select windlass.now()) + r.delay, held.input
    from held join unnest($5::uuid[], $6::text[], $7::text[], $8::int[], $9::jsonb[], $10::boolean[], $11::interval[])
                   as r(job_id, name, kind, place, state, waits, delay) on r.job_id = held.id
  on conflict (job_id, name) do update
     set sequence = own.sequence + 1, kind = excluded.kind, place = excluded.place, state = excluded.state, waits = excluded.waits, until = excluded.until,
         input = excluded.input, saved_at = excluded.saved_at, xid = excluded.xid
  returning job_id, name, waits, until),
wait as (
  select w.job_id, min(case when coalesce(r.waits, c.waits, false) then coalesce(r.until, c.until, 'infinity')
                            else (select windlass.now()) end) as until
    from unnest($12::uuid[], $13::text[]) as w(job_id, name)
    left join recorded r on r.job_id = w.job_id and r.name = w.name
    left join windlass.checkpoint c on c.job_id = w.job_id and c.name = w.name and r.name is null
   group by w.job_id),
done as (
  update only workflow.workflow_run j
     set status = case when j.cancel_requested then 'cancelled' else 'pending' end, settled = j.settled or j.cancel_requested,
         run_at = coalesce(w.until, (select windlass.now())), expires_at = null, leased_by = null, lease_until = null, worker_lease = null,
         updated_at = (select windlass.now())
    from held left join wait w on w.job_id = held.id
   where j.id = held.id
  returning j.id, j.status, j.queue, j.due, j.run_at, j.attempt + j.lost + 1 as number, held.holder),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt, created_at)
  select id, case status when 'pending' then 'retried' else status end,
         case status when 'pending' then jsonb_strip_nulls(jsonb_build_object('reason', 'suspended',
           'delay_seconds', case when run_at < 'infinity' then extract(epoch from greatest(run_at - (select windlass.now()), '0')) end)) end,
         coalesce(holder, $4), number, (select windlass.now()) from done)
select id, status, queue, due from done

-- name: waits
-- scope: owned
-- Return the call in which the handler of each of these jobs waits; of several calls, the one whose wait ends first.
select distinct on (job_id) job_id, name, kind, until from windlass.checkpoint
 where job_id = any($1) and waits and (until is null or until > windlass.now()) order by job_id, until, name

-- name: hold
-- scope: global
-- Lock a job that an attempt still holds. Returns no row if the lease was lost.
select true from only workflow.workflow_run where id = $1 and claim_no = $2 and leased_by is not null for update

-- name: end_wait
-- scope: owned
-- End the wait of a call for a message: with the payload $3, or by timeout if that is null.
update windlass.checkpoint
   set state = coalesce($3::jsonb, state), waits = false, until = case when $3::jsonb is null then until end
 where job_id = $1 and name = $2 and waits

-- name: ended_wait
-- scope: owned
-- Return the payload that ended a wait, and whether it timed out instead.
select state, until is not null as timed_out from windlass.checkpoint where job_id = $1 and name = $2

-- name: timeline
-- scope: owned
-- Return at most $2 recorded calls of a job's handler in the order in which they were saved, without the first $3. A
-- large result is left out. A wait for a message has the message's address, a run its id.
select c.name, c.kind, case when c.kind = 'sleep' and c.until > windlass.now() or c.kind <> 'sleep' and c.waits then 'waiting'
                            when c.kind = 'wait' and c.until is not null then 'timed_out' else 'done' end as status,
       case when length(c.state::text) <= 16384 and not c.waits
            then case c.kind when 'run' then c.state -> 'output' else c.state end end as result,
       length(c.state::text) > 16384 as is_large, c.saved_at, c.until, case c.kind when 'run' then c.state ->> 'run' end as run_id, w.name as message, w.key, w.is_signal
  from windlass.checkpoint c
  left join lateral (select w.name, w.key, w.is_signal from windlass.waiter w where w.job_id = c.job_id and w.place = c.name and c.kind = 'wait'
                      order by w.round desc limit 1) as w on true
 where c.job_id = $1 and c.name <> '' order by c.saved_at, c.place, c.name limit $2 offset $3
