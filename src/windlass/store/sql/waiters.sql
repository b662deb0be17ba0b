-- Waiters: steps of runs and calls in handlers that wait for messages. They are locked after runs and jobs, in
-- ascending id.

-- name: begin_in_steps
-- scope: owned
-- Insert the waiters of steps of runs. Each continues after the last message that the same run has received for the
-- same name and key.
insert into windlass.waiter (org, name, key, is_signal, run_id, step, round, count, since, until, seq)
select r.org, w.name, w.key, w.is_signal, w.run_id, w.step, w.round, w.count, r.created_at, w.until, coalesce((
         select max(e.seq) from windlass.waiter e
          where e.run_id = w.run_id and e.name = w.name and e.key = w.key and e.is_signal = w.is_signal), 0)
  from unnest($1::uuid[], $2::int[], $3::int[], $4::text[], $5::text[], $6::boolean[], $7::int[], $8::timestamptz[])
    as w(run_id, step, round, name, key, is_signal, count, until)
  join only windlass.run r on r.id = w.run_id
 order by w.run_id, w.step
on conflict (run_id, step, round) where run_id is not null do nothing

-- name: begin_in_handlers
-- scope: owned
-- Insert the waiters of handlers. A signal is addressed to the job's run, or to the job if it belongs to none. An
-- existing row is kept: it may have received something already. A waiter from before the job was started over is
-- closed.
with over as (
  update windlass.waiter w set state = 'closed'
   where w.id = any(array(
           select o.id from windlass.waiter o join only workflow.workflow_run j on j.id = o.job_id and o.round < j.epoch
            where o.job_id = any($1) and o.state in ('new', 'open', 'received') order by o.id for update of o)))
insert into windlass.waiter (org, name, key, is_signal, job_id, place, round, count, since, until, seq)
select j.org, w.name, case when w.is_signal then coalesce(j.run_id, j.id)::text else w.key end, w.is_signal, j.id, w.place, j.epoch,
       w.count, coalesce(r.created_at, j.created_at),
       coalesce(w.until, (select c.until from windlass.checkpoint c where c.job_id = j.id and c.name = w.place)), coalesce((
         select max(e.seq) from windlass.waiter e
          where e.job_id = j.id and e.name = w.name and e.is_signal = w.is_signal and (e.is_signal or e.key = w.key)), 0)
  from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::int[], $7::timestamptz[])
    as w(job_id, place, name, key, is_signal, count, until)
  join only workflow.workflow_run j on j.id = w.job_id
  left join only windlass.run r on r.id = j.run_id
 order by w.job_id, w.place
on conflict (job_id, place, round) where job_id is not null do nothing

-- name: take_steps
-- scope: owned
-- End the waits of these runs that have received all their messages, by marking them as taken. The caller holds the
-- locks of the runs.
update windlass.waiter w set state = 'taken'
  from (select id from windlass.waiter where run_id = any($1) and state = 'received' order by id for update) as full_
 where w.id = full_.id returning w.run_id, w.step, w.round

-- name: close_steps
-- scope: owned
-- End the waits of these steps. Returns for each whether it had received all its messages: then they count. The caller
-- holds the locks of the runs.
with live as (
  select w.id, w.state from unnest($1::uuid[], $2::int[]) as s(run_id, step)
    join windlass.waiter w on w.run_id = s.run_id and w.step = s.step and w.state in ('new', 'open', 'received')
   order by w.id for update of w)
update windlass.waiter w set state = case live.state when 'received' then 'taken' else 'closed' end
  from live where w.id = live.id returning w.run_id, w.step, w.state = 'taken' as is_taken

-- name: payloads
-- scope: owned
-- Return the payload that each of these steps received in its latest wait, or a list if it waited for several messages.
select w.run_id, w.step, case w.count when 1 then w.received -> 0 else w.received end
  from unnest($1::uuid[], $2::int[]) as s(run_id, step) cross join lateral (
    select * from windlass.waiter w where w.run_id = s.run_id and w.step = s.step order by w.round desc limit 1) as w
 where w.state = 'taken'

-- name: wake_handlers
-- scope: global
-- Record the messages that suspended handlers have received as the results of their calls, and make their jobs due. A
-- job that a worker holds is left alone: its attempt takes the messages itself (`give_up`). The waiters of a job that
-- has ended or was started over are closed. Jobs are locked before waiters. Setting `run_at` makes the jobs due through
-- a trigger on the table. A join of two lists would compare each row with each, so all lookups go through an index.
with received as (
  select w.id, w.job_id, j.id is null as is_over
    from windlass.waiter w left join only workflow.workflow_run j
      on j.id = w.job_id and j.epoch = w.round and j.status in ('pending', 'leased') and j.deleted_at is null
   where w.state = 'received' and w.job_id is not null and (j.id is null or j.status = 'pending') order by w.id limit $1),
closed as (
  update windlass.waiter w set state = 'closed'
   where w.id = any(array(select id from received where is_over)) and w.state = 'received'),
job as (
  select id from only workflow.workflow_run
   where id = any(array(select job_id from received where not is_over)) and status = 'pending' order by id for update skip locked),
taken as (
  update windlass.waiter w set state = 'taken'
   where w.id = any(array(select id from received where job_id = any(array(select id from job)))) and w.state = 'received'
  returning w.job_id, w.place, case w.count when 1 then w.received -> 0 else w.received end as payload),
recorded as (
  insert into windlass.checkpoint as c (job_id, name, kind, state, input)
  select t.job_id, t.place, 'wait', t.payload, md5(j.payload::text) from taken t join only workflow.workflow_run j on j.id = t.job_id
  on conflict (job_id, name) do update
     set state = excluded.state, waits = false, until = null, saved_at = excluded.saved_at where c.waits)
update only workflow.workflow_run j set run_at = windlass.now()
 where j.id = any(array(select job_id from taken)) and j.run_at > windlass.now()
returning j.queue

-- name: give_up
-- scope: owned
-- End the wait of a handler. Returns whether it had received all its messages, which then count, and the payload.
with live as (
  select id, state from windlass.waiter where job_id = $1 and place = $2 and state in ('new', 'open', 'received')
   order by id for update)
update windlass.waiter w set state = case live.state when 'received' then 'taken' else 'closed' end
  from live where w.id = live.id
returning w.state = 'taken' as is_taken, case w.count when 1 then w.received -> 0 else w.received end as payload

-- name: of_run
-- scope: owned
-- Return the messages that the steps of a run wait for.
select step, name, case when not is_signal then key end, count, jsonb_array_length(received), until
  from windlass.waiter where run_id = $1 and state in ('new', 'open', 'received') order by id
