-- Queries for inspecting a run. All are read-only and take no locks. Large fan-outs are counted only when the caller
-- requests it.

-- name: first_jobs
-- scope: owned
-- Return the job of each of these steps, or its first instance, and the worker that holds it or held it last.
-- `began_at` of a job that was reset is the time of the reset. `launch` is the launch state that a pool reported for
-- this claim, or `running` if there is only other progress, which the job itself has reported.
select s.step, j.*,
       case j.epoch when 0 then j.created_at else coalesce((
         select max(e.created_at) from workflow.workflow_event e
          where e.workflow_id = j.id and (e.event_type = 'created' or e.data ->> 'reason' = 'reopened')), j.created_at) end as began_at,
       coalesce(j.leased_by, (
         select e.actor from workflow.workflow_event e where e.workflow_id = j.id and e.event_type = 'leased'
          order by e.id desc limit 1)) as worker,
       case when p.job_id is not null then coalesce(p.data ->> 'launch', 'running') end as launch, p.message as launch_text
  from unnest($2::int[]) as s(step)
 cross join lateral (
   select id, item, type, queue, status, attempt, lost, max_attempts, coalesce(paused_run_at, run_at) as run_at, last_error, leased_by, cancel_requested, epoch,
          claim_no, created_at, updated_at
     from workflow.workflow_run j where j.run_id = $1 and j.step = s.step order by j.item limit 1) as j
  left join windlass.progress p
    on j.status = 'leased' and p.job_id = j.id and coalesce(p.data ->> 'fence', j.claim_no::text) = j.claim_no::text

-- name: tally
-- scope: owned
-- Return, for each of these fanned-out steps, when an instance last changed, and the first failed instance.
select s.step, t.updated_at, j.id, j.item, j.type, j.queue, j.status, j.attempt, j.lost, j.max_attempts, j.run_at, j.last_error,
       j.leased_by as worker, j.cancel_requested
  from unnest($2::int[]) as s(step)
 cross join lateral (
   select max(j.updated_at) as updated_at, min(j.item) filter (where j.status = 'failed') as failed
     from workflow.workflow_run j where j.run_id = $1 and j.step = s.step) as t
  left join workflow.workflow_run j on j.run_id = $1 and j.step = s.step and j.item = t.failed

-- name: waiting_jobs
-- scope: owned
-- Return, for each of these fanned-out steps, a pending instance or else a leased one, and whether any instance is
-- leased. A step on a pool ($3) is launching if none of its leased instances has been reported as running.
select s.step, j.*, null as launch, null as launch_text,
       exists (select from workflow.workflow_run h where h.run_id = $1 and h.step = s.step and h.status = 'leased') as busy,
       s.placed and not exists (
         select from workflow.workflow_run h join windlass.progress p on p.job_id = h.id
          where h.run_id = $1 and h.step = s.step and h.status = 'leased' and p.data ->> 'launch' <> 'launching'
            and p.data ->> 'fence' = h.claim_no::text) as launching
  from unnest($2::int[], $3::boolean[]) as s(step, placed)
 cross join lateral (
   (select id, item, type, queue, status, attempt, lost, max_attempts, coalesce(paused_run_at, run_at) as run_at, last_error, leased_by as worker, cancel_requested
      from workflow.workflow_run j where j.run_id = $1 and j.step = s.step and j.status = 'pending' order by j.item limit 1)
   union all
   (select id, item, type, queue, status, attempt, lost, max_attempts, coalesce(paused_run_at, run_at) as run_at, last_error, leased_by as worker, cancel_requested
      from workflow.workflow_run j where j.run_id = $1 and j.step = s.step and j.status = 'leased' order by j.item limit 1)
   limit 1) as j

-- name: children
-- scope: owned
-- Return, for each of these steps, the number of its child runs (the latest of each instance) and one example: a run that ended
-- badly if there is one, else a live run, else any.
select s.step, c.* from unnest($2::int[]) as s(step)
 cross join lateral (
   select count(*) as count, count(*) filter (where state in ('pending', 'running')) as live, min(created_at) as began_at,
          max(finished_at) as ended_at, (array_agg(id order by worth, parent_item))[1] as id,
          (array_agg(state order by worth, parent_item))[1] as state, (array_agg(steps order by worth, parent_item))[1] as steps
     from (select distinct on (r.parent_item) r.id, r.state, r.steps, r.parent_item, r.created_at, r.finished_at,
                  case when r.state = 'completed' then 2 when r.state in ('pending', 'running') then 1 else 0 end as worth
             from windlass.run r where r.parent_id = $1 and r.parent_step = s.step
            order by r.parent_item, r.parent_round desc limit 10000) as latest) as c
 where c.count > 0

-- name: responses
-- scope: owned
-- Return status code, duration and truncation flag of the responses to these HTTP steps, without the bodies.
select s.step, j.result -> 'status_code', j.result -> 'duration_ms', j.result -> 'is_truncated'
  from unnest($2::int[]) as s(step) join workflow.workflow_run j on j.run_id = $1 and j.step = s.step and j.item = 0
 where j.result is not null

-- name: wake_times
-- scope: owned
-- Return when the sleeping steps of a run will continue.
select step, due_at from windlass.timer where run_id = $1

-- name: paused
-- scope: owned
-- Return which of these queues are paused.
select name from windlass.queue where paused and name = any($1)

-- name: running_of_workflow
-- scope: owned
-- Count the running runs of the workflow that this run belongs to.
select count(*) from windlass.run
 where workflow_id = (select workflow_id from windlass.run where id = $1) and state in ('pending', 'running') and state = 'running'

-- name: moves
-- scope: owned
-- Return the events of the jobs of steps that are not fanned out, oldest first, without heartbeats.
select j.step, e.event_type, e.attempt, e.created_at, e.data ->> 'reason', (e.data ->> 'delay_seconds')::float
  from workflow.workflow_run j join workflow.workflow_event e on e.workflow_id = j.id
 where j.run_id = $1 and j.step = any($2::int[]) and e.event_type <> 'heartbeat'
 order by e.id limit $3

-- name: spans
-- scope: owned
-- Return, for each of these steps, when its instances had their first and last event between two times, and whether any failed.
-- Also the same for the child runs that a round started. One row per step for each of the two.
select j.step, min(e.created_at), max(e.created_at), bool_or(e.event_type = 'failed')
  from workflow.workflow_run j join workflow.workflow_event e on e.workflow_id = j.id
 where j.run_id = $1 and j.step = any($2::int[]) and e.event_type <> 'heartbeat'
   and e.created_at >= $3 and ($4::timestamptz is null or e.created_at < $4)
 group by j.step
union all
select r.parent_step, min(r.created_at), coalesce(max(r.finished_at), min(r.created_at)), bool_or(r.state in ('failed', 'timeout'))
  from windlass.run r where r.parent_id = $1 and r.parent_round = $5 group by r.parent_step

-- name: lines
-- scope: owned
-- Return the log lines of the step jobs of a run, ordered by time, after a position.
select j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message
  from workflow.workflow_run j join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3)
   and ($4::int is null or l.attempt = $4) and (l.at, l.job_id, l.attempt, l.line) > ($5, $6, $7, $8)
 order by l.at, l.job_id, l.attempt, l.line limit $9

-- name: last_lines
-- scope: owned
-- Return the last lines by time, newest first.
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message
  from workflow.workflow_run j join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
 order by l.at desc, l.job_id desc, l.epoch desc, l.attempt desc, l.line desc limit $5

-- name: lines_by_step
-- scope: owned
-- Return all lines by step and instance, in pages. Each page starts at the end of the previous one, so that the total cost stays
-- linear.
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message, l.epoch
  from workflow.workflow_run j join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
   and (j.step, j.item) >= ($5, $6) and (j.step, j.item, l.epoch, l.attempt, l.line) > ($5, $6, $7, $8, $9)
 order by j.step, j.item, l.epoch, l.attempt, l.line limit $10

-- name: lines_since
-- scope: owned
-- Return the lines that were not visible in a snapshot ($5 and $6 are its xmax and the transactions that were in progress).
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message
  from workflow.workflow_run j join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
   and (l.xid >= $5::text::xid8 or l.xid = any($6::text[]::xid8[]))
 order by l.at, l.job_id, l.epoch, l.attempt, l.line

-- name: lines_of_jobs_since
-- scope: owned
-- Return the same lines, but only of these jobs.
select l.xid::text as xid, j.step, j.item, j.items is not null as fanned_out, l.job_id, l.attempt, l.line, l.at, l.level, l.message
  from unnest($7::uuid[]) as w(id) join workflow.workflow_run j on j.id = w.id join windlass.job_log l on l.job_id = j.id
 where j.run_id = $1 and ($2::int is null or j.step = $2) and ($3::int is null or j.item = $3) and ($4::int is null or l.attempt = $4)
   and (l.xid >= $5::text::xid8 or l.xid = any($6::text[]::xid8[]))
 order by l.at, l.job_id, l.epoch, l.attempt, l.line

-- name: leased_jobs
-- scope: owned
-- Return the leased jobs of a run.
select id from workflow.workflow_run where run_id = $1 and status = 'leased' and ($2::int is null or step = $2)
