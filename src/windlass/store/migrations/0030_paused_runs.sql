-- May run before the new code: yes (nullable columns, a notice with new words, and a trigger that finds no paused run).
-- A paused run starts no job: its pending jobs have `run_at` infinity, and their original time is kept in `paused_run_at`.

alter table windlass.run add column paused_at timestamptz;
alter table workflow.workflow_run add column paused_run_at timestamptz;  -- `run_at` as it was when the run was paused

alter table windlass.notice drop constraint notice_word_check;
alter table windlass.notice add constraint notice_word_check
  check (word in ('ended', 'cancel', 'compensate', 'undo', 'pause', 'resume'));

-- A job of a paused run that becomes pending again (its attempt failed, its lease was lost, its handler was woken) is held like
-- the others. Takes no lock on the run: the transaction that pauses it has locked its live jobs, so this either waits and then sees the run
-- paused, or is seen by that session. `security definer`: SQL workers have no privileges on runs.
create function windlass.inbox_paused() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  new.paused_run_at := null;
  if exists (select from windlass.run r where r.id = new.run_id and r.paused_at is not null) then
    new.paused_run_at := new.run_at;
    new.run_at := 'infinity';
    new.due := false;
  end if;
  return new;
end $$;
create trigger workflow_run_18_paused before update on workflow.workflow_run for each row
  when (new.run_id is not null and new.status = 'pending' and new.run_at < 'infinity'
        and (old.status <> 'pending' or new.run_at <> old.run_at))
  execute function windlass.inbox_paused();
