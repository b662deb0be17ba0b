-- When the jobs of a run did what.

-- name: moves
-- The trails of the jobs of steps that are not fanned out, oldest first; heartbeats tell nothing here.
select j.step, e.event_type, e.attempt, e.created_at, e.data ->> 'reason', (e.data ->> 'delay_seconds')::float
  from workflow.workflow_run j join workflow.workflow_event e on e.workflow_id = j.id
 where j.run_id = $1 and j.step = any($2::int[]) and e.event_type <> 'heartbeat'
 order by e.id limit $3
