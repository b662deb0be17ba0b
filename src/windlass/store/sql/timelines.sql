-- Times of the jobs of a run.

-- name: moves
-- Return the events of the jobs of steps that are not fanned out, oldest first, without heartbeats.
select j.step, e.event_type, e.attempt, e.created_at, e.data ->> 'reason', (e.data ->> 'delay_seconds')::float
  from workflow.workflow_run j join workflow.workflow_event e on e.workflow_id = j.id
 where j.run_id = $1 and j.step = any($2::int[]) and e.event_type <> 'heartbeat'
 order by e.id limit $3

-- name: together
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
