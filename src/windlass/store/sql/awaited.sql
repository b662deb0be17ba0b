-- Runs that handlers wait for: see 0028_suspended.sql.

-- name: depth
-- scope: org
-- Return the nesting depth of a run.
select depth from windlass.run where id = $1 and org = $2

-- name: await
-- scope: org
-- Record that the handler of job $3 waits for a run, and set the run's depth to at least one more than that of the
-- job's run (0 if it has none). Returns the run's state: if the run ends after this, it publishes an event for the
-- handler.
update windlass.run r
   set job_id = $3, depth = greatest(r.depth, 1 + coalesce(
         (select p.depth from workflow.workflow_run j join windlass.run p on p.id = j.run_id where j.id = $3), 0))
 where r.id = $1 and r.org = $2 returning r.state
