-- May run before the new code: yes (a defaulted column, triggers, policies, a table).
-- Restricts what the roles of SQL clients may do to the inbox, and writes the events of their changes.
--
-- The owner of the tables, and any role that may update `windlass.run`, is the engine. Every other role is a client: a producer
-- or a worker with the grants of docs/how-to/plain-sql.md. The policies apply to clients only; the owner's statements are
-- planned and run as before.

-- Whether the `created` event of the row may be missing. False for rows of the engine, which writes the event itself, and for
-- existing rows. The index costs bulk inserts by SQL clients about 1 %, and those of the engine nothing: they are not in it.
alter table workflow.workflow_run add column needs_created_event boolean not null default false;
alter table workflow.workflow_run alter column needs_created_event set default true;
create index idx_workflow_run_needs_created on workflow.workflow_run (seq) where needs_created_event;

-- The trigger condition contains the whole check, so that the function is called for bad rows only. The engine validates its
-- values itself: for its rows the condition is one comparison.
create trigger workflow_run_05_bounds before insert on workflow.workflow_run for each row
  when (new.needs_created_event and (
        new.timeout not between interval '0' and interval '36525 days'
        or new.visibility not between interval '0' and interval '36525 days'
        or new.max_attempts > 1000000 or new.attempt not between 0 and 1000000
        or new.priority not between -2000000000 and 2000000000
        or jsonb_typeof(new.retry -> 'dead_letter') <> 'boolean'
        or new.run_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
        or new.created_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
        or new.updated_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
        or new.expires_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'))
  execute function windlass.inbox_bounds();

-- Types that begin with `windlass.` and the queue `windlass` are reserved for the engine. This rejects mistakes of the owner and
-- `windlass.submit()`; steps of runs and webhook deliveries come from the engine, also of an older release.
create function windlass.inbox_reserved() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  raise exception using errcode = 'check_violation', message = case when new.type like 'windlass.%'
    then format('type %s is reserved for the engine: choose a name that does not begin with windlass.', new.type)
    else format('queue %s is reserved for the engine: choose another one', new.queue) end;
end $$;
create trigger workflow_run_05_reserved before insert on workflow.workflow_run
  for each row when (new.needs_created_event and new.run_id is null and (new.queue = 'windlass' or new.type like 'windlass.%')
                     and not (new.queue = 'windlass' and new.type = 'windlass.webhook.v1'
                              and has_table_privilege('windlass.run'::regclass, 'UPDATE')))
  execute function windlass.inbox_reserved();
alter table workflow.workflow_schedule
  add constraint workflow_schedule_type_reserved check (type not like 'windlass.%') not valid;

-- A client with privileges on the whole table, as the manual once granted them, cannot change what a row belongs to. No statement
-- of the engine on a hot path sets any of these columns, so the trigger costs nothing there.
create function windlass.inbox_foreign() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if (new.type, new.queue, new.org, new.epoch) is distinct from (old.type, old.queue, old.org, old.epoch)
     or (new.run_id, new.version_id, new.step, new.item, new.items)
        is distinct from (old.run_id, old.version_id, old.step, old.item, old.items) then
    raise exception 'type, queue, org, epoch, run_id, version_id, step, item and items of a job never change'
      using errcode = 'insufficient_privilege';
  end if;
  return new;
end $$;
create trigger workflow_run_06_foreign
  before update of type, queue, org, epoch, run_id, version_id, step, item, items on workflow.workflow_run
  for each row when (not has_table_privilege('windlass.run'::regclass, 'UPDATE')) execute function windlass.inbox_foreign();

alter table workflow.workflow_run enable row level security;
create policy everybody on workflow.workflow_run using (true) with check (true);
-- Payloads of HTTP and command steps contain resolved headers, and their results decide how runs continue.
create policy the_jobs_of_the_engine_are_not_visible on workflow.workflow_run as restrictive
  using (queue <> 'windlass' or (select has_table_privilege('windlass.run'::regclass, 'UPDATE')))
  with check (queue <> 'windlass' and type not like 'windlass.%' or (select has_table_privilege('windlass.run'::regclass, 'UPDATE')));
create policy columns_of_the_engine_keep_their_defaults on workflow.workflow_run as restrictive for insert
  with check (status = 'pending' and run_id is null and version_id is null and step is null and item is null and items is null
              and org = 'default' and settled and needs_created_event and not cancel_requested and epoch = 0 and claim_no = 0
              and lost = 0 and leased_by is null
              or (select has_table_privilege('windlass.run'::regclass, 'UPDATE')));
-- A role that may not write results is a producer, not a worker.
create policy producers_may_only_cancel on workflow.workflow_run as restrictive for update
  with check (status = 'cancelled'
              or (select has_column_privilege('workflow.workflow_run'::regclass, 'result', 'UPDATE')));
create policy only_the_engine_deletes on workflow.workflow_run as restrictive for delete
  using ((select has_table_privilege('windlass.run'::regclass, 'UPDATE')));

-- `created` events of rows that SQL clients inserted. An event for each row of a bulk load would make it twice as slow, so only
-- small statements write theirs at once, with the role as the actor. The rows of larger ones get theirs from upkeep, within a
-- second (`log_created` in jobs.sql), or when they are first updated: the event always precedes all others.
--
-- The rows of this statement are found among the latest of the index: those of this transaction with the last command id. The
-- trigger has no transition table, because that would make every insert of the engine copy its rows. An older release may have
-- written the event already, so all writers check first; the `order by` keeps that check on the index by job.
create function windlass.inbox_created() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  with recent as materialized (
    select id, created_at, seq, xmin as writer, cmin as command from workflow.workflow_run
     where needs_created_event order by seq desc limit 21),
  ours as (
    select * from recent where writer = pg_current_xact_id()::xid),
  inserted as (
    select id, created_at from ours where command = (select command from ours order by seq desc limit 1))
  insert into workflow.workflow_event (workflow_id, event_type, actor, created_at)
  select id, 'created', session_user, created_at from inserted
   where (select count(*) from inserted) <= 20
     and (select e.id from workflow.workflow_event e where e.workflow_id = inserted.id and e.event_type = 'created'
           order by e.id limit 1) is null;
  return null;
end $$;
create trigger workflow_run_50_created after insert on workflow.workflow_run
  for each statement when (current_setting('windlass.writes_events', true) is distinct from 'on'
                           or not has_table_privilege('windlass.run'::regclass, 'UPDATE'))
  execute function windlass.inbox_created();

create function windlass.inbox_first_update() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  new.needs_created_event := false;
  if (select e.id from workflow.workflow_event e where e.workflow_id = new.id and e.event_type = 'created'
       order by e.id limit 1) is null then
    insert into workflow.workflow_event (workflow_id, event_type, actor, created_at) values (new.id, 'created', 'sql', old.created_at);
  end if;
  return new;
end $$;
create trigger workflow_run_15_created before update on workflow.workflow_run
  for each row when (old.needs_created_event and new.needs_created_event) execute function windlass.inbox_first_update();

-- `cancelled` events: row by row, because a trigger with transition tables would slow down every update of the engine, and before
-- the update, because an AFTER trigger makes Postgres read every old row again (4 % of an update). The `order by` keeps the
-- check on the index by job.
create function windlass.inbox_cancelled() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if (select e.xid from workflow.workflow_event e where e.workflow_id = new.id and e.event_type = 'cancelled'
       order by e.id desc limit 1) is distinct from pg_current_xact_id() then
    insert into workflow.workflow_event (workflow_id, event_type, actor, attempt)
    values (new.id, 'cancelled', session_user, new.attempt + new.lost + 1);
  end if;
  return new;
end $$;
create trigger workflow_run_60_cancelled before update of status on workflow.workflow_run
  for each row when (new.status = 'cancelled' and old.status in ('pending', 'leased') and not new.cancel_requested
                     and (current_setting('windlass.writes_events', true) is distinct from 'on'
                          or not has_table_privilege('windlass.run'::regclass, 'UPDATE')))
  execute function windlass.inbox_cancelled();

-- If a client inserts one of these two events itself afterwards, its data is added to the existing event.
create or replace function windlass.event_late() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  state text := (select status from workflow.workflow_run where id = new.workflow_id);
  there bigint;
begin
  if new.event_type in ('created', 'cancelled') then
    select max(e.id) into there from workflow.workflow_event e
     where e.workflow_id = new.workflow_id and e.event_type = new.event_type;
    if there is not null and (new.event_type = 'created' or state = 'cancelled') then
      if new.data is not null then
        update workflow.workflow_event e set data = coalesce(e.data, '{}') || new.data
         where e.workflow_id = new.workflow_id and e.id = there and jsonb_typeof(new.data) = 'object'
           and coalesce(jsonb_typeof(e.data), 'object') = 'object';
      end if;
      return null;
    end if;
  end if;
  if state in ('succeeded', 'failed', 'cancelled') and new.event_type not in ('created', state) then
    new.data := jsonb_build_object('late', true) || case jsonb_typeof(new.data) when 'object' then new.data
                                                    else jsonb_strip_nulls(jsonb_build_object('data', new.data)) end;
  end if;
  return new;
end $$;
drop trigger workflow_event_late on workflow.workflow_event;
create trigger workflow_event_late before insert on workflow.workflow_event
  for each row when (new.actor is null and new.event_type in ('created', 'succeeded', 'failed', 'retried', 'cancelled'))
  execute function windlass.event_late();

-- A callback is accepted once: when its step runs again, it gets a new token. The signature of a Standard Webhook does not cover
-- the address, so the ids of accepted requests are stored.
alter table windlass.hook add column round int not null default 0, add column seen_ids text[];

-- Public URLs of this installation, stored by its servers. Every process creates callback addresses, but most processes serve no
-- requests.
create table windlass.public_url (
  url         text primary key,
  configured  boolean not null,  -- from WINDLASS_PUBLIC_URL, not the listening address of a server
  recorded_at timestamptz not null default windlass.now()
);
