-- May run before the new code: yes (an index in place of another one).
-- Outside a transaction
-- The index of workers that claim with plain SQL. Statements of the engine look for due jobs of a lane and must walk the index of lanes
-- (`idx_workflow_run_type_prefix`). After an analyze at a moment without pending jobs this index looked as cheap to the planner, and
-- each of a thousand lanes read all pending jobs. `run_at is not null` is always true, but follows only from a condition on `run_at`,
-- such as the `run_at <= now()` of plain SQL: the engine asks for `due`, and cannot use the index.

create index concurrently if not exists idx_workflow_run_pollers on workflow.workflow_run (priority, created_at)
  where status = 'pending' and run_at is not null;
drop index concurrently if exists workflow.idx_workflow_run_claim;
-- The name stays: the scripts of other runtimes create the index if there is none of this name.
alter index if exists workflow.idx_workflow_run_pollers rename to idx_workflow_run_claim;
