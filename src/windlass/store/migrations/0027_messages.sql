-- May run before the new code: yes (tables and functions that older code does not use).
-- Messages: signals to one run or job, and events that are published to all who wait for their name and key.
--
-- A sender only inserts a row, and an owner (a run or a job) only inserts, closes or takes its own waiters. One router at a time
-- (an advisory lock that is only ever tried) numbers the committed messages and hands them to the waiters. So the numbers are in
-- the order of the commits, every pair of message and waiter is looked at after both are committed, and no transaction of a
-- sender, however long, blocks or deadlocks with another. Lock order: run, job, timer, hook, waiter; the router locks only waiters
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

-- A place that waits: a step of a run, or a call in a handler. Rows stay until their run or job is deleted: what an owner has
-- received once, it does not receive again.
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
  since      timestamptz not null,              -- older events are not for it: when its run or plain job was created
  until      timestamptz,                       -- for display; the timer of the step or the job's run_at ends the wait
  state      text not null default 'new' constraint waiter_state_check
             check (state in ('new', 'open', 'received', 'taken', 'closed')),
  seq        bigint not null default 0,         -- the latest message that it received, or that was not for it
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

do $$
declare
  name text;
begin
  foreach name in array array['message', 'waiter']
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
    else return null;  -- an event or a maintenance task
  end case;
exception when invalid_text_representation then return null;
end $$;
