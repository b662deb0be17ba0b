-- May run before the new code: yes (a trigger is replaced by a cheaper pair that does the same).
-- The end of a job makes room for the next one of its key. The next job may be a row of the same statement, so the call has to wait
-- for the end of the statement. An AFTER trigger for each row would do that, but then Postgres reads the old row of every update
-- again. Instead the keys are noted here and called by a trigger for the statement.
create function windlass.rate_note_end() returns trigger language plpgsql set search_path = '' as $$
begin
  perform set_config('windlass.ended_rate_keys',
                     coalesce(current_setting('windlass.ended_rate_keys', true), '') || ',' || to_json(new.rate_key), true);
  return new;
end $$;

create or replace function windlass.rate_ended() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  ended json := '[' || substr(current_setting('windlass.ended_rate_keys'), 2) || ']';
  queue text;
begin
  perform set_config('windlass.ended_rate_keys', '', true);  -- the updates below run this trigger again
  for queue in
    select windlass.rate_call(r.key, e.jobs)
      from (select key, count(*)::int as jobs from json_array_elements_text(ended) as k(key) group by key) as e
      join windlass.rate r on r.key = e.key and r.concurrency is not null
     order by r.key
  loop
    perform pg_notify('windlass', case when length(queue) <= 255 then queue else '' end);
  end loop;
  return null;
end $$;

drop trigger workflow_run_40_rate on workflow.workflow_run;
create trigger workflow_run_40_rate before update on workflow.workflow_run for each row
  when (new.rate_key is not null and old.status = 'leased' and new.status <> 'leased')
  execute function windlass.rate_note_end();
create trigger workflow_run_70_rate after update on workflow.workflow_run for each statement
  when (current_setting('windlass.ended_rate_keys', true) <> '')
  execute function windlass.rate_ended();
