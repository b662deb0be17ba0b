-- The event trail of jobs and the log lines of handlers.

-- name: of_job
-- Return the event trail of a job, oldest first, after a given event.
select id, event_type, data, actor, attempt, created_at from workflow.workflow_event
 where workflow_id = $1 and id > $3 order by id limit $2

-- name: insert_lines
-- Insert log lines of handlers. A line that is sent twice is stored once.
insert into windlass.job_log (job_id, epoch, attempt, line, at, level, message)
select * from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::timestamptz[], $6::text[], $7::text[])
on conflict do nothing

-- name: lines
-- Return the log lines of a job by attempt, after a position.
select attempt, line, at, level, message, epoch from windlass.job_log
 where job_id = $1 and ($2::int is null or attempt = $2) and (epoch, attempt, line) > ($3, $4, $5)
 order by epoch, attempt, line limit $6

-- name: make_partition
-- Create the partition of a week, where 0 is the current one. Returns its name, or null if it already existed.
select windlass.make_event_partition(windlass.now() + $1 * interval '7 days')

-- name: old_partitions
-- Return the weekly partitions of the event trail that are older than the cutoff and older than every live job and run. A
-- partition older than three times the cutoff is returned anyway: one job that is never claimed must not keep the whole history.
select child.relname from pg_inherits
  join pg_class child on child.oid = inhrelid
 where inhparent = 'workflow.workflow_event'::regclass and child.relname ~ '^workflow_event_[0-9]{8}$'
   and to_date(right(child.relname, 8), 'YYYYMMDD') + 7 <= greatest(windlass.now() - $1::interval * 3, least(
         windlass.now() - $1::interval,
         (select min(created_at) from workflow.workflow_run where status = 'pending'),
         (select min(created_at) from workflow.workflow_run where status = 'leased'),
         (select min(created_at) from windlass.run where state in ('pending', 'running'))))

-- name: recent
-- Return the transaction id of the event that has $1 newer ones, or 0 if there are not that many.
select coalesce((select xid::text from workflow.workflow_event order by xid desc, id desc offset $1 limit 1), '0')

-- name: began
-- Return when the attempts of these jobs began.
select workflow_id, attempt, max(created_at) as at from workflow.workflow_event
 where workflow_id = any($1) and event_type = 'leased' group by workflow_id, attempt

-- name: named
-- Return the aliases that clients gave to these jobs, and the errors of their attempts.
select id, envelope ->> 'alias' as alias, errors from workflow.workflow_run
 where id = any($1) and (envelope ? 'alias' or errors is not null)
