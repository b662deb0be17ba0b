-- May run before the new code: yes (indexes).
-- Outside a transaction
-- Only for orgs other than `default`: the queues with pending jobs, and the jobs, newest first. `default` pays nothing for them.
create index concurrently if not exists idx_workflow_run_org_queue on workflow.workflow_run (due, org, queue)
  where status = 'pending' and deleted_at is null and org <> 'default';
create index concurrently if not exists idx_workflow_run_org_seq on workflow.workflow_run (org, seq) where org <> 'default';
