-- Runs that handlers wait for: see 0028_suspended.sql.

-- name: depth
-- scope: org
-- Return how deep a run is below other runs.
select depth from windlass.run where id = $1 and org = $2

-- name: await
-- scope: org
-- Note that the handler of job $3 waits for a run. Returns the run's state: one that ends after this publishes an event for the handler.
-- The run is below the run of the job, if the job is a step of one.
update windlass.run r
   set job_id = $3, depth = greatest(r.depth, 1 + coalesce(
         (select p.depth from workflow.workflow_run j join windlass.run p on p.id = j.run_id where j.id = $3), 0))
 where r.id = $1 and r.org = $2 returning r.state
