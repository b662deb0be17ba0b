-- May run before the new code: yes (tables and functions that older code does not use).
-- Messages: signals to one run or job, and events that are published to everything that waits for their name and key.
--
-- A sender only inserts a row, and an owner (a run or a job) only inserts, closes or takes its own waiters. One router at a time
-- (an advisory lock that is never waited for) numbers the committed messages and delivers them to the waiters. So the numbers
-- follow the order of the commits, each pair of message and waiter is compared after both are committed, and no transaction of
-- a sender, however long, blocks or deadlocks with another. Lock order: run, job, timer, hook, waiter; the router locks only waiters
-- and messages, in ascending id.

create table windlass.message (
  id         bigint generated always as identity primary key,
  seq        bigint,                            -- its place in the order of all messages; null: not routed yet
  org        text not null,
  name       text not null,
  key        text not null,                     -- of a signal: the id of the run or job that it is addressed to
  is_signal  boolean not null,
  sender_id  text,                              -- the sender's own id of it: a second message with the same one is not stored
  payload    jsonb not null,
  sender     text not null,
  created_at timestamptz not null default windlass.now(),
  waiter_id  bigint                             -- of a signal: the waiter that received it
);
create sequence windlass.message_order;
create index message_unrouted on windlass.message (org, name, key, is_signal, id) where seq is null;
create index message_event on windlass.message (org, name, key, seq) where not is_signal;
create index message_signal on windlass.message (org, name, key, seq) where is_signal and waiter_id is null;
create unique index message_sender_id on windlass.message (org, sender_id) where sender_id is not null;
create index message_age on windlass.message (created_at);

-- A waiter: a step of a run, or a call in a handler, that waits for messages. Rows are kept until their run or job is deleted, so
-- that an owner does not receive a message twice.
create table windlass.waiter (
  id         bigint generated always as identity primary key,
  org        text not null,
  name       text not null,
  key        text not null,
  is_signal  boolean not null,
  run_id     uuid,                              -- the owner is a step of this run
  step       int,
  job_id     uuid,                              -- or a handler: the name of its recorded step
  place      text,
  round      int not null default 0,            -- of the run; of a job its epoch
  count      int not null default 1,            -- how many messages it waits for
  since      timestamptz not null,              -- older events are not delivered to it: when its run or plain job was created
  until      timestamptz,                       -- for display; the timer of the step or the job's run_at ends the wait
  state      text not null default 'new' constraint waiter_state_check
             check (state in ('new', 'open', 'received', 'taken', 'closed')),
  seq        bigint not null default 0,         -- the latest message that it received or skipped
  received   jsonb not null default '[]',       -- payloads
  created_at timestamptz not null default windlass.now(),
  constraint waiter_owner_check check (num_nonnulls(run_id, step) = 2 and num_nonnulls(job_id, place) = 0
                                       or num_nonnulls(run_id, step) = 0 and num_nonnulls(job_id, place) = 2)
);
create unique index waiter_step on windlass.waiter (run_id, step, round) where run_id is not null;
create unique index waiter_job on windlass.waiter (job_id, place, round) where job_id is not null;
create index waiter_open on windlass.waiter (org, name, key, id) where state in ('new', 'open');
create index waiter_new on windlass.waiter (id) where state = 'new';
create index waiter_received on windlass.waiter (id) where state = 'received';

-- Stores a message unless the sender has sent one with this id before; returns whether it is new.
create function windlass.send(of_org text, its_name text, its_key text, signals boolean, its_payload jsonb, its_id text, its_sender text)
returns boolean language sql volatile as $$
  with born as (
    insert into windlass.message (org, name, key, is_signal, payload, sender_id, sender)
    values (of_org, its_name, its_key, signals, its_payload, its_id, its_sender)
    on conflict (org, sender_id) where sender_id is not null do nothing returning 1)
  select exists (select from born)
$$;

-- Stores a signal for a live run, or for a live job that is no step of a run. Returns `sent`, `again` (this id was sent before),
-- `unknown` (there is no such run or job), `ended`, or `full` (`most` signals with this name have not been received yet).
create function windlass.send_signal(of_org text, target uuid, its_name text, its_payload jsonb, its_id text, its_sender text, most int)
returns text language plpgsql volatile as $$
declare
  live boolean;
begin
  if exists (select from windlass.message m where m.org = of_org and m.sender_id = its_id) then
    return 'again';
  end if;
  select r.state in ('pending', 'running') into live from windlass.run r where r.id = target and r.org = of_org;
  if live is null then
    select j.status in ('pending', 'leased') into live from workflow.workflow_run j
     where j.id = target and j.org = of_org and j.run_id is null and j.deleted_at is null;
  end if;
  if live is null then
    return 'unknown';
  elsif not live then
    return 'ended';
  elsif (select count(*) from (select from windlass.message m where m.org = of_org and m.name = its_name and m.key = target::text
                                  and m.is_signal and m.waiter_id is null limit most) as few) >= most then
    return 'full';
  end if;
  return case when windlass.send(of_org, its_name, target::text, true, its_payload, its_id, its_sender) then 'sent' else 'again' end;
end $$;

alter table windlass.workflow add column event text;  -- the name of the event that starts its runs
create index workflow_event on windlass.workflow (org, event) where event is not null and deleted_at is null;

-- Runs that SQL clients have requested, or that events start. A loop turns each into a run in one transaction.
create table windlass.start_request (
  id              uuid primary key,             -- of the run
  org             text not null,
  workflow        text not null,
  input           jsonb not null,
  idempotency_key text,
  headers         jsonb,                        -- name, key and id of the event
  sender          text not null,
  created_at      timestamptz not null default windlass.now()
);
create unique index start_request_key on windlass.start_request (org, idempotency_key) where idempotency_key is not null;
create index start_request_order on windlass.start_request (created_at, id);

-- Functions for SQL clients, in their own transactions. A client acts for its org; the engine's role for the org in the setting
-- `windlass.org`, or for `default`.
create function windlass.calling_org() returns text language sql stable security definer set search_path = ''
  return case when has_table_privilege(session_user, 'windlass.run'::regclass, 'UPDATE')
              then coalesce(nullif(current_setting('windlass.org', true), ''), 'default')
              else windlass.sql_org() end;

create function windlass.check_message(name text, key text, payload jsonb, id text) returns void language plpgsql as $$
begin
  if coalesce(btrim(name), '') = '' then
    raise exception 'name is empty: give the message a name' using errcode = 'check_violation';
  elsif length(name) > 255 then
    raise exception 'name is % characters long, the limit is 255', length(name) using errcode = 'check_violation';
  elsif starts_with(name, 'windlass.') then
    raise exception 'name is %: windlass. is reserved for Windlass, use another name', quote_literal(name) using errcode = 'check_violation';
  elsif length(key) > 400 then
    raise exception 'key is % characters long, the limit is 400', length(key) using errcode = 'check_violation';
  elsif btrim(id) = '' or length(id) > 255 then
    raise exception 'id is empty or longer than 255 characters: leave it out or give an id' using errcode = 'check_violation';
  elsif octet_length(payload::text) > 1048576 then
    raise exception 'payload is % bytes, the limit is 1048576: store the data elsewhere and pass a reference',
      octet_length(payload::text) using errcode = 'check_violation';
  end if;
end $$;

-- Publishes an event. Returns false if a message with this id was sent before.
create function windlass.publish(name text, key text default '', payload jsonb default 'null', id text default null)
returns boolean language plpgsql security definer set search_path = '' as $$
begin
  perform windlass.check_message(publish.name, publish.key, publish.payload, publish.id);
  return windlass.send(windlass.calling_org(), publish.name, coalesce(publish.key, ''), false,
                       coalesce(publish.payload, 'null'), publish.id, session_user);
end $$;

-- Sends a signal to a run, or to a job that is no step of a run. Returns false if a message with this id was sent before.
create function windlass.signal(run uuid, name text, payload jsonb default 'null', id text default null)
returns boolean language plpgsql security definer set search_path = '' as $$
declare
  result text;
begin
  perform windlass.check_message(signal.name, '', signal.payload, signal.id);
  result := windlass.send_signal(windlass.calling_org(), signal.run, signal.name, coalesce(signal.payload, 'null'), signal.id,
                                 session_user, 1000);
  if result = 'unknown' then
    raise exception 'no run %', signal.run using errcode = 'no_data_found';
  elsif result = 'ended' then
    raise exception 'run % has ended: a signal can only reach a live one', signal.run
      using errcode = 'object_not_in_prerequisite_state';
  elsif result = 'full' then
    raise exception '% has 1000 signals % that it has not received yet: send later', signal.run, quote_literal(signal.name)
      using errcode = 'program_limit_exceeded';
  end if;
  return result = 'sent';
end $$;

-- Requests a run of a workflow and returns its id. The run begins shortly after the commit. A known idempotency key returns the
-- run that has it.
create function windlass.start(workflow text, input jsonb default '{}', idempotency_key text default null)
returns uuid language plpgsql security definer set search_path = '' as $$
declare
  acting text := windlass.calling_org();
  enabled boolean;
  run uuid;
begin
  select w.enabled into enabled from windlass.workflow w
   where w.org = acting and w.name = start.workflow and w.deleted_at is null and not w.hidden;
  if enabled is null then
    raise exception 'no workflow %', quote_literal(coalesce(start.workflow, '')) using errcode = 'no_data_found';
  elsif not enabled then
    raise exception 'workflow % is disabled: windlass workflows enable %', quote_literal(start.workflow), start.workflow
      using errcode = 'object_not_in_prerequisite_state';
  elsif octet_length(start.input::text) > 1048576 then
    raise exception 'input is % bytes, the limit is 1048576: store the data elsewhere and pass a reference',
      octet_length(start.input::text) using errcode = 'check_violation';
  elsif btrim(start.idempotency_key) = '' or length(start.idempotency_key) > 1024 or start.idempotency_key ~ '^(schedule|event)/' then
    raise exception 'idempotency_key is empty, longer than 1024 characters, or begins with schedule/ or event/: use another key'
      using errcode = 'check_violation';
  end if;
  insert into windlass.start_request as r (id, org, workflow, input, idempotency_key, sender)
  values (windlass.new_id(), acting, start.workflow, coalesce(start.input, '{}'), start.idempotency_key, session_user)
  on conflict do nothing returning r.id into run;
  if start.idempotency_key is null then
    return run;
  end if;
  -- The request with this key may have become a run while this statement waited for it.
  if exists (select from windlass.run r where r.org = acting and r.idempotency_key = start.idempotency_key) then
    delete from windlass.start_request r where r.id = run;
    select r.id into run from windlass.run r where r.org = acting and r.idempotency_key = start.idempotency_key;
  elsif run is null then
    select r.id into run from windlass.start_request r where r.org = acting and r.idempotency_key = start.idempotency_key;
  end if;
  return run;
end $$;

revoke execute on function windlass.publish, windlass.signal, windlass.start from public;
-- SQL clients may use the schema from now on. Of a row of another org these two functions, which the
-- policies need, reveal only that it belongs to another org.
create or replace function windlass.job_org(wanted uuid) returns text language sql stable security definer set search_path = ''
  return (select case when has_table_privilege(session_user, 'windlass.run'::regclass, 'UPDATE') or org = windlass.sql_org() then org
                      else '' end from workflow.workflow_run where id = wanted);
create or replace function windlass.run_org(wanted uuid) returns text language sql stable security definer set search_path = ''
  return (select case when has_table_privilege(session_user, 'windlass.run'::regclass, 'UPDATE') or org = windlass.sql_org() then org
                      else '' end from windlass.run where id = wanted);

create or replace function windlass.grant_sql(client name, wanted text, is_worker boolean) returns void language plpgsql set search_path = '' as $$
begin
  if not exists (select from pg_catalog.pg_roles where rolname = client) then
    execute pg_catalog.format('create role %I login', client);
  end if;
  insert into windlass.sql_role (role, org) values (client, wanted) on conflict (role) do update set org = excluded.org;
  execute pg_catalog.format('revoke all on all tables in schema workflow from %I', client);
  execute pg_catalog.format('grant usage on schema workflow, windlass to %I', client);
  execute pg_catalog.format('grant execute on function windlass.publish, windlass.signal, windlass.start to %I', client);
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

create or replace function windlass.revoke_sql(client name) returns boolean language plpgsql set search_path = '' as $$
begin
  if not exists (select from windlass.sql_role where role = client for update) then
    return false;
  end if;
  if exists (select from pg_catalog.pg_roles where rolname = client) then
    execute pg_catalog.format('revoke all on all tables in schema workflow from %I', client);
    execute pg_catalog.format('revoke all on all sequences in schema workflow from %I', client);
    execute pg_catalog.format('revoke execute on function windlass.publish, windlass.signal, windlass.start from %I', client);
    execute pg_catalog.format('revoke all on schema workflow, windlass from %I', client);
  end if;
  delete from windlass.sql_role where role = client;
  return true;
end $$;

do $$
declare
  client name;
begin
  for client in select role from windlass.sql_role join pg_catalog.pg_roles on rolname = role
  loop
    execute format('grant usage on schema windlass to %I', client);
    execute format('grant execute on function windlass.publish, windlass.signal, windlass.start to %I', client);
  end loop;
end $$;

do $$
declare
  name text;
begin
  foreach name in array array['message', 'start_request', 'waiter']
  loop
    execute format('alter table windlass.%I enable row level security', name);
    execute format('create policy of_org on windlass.%I
                      using ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))
                      with check ((select windlass.acting_org()) is null or org = (select windlass.acting_org()))', name);
  end loop;
end $$;

create or replace function windlass.org_of(kind text, key text) returns text language plpgsql stable as $$
begin
  case kind
    when 'run' then return (select org from windlass.run where id = key::uuid);
    when 'workflow' then return (select org from windlass.workflow where id = key::uuid);
    when 'trigger' then return (select org from windlass.schedule where id = key::uuid);
    when 'cron' then return (select org from windlass.cron where id = key::uuid);
    when 'schedule' then return (select org from workflow.workflow_schedule where id = key::uuid);
    when 'job' then return (select org from workflow.workflow_run where id = key::uuid);
    when 'message' then return split_part(key, '/', 1);
    when 'start' then return (select org from windlass.start_request where id = key::uuid);
    else return null;  -- an event or a maintenance task
  end case;
exception when invalid_text_representation then return null;
end $$;
