-- May run before the new code: yes (policies that do not apply to the owner of the tables).
-- Row-level security: a role reads and changes only the rows of its org.
--
-- The owner of the tables, and so every loop and worker, is not subject to it. Two kinds of roles are:
--  * windlass_api, which a server takes in each transaction for a caller as soon as there are several orgs. The org is the setting
--    `windlass.org`. The predicates of the statements are the first barrier between orgs, these policies are the second.
--  * roles of SQL clients. Their org is in `windlass.sql_role`, and `default` for all others.

create function windlass.sql_org() returns text language sql stable security definer set search_path = ''
  return coalesce((select org from windlass.sql_role where role = session_user), 'default');

-- The org that a role acts for. Null means the engine, which acts for all.
create function windlass.acting_org() returns text language sql stable
  return case when current_user = 'windlass_api' then coalesce(current_setting('windlass.org', true), '')
              when has_table_privilege('windlass.run'::regclass, 'UPDATE') then null
              else windlass.sql_org() end;

-- The org of a job or a run; null if there is none, or if it is being inserted by the same statement.
create function windlass.job_org(wanted uuid) returns text language sql stable security definer set search_path = ''
  return (select org from workflow.workflow_run where id = wanted);
create function windlass.run_org(wanted uuid) returns text language sql stable security definer set search_path = ''
  return (select org from windlass.run where id = wanted);

-- Views are subject to the rights of the role that reads them.
alter view windlass.finished set (security_invoker = true);
alter view windlass.lane set (security_invoker = true);
alter view windlass.step set (security_invoker = true);
alter view windlass.waiting_queue set (security_invoker = true);

-- Tables with the org in a column.
do $$
declare
  name text;
begin
  foreach name in array array['api_key', 'audit', 'composition', 'cron', 'cron_event', 'data_key', 'job_schema', 'label', 'member',
                              'quarantine', 'queue', 'run', 'schedule', 'secret', 'subscription', 'usage', 'worker', 'workflow']
  loop
    execute format('alter table windlass.%I enable row level security', name);
    execute format('create policy of_org on windlass.%I
                      using ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))
                      with check ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))', name);
  end loop;
  -- Rows of a job or of a run. What belongs to a job that the same statement inserts is not checked: its id is not known elsewhere yet.
  foreach name in array array['checkpoint', 'job_log', 'progress', 'rate_line']
  loop
    execute format('alter table windlass.%I enable row level security', name);
    execute format('create policy of_job on windlass.%I
                      using ((select windlass.acting_org()) is null
                             or (select j.org from workflow.workflow_run j where j.id = job_id) = (select windlass.acting_org()))
                      with check ((select windlass.acting_org()) is null
                                  or coalesce(windlass.job_org(job_id), (select windlass.acting_org())) = (select windlass.acting_org()))',
                   name);
  end loop;
  foreach name in array array['event', 'hook', 'item', 'notice', 'timer']
  loop
    execute format('alter table windlass.%I enable row level security', name);
    execute format('create policy of_run on windlass.%I
                      using ((select windlass.acting_org()) is null
                             or (select r.org from windlass.run r where r.id = run_id) = (select windlass.acting_org()))
                      with check ((select windlass.acting_org()) is null
                                  or coalesce(windlass.run_org(run_id), (select windlass.acting_org())) = (select windlass.acting_org()))',
                   name);
  end loop;
  -- Ids and keys are reserved before their run is inserted.
  foreach name in array array['reserved_id', 'reserved_key']
  loop
    execute format('alter table windlass.%I enable row level security', name);
    execute format('create policy of_run on windlass.%I
                      using ((select windlass.acting_org()) is null
                             or coalesce(windlass.run_org(run_id), (select windlass.acting_org())) = (select windlass.acting_org()))', name);
  end loop;
end $$;

alter table windlass.org enable row level security;
create policy of_org on windlass.org for select
  using ((select windlass.acting_org()) is null or name = (select windlass.acting_org()));
alter table windlass.rate enable row level security;
create policy of_org on windlass.rate
  using ((select windlass.acting_org()) is null or split_part(key, '/', 1) = (select windlass.acting_org()))
  with check ((select windlass.acting_org()) is null or split_part(key, '/', 1) = (select windlass.acting_org()));
alter table windlass.version enable row level security;
create policy of_workflow on windlass.version
  using ((select windlass.acting_org()) is null
         or (select w.org from windlass.workflow w where w.id = workflow_id) = (select windlass.acting_org()))
  with check (true);

-- Jobs, their events and the schedules of plain SQL: the policies for SQL clients are in 0015.
create policy of_org on workflow.workflow_run as restrictive
  using ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))
  with check ((select windlass.acting_org()) is null or org = (select windlass.acting_org()));
alter table workflow.workflow_event enable row level security;
create policy of_job on workflow.workflow_event
  using ((select windlass.acting_org()) is null
         or (select j.org from workflow.workflow_run j where j.id = workflow_id) = (select windlass.acting_org()))
  with check ((select windlass.acting_org()) is null
              or coalesce(windlass.job_org(workflow_id), (select windlass.acting_org())) = (select windlass.acting_org()));
alter table workflow.workflow_schedule enable row level security;
create policy of_org on workflow.workflow_schedule
  using ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))
  with check ((select windlass.acting_org()) is null or org = (select windlass.acting_org()));

-- The queue and the types of the engine, whatever the org; the org of a SQL client is set for it.
drop policy the_jobs_of_the_engine_are_not_visible on workflow.workflow_run;
create policy the_jobs_of_the_engine_are_not_visible on workflow.workflow_run as restrictive
  using (windlass.shown_name(org, queue) <> 'windlass' or (select has_table_privilege('windlass.run'::regclass, 'UPDATE')))
  with check (windlass.shown_name(org, queue) <> 'windlass' and type not like 'windlass.%'
              or (select has_table_privilege('windlass.run'::regclass, 'UPDATE')));
drop policy columns_of_the_engine_keep_their_defaults on workflow.workflow_run;
create policy columns_of_the_engine_keep_their_defaults on workflow.workflow_run as restrictive for insert
  with check (status = 'pending' and run_id is null and version_id is null and step is null and item is null and items is null
              and settled and needs_created_event and not cancel_requested and epoch = 0 and claim_no = 0
              and lost = 0 and leased_by is null
              or (select has_table_privilege('windlass.run'::regclass, 'UPDATE')));
create function windlass.set_sql_org() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  new.org := windlass.sql_org();
  return new;
end $$;
-- Idempotency keys are unique in the whole table: those of an org begin with its name, like the ones that the API writes.
create function windlass.set_sql_org_of_job() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  new.org := windlass.sql_org();
  if new.org <> 'default' then
    new.idempotency_key := new.org || '/' || new.idempotency_key;
  end if;
  return new;
end $$;
create trigger workflow_run_02_org before insert on workflow.workflow_run
  for each row when (new.needs_created_event and new.org = 'default' and not has_table_privilege('windlass.run'::regclass, 'UPDATE'))
  execute function windlass.set_sql_org_of_job();
create trigger workflow_schedule_02_org before insert on workflow.workflow_schedule
  for each row when (new.org = 'default' and not has_table_privilege('windlass.run'::regclass, 'UPDATE'))
  execute function windlass.set_sql_org();
drop trigger workflow_run_05_reserved on workflow.workflow_run;
create trigger workflow_run_05_reserved before insert on workflow.workflow_run
  for each row when (new.needs_created_event and new.run_id is null
                     and (windlass.shown_name(new.org, new.queue) = 'windlass' or new.type like 'windlass.%')
                     and not (windlass.shown_name(new.org, new.queue) = 'windlass' and new.type = 'windlass.webhook.v1'
                              and has_table_privilege('windlass.run'::regclass, 'UPDATE')))
  execute function windlass.inbox_reserved();

-- Creates the role that servers take, with its privileges. Called when the second org is created: an installation with one org
-- needs no role; and whenever a process starts and there are several, for tables of later migrations and restored dumps. Requires
-- CREATEROLE, unless a superuser has created the role and granted it.
create function windlass.create_api_role() returns void language plpgsql set search_path = '' as $$
begin
  perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('windlass_api'));  -- concurrent grants would fail
  if not exists (select from pg_catalog.pg_roles where rolname = 'windlass_api') then
    begin
      create role windlass_api nologin;
    exception when duplicate_object or unique_violation then null;  -- another session has created it
    end;
  end if;
  if not pg_catalog.pg_has_role(current_user, 'windlass_api', 'member') then
    execute pg_catalog.format('grant windlass_api to %I', current_user);
  end if;
  if not exists (
    select from pg_catalog.pg_class c
     where c.relnamespace in ('windlass'::regnamespace, 'workflow'::regnamespace) and c.relkind in ('r', 'p', 'v')
       and not pg_catalog.has_table_privilege('windlass_api', c.oid, 'INSERT')) then
    return;
  end if;
  grant usage on schema windlass, workflow to windlass_api;
  grant select, insert, update, delete on all tables in schema windlass, workflow to windlass_api;
  grant usage on all sequences in schema windlass, workflow to windlass_api;
end $$;

-- Gives a role of SQL clients to an org: a producer, or a worker, which also claims jobs and reports on them. The role is created
-- unless it exists.
create function windlass.grant_sql(client name, wanted text, is_worker boolean) returns void language plpgsql set search_path = '' as $$
begin
  if not exists (select from pg_catalog.pg_roles where rolname = client) then
    execute pg_catalog.format('create role %I login', client);
  end if;
  insert into windlass.sql_role (role, org) values (client, wanted) on conflict (role) do update set org = excluded.org;
  execute pg_catalog.format('revoke all on all tables in schema workflow from %I', client);
  execute pg_catalog.format('grant usage on schema workflow to %I', client);
  execute pg_catalog.format('grant usage on sequence workflow.workflow_event_id_seq to %I', client);
  execute pg_catalog.format('grant select, insert (workflow_id, event_type, data) on workflow.workflow_event to %I', client);
  execute pg_catalog.format('grant insert (id, type, payload, priority, run_at, idempotency_key, max_attempts)
                             on workflow.workflow_run to %I', client);
  if is_worker then
    execute pg_catalog.format('grant select, update (status, leased_by, lease_until, attempt, run_at, last_error, result, updated_at, deleted_at)
                               on workflow.workflow_run to %I', client);
    execute pg_catalog.format('grant select on workflow.workflow_registry, workflow.workflow_schedule to %I', client);
  else
    execute pg_catalog.format('grant select (id, type, status, priority, run_at, idempotency_key, attempt, max_attempts, leased_by,
                                             lease_until, last_error, result, created_at, updated_at, deleted_at), update (status, updated_at)
                               on workflow.workflow_run to %I', client);
  end if;
end $$;

-- Takes a role from its org. Its privileges go first: a role that belongs to no org acts for `default`.
create function windlass.revoke_sql(client name) returns boolean language plpgsql set search_path = '' as $$
begin
  if not exists (select from windlass.sql_role where role = client for update) then
    return false;
  end if;
  if exists (select from pg_catalog.pg_roles where rolname = client) then
    execute pg_catalog.format('revoke all on all tables in schema workflow from %I', client);
    execute pg_catalog.format('revoke all on all sequences in schema workflow from %I', client);
    execute pg_catalog.format('revoke all on schema workflow from %I', client);
  end if;
  delete from windlass.sql_role where role = client;
  return true;
end $$;
