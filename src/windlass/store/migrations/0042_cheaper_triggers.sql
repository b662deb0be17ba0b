-- May run before the new code: yes (the triggers fire for the same rows and do the same).
-- For an AFTER trigger Postgres reads the old row again at every update, even if its condition is false. Claims and reports update
-- every job twice, so this one is a BEFORE trigger, the last of them.
create or replace function windlass.cancel_runs_of_job() returns trigger
language plpgsql security definer set search_path = '' as $$
begin
  insert into windlass.notice (run_id, word, reason)
  select r.id, 'cancel', 'the job that started it was cancelled' from windlass.run r
   where r.job_id = new.id and r.state in ('pending', 'running');
  return new;
end $$;
create or replace trigger workflow_run_80_runs before update of status on workflow.workflow_run
  for each row when (new.status = 'cancelled' and old.status in ('pending', 'leased') and new.claim_no > 0)
  execute function windlass.cancel_runs_of_job();

-- The engine inserts jobs that are created now: one that is due when it is created need not be compared with the time, which is
-- read from a setting for each row. Rows of plain SQL may have any `created_at`.
create or replace trigger workflow_run_10_due before insert on workflow.workflow_run
  for each row when ((new.needs_created_event or new.run_at > new.created_at) and new.run_at > windlass.now())
  execute function windlass.inbox_due();
