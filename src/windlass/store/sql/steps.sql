-- Steps of runs: their jobs in the inbox, their fan-out items and their outputs. Changes are made under the lock of the run.

-- name: enqueue
-- scope: owned
-- Insert the jobs of steps with their `created` events. Values that many rows share are passed once, as a shape. One row may
-- represent a range of instances. A job of an earlier round is reset to pending.
-- moves: failed -> pending; cancelled -> pending; succeeded -> pending
with shape as (
  select * from unnest($1::int[], $2::int[], $3::text[], $4::jsonb[], $5::text[], $6::int[], $7::int[], $8::interval[], $9::jsonb[], $10::boolean[])
    with ordinality as s(version_id, step, type, payload, queue, priority, max_attempts, timeout, retry, foreach, no)),
requested as (
  select * from unnest($11::uuid[], $12::uuid[], $13::text[], $14::int[], $15::int[], $16::int[], $17::int[], $18::int[], $19::jsonb[])
    as a(id, run_id, org, no, round, first, count, items, payload)),
born as (
  insert into workflow.workflow_run (id, type, payload, queue, priority, max_attempts, timeout, retry, org, run_id, version_id,
                                     step, item, items, epoch, settled, run_at, created_at, updated_at, needs_created_event)
  select case a.count when 1 then a.id else windlass.new_id() end, s.type,
         case when s.foreach
              then case jsonb_typeof(coalesce(a.payload, s.payload)) when 'object' then coalesce(a.payload, s.payload) else '{}' end
                   || jsonb_build_object('item', (
                     select value from windlass.item i where i.run_id = a.run_id and i.step = s.step and i.item = n))
              else coalesce(a.payload, s.payload) end,
         windlass.stored_queue(a.org, s.queue), s.priority, s.max_attempts, s.timeout, s.retry, a.org, a.run_id, s.version_id, s.step, n, a.items, a.round, false,
         (select windlass.now()), (select windlass.now()), (select windlass.now()), false
    from requested a join shape s on s.no = a.no
   cross join lateral generate_series(a.first, a.first + a.count - 1) as n
  on conflict (run_id, step, item) where run_id is not null do update
     set status = 'pending', epoch = excluded.epoch, attempt = 0, lost = 0, alone = false, run_at = excluded.run_at, due = true,
         seq = excluded.seq, result = null, last_error = null, payload = excluded.payload, items = excluded.items,
         type = excluded.type, queue = excluded.queue, priority = excluded.priority, max_attempts = excluded.max_attempts,
         timeout = excluded.timeout, retry = excluded.retry, version_id = excluded.version_id, settled = false, cancel_requested = false, deleted_at = null, updated_at = excluded.updated_at
   where workflow.workflow_run.epoch < excluded.epoch
  returning id)
insert into workflow.workflow_event (workflow_id, event_type, actor, created_at)
select id, 'created', $20, (select windlass.now()) from born

-- name: reopen
-- scope: owned
-- Reset a limited number of instances that failed or were cancelled in an earlier round to pending. An instance whose end has not
-- been applied to the run yet (not settled) still counts as live and is left alone.
-- moves: failed -> pending; cancelled -> pending
with again as (
  update only workflow.workflow_run j
     set status = 'pending', epoch = $4, attempt = 0, lost = 0, alone = false, run_at = windlass.now(), due = true,
         seq = nextval('workflow.workflow_run_seq_seq'), result = null, settled = false, cancel_requested = false,
         deleted_at = null, updated_at = windlass.now()
   where j.id = any(array(
           select id from only workflow.workflow_run
            where run_id = $1 and step = $2 and epoch < $4 and status in ('failed', 'cancelled') and settled order by item limit $3))
  returning j.id, j.queue, j.epoch),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor)
  select id, 'retried', jsonb_build_object('reason', 'reopened', 'epoch', epoch), $5 from again)
select queue from again

-- name: take_ended
-- scope: owned
-- Mark job ends that plain SQL or upkeep recorded as settled, and return them for their runs. A live job that was deleted is
-- cancelled.
-- moves: pending -> cancelled; leased -> cancelled
with news as (
  select id, status in ('pending', 'leased') as ends, attempt + lost + 1 as number from only workflow.workflow_run
   where run_id = any($1) and not settled and (status in ('succeeded', 'failed', 'cancelled') or deleted_at is not null)
   order by id limit $2 for update),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt)
  select id, 'cancelled', '{"reason": "deleted"}', 'engine', number from news where ends)
update only workflow.workflow_run j
   set settled = true, status = case when j.status in ('pending', 'leased') then 'cancelled' else j.status end,
       leased_by = null, lease_until = null, worker_lease = null
 where j.id = any(array(select id from news))
returning j.run_id, j.step, j.status, j.last_error, j.errors -> -1 ->> 'type' as error_type, j.deleted_at is not null as deleted

-- name: unsettle
-- scope: owned
-- Mark ended step jobs as not settled, because their runs could not be advanced when the ends were recorded: the sweep applies
-- them later.
update only workflow.workflow_run set settled = false
 where id = any($1) and run_id is not null and status in ('succeeded', 'failed', 'cancelled')

-- name: withdraw
-- scope: owned
-- Cancel the live jobs of these steps. A pending job ends at once. A Python worker, or one that uses HTTP (its lease length is
-- in the row), is requested to stop and still reports its outcome. A plain SQL client can only read the status, so its job is set
-- to cancelled.
-- moves: pending -> cancelled; leased -> cancelled
with live as (
  select j.id, w.reason,
         j.status = 'pending' or j.lease is null and not exists (select from windlass.worker w where w.id = j.leased_by) as ends
    from unnest($1::uuid[], $2::int[], $3::text[]) as w(run_id, step, reason)
    join only workflow.workflow_run j on j.run_id = w.run_id and j.step = w.step
   where j.status in ('pending', 'leased') order by j.id for update of j),
done as (
  update only workflow.workflow_run j
     set status = case when live.ends then 'cancelled' else j.status end, cancel_requested = true,
         settled = j.settled or live.ends, updated_at = windlass.now()
    from live where j.id = live.id
  returning j.id, j.run_id, j.step, live.ends, live.reason, j.attempt + j.lost + 1 as number),
logged as (
  insert into workflow.workflow_event (workflow_id, event_type, data, actor, attempt)
  select id, 'cancelled', jsonb_build_object('reason', reason), $4, number from done where ends)
select run_id, step, count(*) filter (where ends) as ended, count(*) filter (where not ends) as held
  from done group by run_id, step

-- name: keep_going
-- scope: owned
-- Withdraw stop requests for the jobs of retried runs that are not settled, and assign these jobs to the new round. If one of
-- them fails from now on, it does not count as a failure left over from an earlier round.
with busy as (
  select j.id, w.round from unnest($1::uuid[], $2::int[]) as w(run_id, round)
    join only workflow.workflow_run j on j.run_id = w.run_id where not j.settled and j.epoch < w.round order by j.id for update of j)
update only workflow.workflow_run j set cancel_requested = false, epoch = busy.round from busy where j.id = busy.id

-- name: expand
-- scope: owned
-- Insert the fan-out items of a step from a list: the value at a path of the result of a step, of the input of the run,
-- or of the given value. Returns their number, and the type and text of the value in case it is not a list.
with source as (
  select coalesce($6::jsonb, case when $3::int is null then (select input from only windlass.run where id = $1)
                   else (select result from only workflow.workflow_run where run_id = $1 and step = $3 and item = 0) end) #> $4::text[] as value),
gone as (delete from windlass.item where run_id = $1 and step = $2 and $5 returning 1),
made as (
  insert into windlass.item (run_id, step, item, value)
  select $1, $2, n - 1, e from source cross join lateral jsonb_array_elements(
    case when jsonb_typeof(value) = 'array' and $5 then value else '[]' end) with ordinality as x(e, n)
   where (select count(*) from gone) >= 0
  on conflict (run_id, step, item) do update set value = excluded.value
  returning 1)
select jsonb_typeof(value) as kind, (select count(*) from made) as count,
       case jsonb_typeof(value) when 'array' then null when 'object' then null else left(value #>> '{}', 100) end as value from source

-- name: expand_instances
-- scope: owned
-- Insert the results of a fanned-out step as items. Jobs of an earlier round beyond the current number of instances are ignored.
with made as (
  insert into windlass.item (run_id, step, item, value)
  select j.run_id, $2, j.item, coalesce(j.result, 'null') from only windlass.run r join only workflow.workflow_run j on j.run_id = r.id
   where r.id = $1 and j.step = $3 and j.item < coalesce((r.fans -> ($3::int)::text ->> 0)::int, 0)
  on conflict (run_id, step, item) do update set value = excluded.value
  returning 1)
select count(*) from made

-- name: missing
-- scope: owned
-- Return instances that never had a job, for example because their templates could not be rendered.
select n from generate_series(0, $3::int - 1) as n
 where not exists (select from only workflow.workflow_run j where j.run_id = $1 and j.step = $2 and j.item = n) limit $4

-- name: items
-- scope: owned
-- Return a range of the fan-out items of a step.
select item, value from windlass.item where run_id = $1 and step = $2 and item >= $3 and item < $3 + $4 order by item

-- name: results
-- scope: owned
-- Return the outcomes of the jobs of these steps, up to $3 instances of each. Jobs left over from an earlier round are ignored.
select w.run_id, w.step, j.item, j.items, j.status, j.result, j.last_error, j.attempts
  from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.run r on r.id = w.run_id and substr(r.steps, w.step + 1, 1) not in ('.', 'k')
 cross join lateral (
   select item, items, status, result, last_error, attempt + lost + case status when 'succeeded' then 1 else 0 end as attempts
     from workflow.workflow_run j
    where j.run_id = w.run_id and j.step = w.step
      and (j.items is null or j.item < coalesce((r.fans -> w.step::text ->> 0)::int, 0)) order by item limit $3) as j

-- name: succeeded
-- scope: owned
-- Return which of these steps succeeded. For a fan-out over an empty list the step state is the only record.
select w.run_id, w.step from unnest($1::uuid[], $2::int[]) as w(run_id, step)
  join windlass.run r on r.id = w.run_id and substr(r.steps, w.step + 1, 1) = 's'

-- name: codes
-- scope: owned
-- Return the code of the latest event of each of these steps.
select w.run_id, w.step,
       (select e.code from windlass.event e where e.run_id = w.run_id and e.step = w.step order by e.id desc limit 1)
  from unnest($1::uuid[], $2::int[]) as w(run_id, step)

-- name: inputs
-- scope: owned
-- Return the inputs and trigger headers of these runs.
select id, input, trigger_headers from windlass.run where id = any($1)

-- name: children
-- scope: owned
-- Return the child runs of these steps, the latest of each instance. Child runs left over from an earlier round are ignored.
select c.parent_id, c.parent_step, c.id, c.version_id, c.steps
  from unnest($1::uuid[], $2::int[], $3::boolean[]) as w(run_id, step, fanned)
  join windlass.run r on r.id = w.run_id and substr(r.steps, w.step + 1, 1) not in ('.', 'k')
 cross join lateral (
   select distinct on (parent_item) * from windlass.run c where c.parent_id = w.run_id and c.parent_step = w.step
      and c.parent_item < coalesce((r.fans -> w.step::text ->> 0)::int, case when w.fanned then 0 else 1 end)
    order by parent_item, parent_round desc limit 10000) as c

-- name: instances
-- scope: owned
-- Return a page of the instances of a step, in order. Jobs left over from an earlier round are ignored. `launch` as in `first_jobs`.
select j.item, j.id, j.queue, j.status, j.attempt, j.lost, j.max_attempts, j.result, j.last_error, j.errors,
       windlass.shown_name(j.org, j.leased_by) as leased_by, j.created_at,
       j.updated_at, case when p.job_id is not null then coalesce(p.data ->> 'launch', 'running') end as launch
  from windlass.run r join workflow.workflow_run j on j.run_id = r.id
  left join windlass.progress p
    on j.status = 'leased' and p.job_id = j.id and coalesce(p.data ->> 'fence', j.claim_no::text) = j.claim_no::text
 where r.id = $1 and j.step = $2 and j.item >= $3
   and (j.items is null or j.item < coalesce((r.fans -> ($2::int)::text ->> 0)::int, 0)) order by j.item limit $4

-- name: jobs
-- scope: owned
-- Return the first instance of each step that has a job: the one shown for the step.
select s.step, j.* from windlass.run r cross join lateral generate_series(0, length(r.steps) - 1) as s(step)
 cross join lateral (
   select id, status, attempt, lost, max_attempts, last_error, windlass.shown_name(j.org, j.leased_by) as leased_by, created_at, updated_at
     from workflow.workflow_run j where j.run_id = r.id and j.step = s.step order by j.item limit 1) as j
 where r.id = $1
