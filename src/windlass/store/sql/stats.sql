-- Statistics for the overview. Every count has a cap, and rows beyond it cost nothing.

-- name: ended_jobs
-- scope: org
-- Count the finished jobs by state, up to $2 each.
select s.status, (
  select count(*) from (
    select 1 from windlass.finished kind cross join lateral (
      select 1 from workflow.workflow_run j
       where j.status in ('succeeded', 'failed', 'cancelled') and j.type = kind.type and j.status = kind.status
         and j.org = $1 and j.deleted_at is null limit $2) as j
     where kind.status = s.status limit $2) as ended) as n
  from unnest(array['succeeded', 'failed', 'cancelled']) as s(status)

-- name: live_runs
-- scope: org
-- Count the live runs by state, up to $2 in total.
select state, count(*) from (
  select state from windlass.run where state in ('pending', 'running') and org = $1 limit $2) as live
 group by state

-- name: hours
-- scope: org
-- Count the runs that were created and that ended in each of the last 24 hours, oldest hour first, up to $2 per hour. The
-- creation time is taken from the run id.
select hour.at, began.n as started, ended.completed, ended.failed, ended.cancelled, ended.timeout, began.n = $2 or ended.n = $2 as capped
  from (select date_trunc('hour', windlass.now()) - n * interval '1 hour' as at from generate_series(0, 23) as n) as hour
 cross join lateral (
   select (lpad(to_hex((extract(epoch from hour.at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid as first,
          (lpad(to_hex((extract(epoch from hour.at + interval '1 hour') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid as last) as id
 cross join lateral (
   select count(*) as n from (
     select 1 from windlass.run r where r.id >= id.first and r.id < id.last and r.org = $1 limit $2) as r) as began
 cross join lateral (
   select count(*) as n, count(*) filter (where state = 'completed') as completed, count(*) filter (where state = 'failed') as failed,
          count(*) filter (where state = 'cancelled') as cancelled, count(*) filter (where state = 'timeout') as timeout from (
     select r.state from windlass.run r
      where r.finished_at >= hour.at and r.finished_at < hour.at + interval '1 hour' and r.org = $1 limit $2) as r) as ended
 order by hour.at

-- name: next_ticks
-- scope: org
-- Return the next ticks of all kinds of schedules.
(select w.name, 'run' as starts, s.cron, s.timezone, s.next_run_at
   from windlass.schedule s join windlass.workflow w on w.id = s.workflow_id
  where not s.paused and s.next_run_at is not null and s.org = $1 order by s.next_run_at limit $2)
union all
(select type, 'job', schedule, timezone, next_run_at from workflow.workflow_schedule
  where enabled and deleted_at is null and org = $1 order by next_run_at limit $2)
union all
(select name, 'job', expression, timezone, next_run_at from windlass.cron
  where enabled and next_run_at is not null and org = $1 order by next_run_at limit $2)
order by next_run_at limit $2

-- name: of_workflows
-- scope: owned
-- Summarize the last $2 runs of each of these workflows, with the latest $3 one by one, and the next tick. The row comparison
-- makes the runs of a workflow a range of one index. With `workflow_id = w.id` the planner might search all runs for those of a
-- rare workflow.
select w.id as workflow_id, recent.*, s.next_run_at
  from unnest($1::uuid[]) as w(id)
 cross join lateral (
   select count(*) filter (where r.state = 'completed') as completed, count(*) filter (where r.state in ('failed', 'timeout')) as failed,
          percentile_cont(0.5) within group (order by r.took) filter (where r.state = 'completed') as p50,
          percentile_cont(0.95) within group (order by r.took) filter (where r.state = 'completed') as p95,
          (array_agg(r.id order by r.id desc))[:$3] as ids, (array_agg(r.state order by r.id desc))[:$3] as states
     from (select id, state, finished_at - started_at as took from windlass.run
            where (workflow_id, id) >= (w.id, '00000000-0000-0000-0000-000000000000'::uuid)
              and (workflow_id, id) <= (w.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
            order by workflow_id desc, id desc limit $2) as r) as recent
  left join windlass.schedule s on s.workflow_id = w.id
