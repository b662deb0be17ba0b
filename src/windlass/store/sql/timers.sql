-- Timers of sleeping steps. They are found without a lock and taken under the lock of their runs.

-- name: insert
-- scope: owned
-- Insert or update timers of steps.
insert into windlass.timer (run_id, step, due_at) select * from unnest($1::uuid[], $2::int[], $3::timestamptz[])
on conflict (run_id, step) do update set due_at = excluded.due_at

-- name: delete
-- scope: owned
-- Delete the timers of these steps. Returns those that existed.
delete from windlass.timer t using unnest($1::uuid[], $2::int[]) as w(run_id, step)
 where t.run_id = w.run_id and t.step = w.step returning t.run_id, t.step

-- name: find_due
-- scope: global
-- Return runs with due timers.
select distinct run_id from (
  select run_id from windlass.timer where due_at <= windlass.now() and run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run'))
   order by due_at limit $1) as due

-- name: take_due
-- scope: global
-- Delete and return the due timers of these runs. The caller holds the locks of the runs. Adding the zero interval keeps the
-- planner off the index by time, through which it would compare every due timer with every run.
delete from windlass.timer where run_id = any($1) and due_at + interval '0' <= windlass.now() returning run_id, step

-- name: next_due
-- scope: global
-- Return how long until the next job becomes due, the next timer fires and the next run expires. Runs in quarantine are left out,
-- because they have their own retries. Infinite times are left out or clamped, because the driver cannot represent an infinite
-- interval.
select (select greatest(run_at, 'epoch') - windlass.now() from only workflow.workflow_run
         where status = 'pending' and not due and run_at < 'infinity'
           and id <> all(array(select key::uuid from windlass.quarantine where kind = 'job' and retry_at > windlass.now()))
         order by run_at limit 1),
       (select greatest(due_at, 'epoch') - windlass.now() from windlass.timer
         where due_at < 'infinity' and run_id <> all(array(select key::uuid from windlass.quarantine where kind = 'run'))
         order by due_at limit 1),
       (select greatest(expires_at, 'epoch') - windlass.now() from only windlass.run
         where state in ('pending', 'running') and expires_at < 'infinity' and fans #> '{undo,move}' is null
           and id <> all(array(select key::uuid from windlass.quarantine where kind = 'run'))
         order by expires_at limit 1)
