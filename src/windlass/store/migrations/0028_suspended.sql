-- May run before the new code: yes (columns with defaults).
-- Handlers that wait. A row with a name is a durable call of a handler: a step, a sleep, a wait for a message, a run, or the time.
alter table windlass.checkpoint
  add column kind  text not null default 'step' constraint checkpoint_kind_check check (kind in ('step', 'sleep', 'wait', 'run', 'now')),
  add column place int,                         -- its number among the calls that the handler makes one after the other
  add column waits boolean not null default false,  -- it has not ended: the handler waits for it
  add column until timestamptz;                 -- when it ends at the latest

-- Runs that a handler started and waits for. When such a run ends, it publishes an event for the handler.
alter table windlass.run add column job_id uuid;
create index run_of_job on windlass.run (job_id) where job_id is not null and state in ('pending', 'running');

-- Cancelling a job, in any way, also cancels the runs that its handler waits for.
create function windlass.cancel_runs_of_job() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  insert into windlass.notice (run_id, word, reason)
  select r.id, 'cancel', 'the job that started it was cancelled' from windlass.run r
   where r.job_id = new.id and r.state in ('pending', 'running');
  return null;
end $$;
create trigger workflow_run_80_runs after update of status on workflow.workflow_run
  for each row when (new.status = 'cancelled' and old.status in ('pending', 'leased') and new.claim_no > 0)
  execute function windlass.cancel_runs_of_job();
