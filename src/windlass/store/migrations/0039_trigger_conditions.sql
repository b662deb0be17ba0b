-- May run before the new code: yes (the triggers fire for the same rows).
-- Postgres reads the stored condition of each trigger again for every statement, and the two long ones of the inbox took a sixth of
-- the time of an insert of one job. Their conditions are functions now, which are called only for rows of plain SQL. In PL/pgSQL,
-- because a function in SQL would be inlined, and parsed again.

create function windlass.is_out_of_bounds(job workflow.workflow_run) returns boolean language plpgsql stable set search_path = '' as $$
begin
  return job.timeout < '0' or job.timeout > '36525 days' or job.visibility < '0' or job.visibility > '36525 days'
      or job.max_attempts > 1000000 or job.attempt < 0 or job.attempt > 1000000
      or job.priority < -2000000000 or job.priority > 2000000000
      or jsonb_typeof(job.retry -> 'dead_letter') <> 'boolean'
      or job.run_at < '0001-01-02 UTC' or job.run_at > '9999-12-30 UTC'
      or job.created_at < '0001-01-02 UTC' or job.created_at > '9999-12-30 UTC'
      or job.updated_at < '0001-01-02 UTC' or job.updated_at > '9999-12-30 UTC'
      or job.expires_at < '0001-01-02 UTC' or job.expires_at > '9999-12-30 UTC';
end $$;

-- SQL clients have no rights on the schema: the function has those of its owner, and is passed whether the caller is the engine.
create function windlass.is_reserved(job workflow.workflow_run, by_engine boolean) returns boolean
language plpgsql stable security definer set search_path = '' as $$
declare
  is_own_queue constant boolean := windlass.shown_name(job.org, job.queue) = 'windlass';
begin
  return job.run_id is null and (is_own_queue or job.type like 'windlass.%')
     and not (is_own_queue and job.type = 'windlass.webhook.v1' and by_engine);
end $$;

create or replace trigger workflow_run_05_bounds before insert on workflow.workflow_run for each row
  when (new.needs_created_event and windlass.is_out_of_bounds(new)) execute function windlass.inbox_bounds();
create or replace trigger workflow_run_05_reserved before insert on workflow.workflow_run for each row
  when (new.needs_created_event and windlass.is_reserved(new, has_table_privilege('windlass.run'::regclass, 'UPDATE')))
  execute function windlass.inbox_reserved();
