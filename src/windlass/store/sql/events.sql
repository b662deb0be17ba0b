-- The event trails of jobs and of runs, and the log lines of handlers.
--
-- The stream (`since`) contains the events that were not visible in the last snapshot of a reader. One statement reads both
-- trails, so that they are read with the same snapshot, which becomes the next one of the reader. $1 and $2 describe the last
-- one: its xmax and the transactions that were in progress.

-- name: of_job
-- scope: owned
-- Return the event trail of a job, oldest first, after a given event.
select id, event_type, data, actor, attempt, created_at from workflow.workflow_event
 where workflow_id = $1 and id > $3 order by id limit $2

-- name: insert_log_lines
-- scope: global
-- Insert log lines of handlers. A line that is sent twice is stored once.
insert into windlass.job_log (job_id, epoch, attempt, line, at, level, message)
select * from unnest($1::uuid[], $2::int[], $3::int[], $4::int[], $5::timestamptz[], $6::text[], $7::text[])
on conflict do nothing

-- name: lock_held
-- scope: org
-- Lock the given jobs that an HTTP worker ($4) still holds under these fences, in ascending id, to serialize the
-- requests that number their log lines. $5 is the label that the caller is restricted to.
select j.id, j.claim_no, j.epoch, j.attempt + j.lost + 1 as number
  from only workflow.workflow_run j join unnest($1::uuid[], $2::int[]) as d(id, claim_no) on j.id = d.id and j.claim_no = d.claim_no
 where j.org = $3 and j.leased_by = $4 and j.deleted_at is null and ($5::text is null or j.meta ->> 'tenant_id' = $5)
 order by j.id for no key update of j

-- name: last_lines
-- scope: owned
-- Return the number of the last log line of each of these attempts, after the line $4.
select d.job_id, max(l.line) as line
  from unnest($1::uuid[], $2::int[], $3::int[], $4::int[]) as d(job_id, epoch, attempt, after)
  join windlass.job_log l on l.job_id = d.job_id and l.epoch = d.epoch and l.attempt = d.attempt and l.line > d.after
 group by d.job_id

-- name: log_lines
-- scope: owned
-- Return the log lines of a job by attempt, after a position.
select attempt, line, at, level, message, epoch from windlass.job_log
 where job_id = $1 and ($2::int is null or attempt = $2) and (epoch, attempt, line) > ($3, $4, $5)
 order by epoch, attempt, line limit $6

-- name: make_partition
-- scope: global
-- Create the partition of a week, where 0 is the current one. Returns its name, or null if it already existed.
select windlass.make_event_partition(windlass.now() + $1 * interval '7 days')

-- name: old_partitions
-- scope: global
-- Return the weekly partitions of the event trail that are older than the cutoff and older than every live job and run. A
-- partition older than three times the cutoff is returned anyway: one job that is never claimed must not keep the whole history.
select child.relname from pg_inherits
  join pg_class child on child.oid = inhrelid
 where inhparent = 'workflow.workflow_event'::regclass and child.relname ~ '^workflow_event_[0-9]{8}$'
   and to_date(right(child.relname, 8), 'YYYYMMDD') + 7 <= greatest(windlass.now() - $1::interval * 3, least(
         windlass.now() - $1::interval,
         (select min(created_at) from only workflow.workflow_run where status = 'pending'),
         (select min(created_at) from only workflow.workflow_run where status = 'leased'),
         (select min(created_at) from only windlass.run where state in ('pending', 'running'))))

-- name: recent
-- scope: global
-- Return the transaction id of the event that has $1 newer ones, or 0 if there are not that many.
select coalesce((select xid::text from workflow.workflow_event order by xid desc, id desc offset $1 limit 1), '0')

-- name: began
-- scope: global
-- Return when the attempts of these jobs began.
select workflow_id, attempt, max(created_at) as at from workflow.workflow_event
 where workflow_id = any($1) and event_type = 'leased' group by workflow_id, attempt

-- name: named
-- scope: global
-- Return the aliases that clients gave to these jobs, and the errors of their attempts.
select id, envelope ->> 'alias' as alias, errors from workflow.workflow_run
 where id = any($1) and (envelope ? 'alias' or errors is not null)

-- name: here
-- scope: global
-- Return the current snapshot.
select pg_current_snapshot()::text

-- name: since
-- scope: global
-- Return all new events as whole transactions, about $3 lines. `fence` is the last transaction of the batch, or null if
-- there are no more. With $4, return the rest of such a batch below it. Transaction ids that this cluster has not
-- assigned yet come from a restored dump and are left out: they would stay new, and the reader would receive them again
-- and again.
with fence as (
  select case when $4::text is null then least(
           (select xid from windlass.event where xid >= $1::text::xid8 and xid < pg_snapshot_xmax(pg_current_snapshot())
             order by xid, id offset $3 limit 1),
           (select xid from workflow.workflow_event
             where xid >= $1::text::xid8 and xid < pg_snapshot_xmax(pg_current_snapshot())
             order by xid, id offset $3 limit 1)) end as xid),
ours as (
  select e.* from fence cross join lateral (
    select * from windlass.event where xid = any($2::text[]::xid8[])
    union all
    select * from windlass.event where xid >= $1::text::xid8 and ($4::text is null or xid < $4::text::xid8)
       and xid <= coalesce(fence.xid, '18446744073709551615'::xid8) and xid < pg_snapshot_xmax(pg_current_snapshot())) as e),
theirs as (
  select e.* from fence cross join lateral (
    select * from workflow.workflow_event where xid = any($2::text[]::xid8[]) and event_type <> 'heartbeat'
    union all
    select * from workflow.workflow_event where xid >= $1::text::xid8 and ($4::text is null or xid < $4::text::xid8)
       and xid <= coalesce(fence.xid, '18446744073709551615'::xid8) and xid < pg_snapshot_xmax(pg_current_snapshot())
       and event_type <> 'heartbeat') as e)
select pg_current_snapshot()::text as snapshot, (select xid::text from fence) as fence, l.*
  from (select 1) as one
  left join lateral (
    select false as of_job, e.xid::text as xid, e.id, e.created_at, e.word, e.code, e.reason, null::jsonb as data, e.actor,
           null::int as attempt, e.step, null::int as item, null::int as items, null::uuid as job_id, null::text as type,
           null::text as queue, r.id as run_id, r.org, r.version_id, w.name as workflow, r.state,
           case when e.step is null then r.steps else substr(r.steps, e.step + 1, 1) end as letters, r.fans -> e.step::text as fan
      from ours e join windlass.run r on r.id = e.run_id join windlass.workflow w on w.id = r.workflow_id
    union all
    select true, e.xid::text, e.id, e.created_at, e.event_type, null, null, e.data, e.actor, e.attempt, j.step, j.item, j.items,
           j.id, j.type, j.queue, r.id, j.org, r.version_id, w.name, r.state, substr(r.steps, j.step + 1, 1),
           r.fans -> j.step::text
      from theirs e join workflow.workflow_run j on j.id = e.workflow_id
      left join windlass.run r on r.id = j.run_id left join windlass.workflow w on w.id = r.workflow_id) as l on true

-- name: since_of_run
-- scope: owned
-- Return the new events of one run through its own indexes, up to $6 lines of each trail, after $4 and $5.
with ours as (
  select * from windlass.event
   where run_id = $3 and id > $4 and (xid >= $1::text::xid8 or xid = any($2::text[]::xid8[])) order by id limit $6),
theirs as (
  select e.*, j.step, j.item, j.items, j.type, j.queue from workflow.workflow_run j
    join workflow.workflow_event e on e.workflow_id = j.id
   where j.run_id = $3 and e.id > $5 and (e.xid >= $1::text::xid8 or e.xid = any($2::text[]::xid8[]))
     and e.event_type <> 'heartbeat' order by e.id limit $6)
select pg_current_snapshot()::text as snapshot, r.steps as whole, l.*, r.id as run_id, r.org, r.version_id, w.name as workflow, r.state,
       case when l.step is null then r.steps else substr(r.steps, l.step + 1, 1) end as letters, r.fans -> l.step::text as fan
  from windlass.run r join windlass.workflow w on w.id = r.workflow_id
  left join lateral (
    select false as of_job, e.xid::text as xid, e.id, e.created_at, e.word, e.code, e.reason, null::jsonb as data, e.actor,
           null::int as attempt, e.step, null::int as item, null::int as items, null::uuid as job_id, null::text as type,
           null::text as queue
      from ours e
    union all
    select true, e.xid::text, e.id, e.created_at, e.event_type, null, null, e.data, e.actor, e.attempt, e.step, e.item, e.items,
           e.workflow_id, e.type, e.queue
      from theirs e) as l on true
 where r.id = $3
