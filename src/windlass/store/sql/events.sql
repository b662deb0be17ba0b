-- The audit trail and what handlers said.

-- name: of_job
-- A job's trail, oldest first, after a line of it.
select id, event_type, data, actor, attempt, created_at from workflow.workflow_event
 where workflow_id = $1 and id > $3 order by id limit $2

-- name: insert_lines
-- Keep lines that handlers logged. A line sent twice is kept once.
insert into windlass.job_log (job_id, epoch, attempt, line, at, level, message)
select * from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::timestamptz[], $6::text[], $7::text[])
on conflict do nothing

-- name: lines
-- What a job's handler logged, by attempt, after a place.
select attempt, line, at, level, message, epoch from windlass.job_log
 where job_id = $1 and ($2::int is null or attempt = $2) and (epoch, attempt, line) > ($3, $4, $5)
 order by epoch, attempt, line limit $6

-- name: make_partition
-- The partition of a week: 0 is this one. The name, or null if it was there.
select windlass.make_event_partition(windlass.now() + $1 * interval '7 days')

-- name: old_partitions
-- Whole weeks of the trail that are older than the cutoff and than every live job and run; what is older than three times the
-- cutoff goes all the same: one job that nobody ever takes must not keep everybody's history.
select child.relname from pg_inherits
  join pg_class child on child.oid = inhrelid
 where inhparent = 'workflow.workflow_event'::regclass and child.relname ~ '^workflow_event_[0-9]{8}$'
   and to_date(right(child.relname, 8), 'YYYYMMDD') + 7 <= greatest(windlass.now() - $1::interval * 3, least(
         windlass.now() - $1::interval,
         (select min(created_at) from workflow.workflow_run where status = 'pending'),
         (select min(created_at) from workflow.workflow_run where status = 'leased'),
         (select min(created_at) from windlass.run where state in ('pending', 'running'))))

-- name: recent
-- The transaction that wrote the $1-th of the latest lines; 0 if there are not so many.
select coalesce((select xid::text from workflow.workflow_event order by xid desc, id desc offset $1 limit 1), '0')

-- name: began
-- When the attempts of these jobs began.
select workflow_id, attempt, max(created_at) as at from workflow.workflow_event
 where workflow_id = any($1) and event_type = 'leased' group by workflow_id, attempt

-- name: named
-- What clients call these jobs, where they gave them a name, and what went wrong with their attempts.
select id, envelope ->> 'alias' as alias, errors from workflow.workflow_run
 where id = any($1) and (envelope ? 'alias' or errors is not null)
