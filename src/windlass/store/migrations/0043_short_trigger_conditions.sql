-- May run before the new code: yes (the same rows are checked and changed in the same way).
-- Postgres parses the stored condition of each trigger again in every statement. For an insert or a claim of a single job the
-- conditions of the inbox were a quarter of the server's time. Now few triggers with short conditions remain: a condition only
-- selects the rows that may need something, and the function decides. Rows that the engine inserts, claims and ends meet none of
-- them, so bulk statements still call no function.

-- Inserts. `new.needs_created_event` means: inserted by plain SQL.

-- For rows inserted by roles without rights on the engine's tables. The condition of a trigger is evaluated as the user that inserts; the
-- function has the rights of its owner, because these roles have none on schema windlass.
create function windlass.inbox_insert_of_client() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  wrong text;
begin
  if new.org = 'default' then
    new.org := windlass.sql_org();
    if new.org <> 'default' then
      new.idempotency_key := new.org || '/' || new.idempotency_key;
    end if;
  end if;
  wrong := windlass.reserved_error(new, false);
  if wrong is not null then
    raise exception '%', wrong using errcode = 'check_violation';
  end if;
  return new;
end $$;

create function windlass.inbox_insert() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = 'off' as $$
declare
  wrong text;
  archived uuid[];
begin
  if new.needs_created_event then
    if new.org <> 'default' and not starts_with(new.queue, new.org || '/') then
      new.queue := windlass.stored_queue(new.org, new.queue);
    end if;
    wrong := coalesce(windlass.bounds_error(new), windlass.reserved_error(new, true));  -- of clients: see above
    if wrong is not null then
      raise exception '%', wrong using errcode = 'check_violation';
    end if;
  end if;
  -- An id or key of the archive is taken: its job is restored, so that the insert meets it.
  if (new.needs_created_event or new.idempotency_key is not null or new.envelope is not null)
     and coalesce(current_setting('windlass.moves_rows', true), '') = ''
     and exists (select from pg_catalog.pg_inherits where inhparent = 'workflow.workflow_run'::regclass) then
    archived := array(select id from workflow.workflow_run where id = new.id and tableoid <> 'workflow.workflow_run'::regclass);
    if new.idempotency_key is not null then
      archived := archived || array(
        select id from workflow.workflow_run
         where idempotency_key = new.idempotency_key and tableoid <> 'workflow.workflow_run'::regclass);
    end if;
    if archived <> '{}' then
      perform windlass.restore_jobs(archived);
    end if;
  end if;
  -- The engine inserts jobs that are created now: one that is due when it is created need not be compared with the time.
  if (new.needs_created_event or new.run_at > new.created_at) and new.run_at > windlass.now() then
    new.due := false;
  end if;
  return new;
end $$;

-- Why a job cannot be inserted by plain SQL; null if it can.
create function windlass.reserved_error(job workflow.workflow_run, by_engine boolean) returns text
language plpgsql immutable set search_path = '' as $$
declare
  is_own_queue constant boolean := windlass.shown_name(job.org, job.queue) = 'windlass';
begin
  return case
    when job.run_id is not null or is_own_queue and job.type = 'windlass.webhook.v1' and by_engine then null
    when job.type like 'windlass.%'
      then format('type %s is reserved for the engine: choose a name that does not begin with windlass.', job.type)
    when is_own_queue then format('queue %s is reserved for the engine: choose another one', job.queue) end;
end $$;

create function windlass.bounds_error(job workflow.workflow_run) returns text language plpgsql stable set search_path = '' as $$
begin
  return case
    when job.timeout < interval '0' or job.timeout > interval '36525 days'
      then format('timeout is %s: it must lie between 0 and 36525 days', job.timeout)
    when job.visibility < interval '0' or job.visibility > interval '36525 days'
      then format('visibility is %s: it must lie between 0 and 36525 days', job.visibility)
    when job.max_attempts > 1000000 then format('max_attempts is %s: the most is 1000000', job.max_attempts)
    when job.priority not between -2000000000 and 2000000000
      then format('priority is %s: it must lie between -2000000000 and 2000000000', job.priority)
    when job.attempt not between 0 and 1000000 then format('attempt is %s: it must lie between 0 and 1000000', job.attempt)
    when jsonb_typeof(job.retry -> 'dead_letter') <> 'boolean'
      then format('retry.dead_letter is %s: it must be true or false', job.retry -> 'dead_letter')
    when isfinite(job.run_at) and job.run_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('run_at is %s: it must lie in the years 1 to 9999, or be infinity', job.run_at)
    when job.created_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('created_at is %s: it must lie in the years 1 to 9999', job.created_at)
    when job.updated_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('updated_at is %s: it must lie in the years 1 to 9999', job.updated_at)
    when job.expires_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('expires_at is %s: it must lie in the years 1 to 9999', job.expires_at) end;
end $$;

create trigger workflow_run_05_client before insert on workflow.workflow_run for each row
  when (new.needs_created_event and not has_table_privilege('windlass.run'::regclass, 'UPDATE'))
  execute function windlass.inbox_insert_of_client();
create trigger workflow_run_10_insert before insert on workflow.workflow_run for each row
  when (new.needs_created_event or new.idempotency_key is not null or new.envelope is not null or new.run_at > new.created_at)
  execute function windlass.inbox_insert();

-- Updates. The order of the parts matters: each sees what those before it have changed.
create function windlass.inbox_update() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  -- The first update of a job without a `created` event writes that event.
  if old.needs_created_event and new.needs_created_event then
    new.needs_created_event := false;
    if (select e.id from workflow.workflow_event e where e.workflow_id = new.id and e.event_type = 'created'
         order by e.id limit 1) is null then
      insert into workflow.workflow_event (workflow_id, event_type, actor, created_at)
      values (new.id, 'created', 'sql', old.created_at);
    end if;
  end if;
  -- A job of a paused run becomes due when the run is resumed.
  if new.run_id is not null and new.status = 'pending' and new.run_at < 'infinity'
     and (old.status <> 'pending' or new.run_at <> old.run_at) then
    new.paused_run_at := null;
    if exists (select from windlass.run r where r.id = new.run_id and r.paused_at is not null) then
      new.paused_run_at := new.run_at;
      new.run_at := 'infinity';
      new.due := false;
    end if;
  end if;
  -- A job that is not leased has no holder. One that becomes pending, or due at another time, gets a new position in its lane.
  if old.status in ('pending', 'leased')
     and (new.run_at <> old.run_at or new.status <> 'leased' and (new.leased_by is not null or new.lease_until is not null)
          or new.status = 'pending' and old.status <> 'pending') then
    if new.status <> 'leased' then
      new.leased_by := null;
      new.lease_until := null;
    end if;
    if new.status = 'pending' then
      new.due := new.run_at <= windlass.now();
      if new.due then
        new.seq := nextval('workflow.workflow_run_seq_seq');
      end if;
    end if;
  end if;
  -- A job that leaves its worker leaves the worker's lease.
  if new.worker_lease is not null
     and (new.status <> 'leased'
          or new.leased_by is distinct from old.leased_by and new.worker_lease is not distinct from old.worker_lease) then
    new.worker_lease := null;
  end if;
  -- The end of a job with a rate key makes room for another one: see workflow_run_70_rate.
  if new.rate_key is not null and old.status = 'leased' and new.status <> 'leased' then
    perform set_config('windlass.ended_rate_keys',
                       coalesce(current_setting('windlass.ended_rate_keys', true), '') || ',' || to_json(new.rate_key), true);
  end if;
  -- The runs that a job has started and waits for are cancelled with it.
  if new.status = 'cancelled' and old.status in ('pending', 'leased') and new.claim_no > 0 then
    insert into windlass.notice (run_id, word, reason)
    select r.id, 'cancel', 'the job that started it was cancelled' from windlass.run r
     where r.job_id = new.id and r.state in ('pending', 'running');
  end if;
  return new;
end $$;

create trigger workflow_run_20_update before update on workflow.workflow_run for each row
  when (old.needs_created_event or new.run_at <> old.run_at or new.rate_key is not null
        or new.status in ('pending', 'cancelled') or new.worker_lease = old.worker_lease
        or new.status <> 'leased'
           and (new.leased_by is not null or new.lease_until is not null or new.worker_lease is not null))
  execute function windlass.inbox_update();

-- Ended jobs do not change unless they are reopened, which begins a new epoch.
create or replace function windlass.inbox_guard() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if new.epoch = old.epoch then
    new.status := old.status;
    new.result := old.result;
    new.attempt := old.attempt;
    new.run_at := old.run_at;
    new.last_error := old.last_error;
    new.leased_by := old.leased_by;
    new.lease_until := old.lease_until;
    new.updated_at := old.updated_at;
  end if;
  return new;
end $$;
create or replace trigger workflow_run_30_guard before update on workflow.workflow_run for each row
  when (old.status not in ('pending', 'leased')) execute function windlass.inbox_guard();

-- Whether the statement writes events itself. The engine's statements do, and only a role with the engine's rights may claim so.
-- `run` is 'windlass.run': roles of SQL clients cannot look it up. In PL/pgSQL, because a function in SQL would be inlined into
-- the condition, and parsed with it.
create function windlass.writes_events(run regclass) returns boolean language plpgsql stable set search_path = '' as $$
begin
  return current_setting('windlass.writes_events', true) is not distinct from 'on' and has_table_privilege(run, 'UPDATE');
end $$;

create or replace trigger workflow_run_50_created after insert on workflow.workflow_run for each statement
  when (not windlass.writes_events('windlass.run'::regclass)) execute function windlass.inbox_created();

create or replace function windlass.inbox_cancelled() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if old.status in ('pending', 'leased') and not new.cancel_requested
     and (select e.xid from workflow.workflow_event e where e.workflow_id = new.id and e.event_type = 'cancelled'
           order by e.id desc limit 1) is distinct from pg_current_xact_id() then
    insert into workflow.workflow_event (workflow_id, event_type, actor, attempt)
    values (new.id, 'cancelled', session_user, new.attempt + new.lost + 1);
  end if;
  return new;
end $$;
create or replace trigger workflow_run_60_cancelled before update of status on workflow.workflow_run for each row
  when (new.status = 'cancelled' and not windlass.writes_events('windlass.run'::regclass))
  execute function windlass.inbox_cancelled();

drop trigger workflow_run_02_org on workflow.workflow_run;
drop trigger workflow_run_03_org on workflow.workflow_run;
drop trigger workflow_run_05_bounds on workflow.workflow_run;
drop trigger workflow_run_05_reserved on workflow.workflow_run;
drop trigger workflow_run_08_archived on workflow.workflow_run;
drop trigger workflow_run_10_due on workflow.workflow_run;
drop trigger workflow_run_15_created on workflow.workflow_run;
drop trigger workflow_run_18_paused on workflow.workflow_run;
drop trigger workflow_run_20_moved on workflow.workflow_run;
drop trigger workflow_run_25_left_worker on workflow.workflow_run;
drop trigger workflow_run_40_rate on workflow.workflow_run;
drop trigger workflow_run_80_runs on workflow.workflow_run;
drop function windlass.set_sql_org_of_job, windlass.inbox_org, windlass.inbox_bounds, windlass.inbox_reserved,
  windlass.inbox_archived, windlass.inbox_due, windlass.inbox_first_update, windlass.inbox_paused, windlass.inbox_moved,
  windlass.inbox_left_worker, windlass.rate_note_end, windlass.cancel_runs_of_job;
drop function windlass.is_out_of_bounds(workflow.workflow_run), windlass.is_reserved(workflow.workflow_run, boolean);

-- Events. Those of plain SQL have no actor.
create or replace function windlass.event_late() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  state text;
  there bigint;
begin
  if new.event_type not in ('created', 'succeeded', 'failed', 'retried', 'cancelled') then
    return new;
  end if;
  state := (select status from workflow.workflow_run where id = new.workflow_id);
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
create or replace trigger workflow_event_late before insert on workflow.workflow_event for each row
  when (new.actor is null) execute function windlass.event_late();

-- Runs. A move from or to the archive (`windlass.moves_rows`) changes neither keys nor labels.
create or replace function windlass.run_archived() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = 'off' as $$
declare
  archived uuid[];
begin
  if coalesce(current_setting('windlass.moves_rows', true), '') = ''
     and exists (select from pg_catalog.pg_inherits where inhparent = 'windlass.run'::regclass) then
    archived := array(
      select id from windlass.run
       where org = new.org and idempotency_key = new.idempotency_key and tableoid <> 'windlass.run'::regclass);
    if archived <> '{}' then
      perform windlass.restore_runs(archived);
    end if;
  end if;
  return new;
end $$;
create or replace trigger run_archived before insert on windlass.run for each row
  when (new.idempotency_key is not null) execute function windlass.run_archived();

create or replace function windlass.label_run() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if coalesce(current_setting('windlass.moves_rows', true), '') <> '' then
    return null;
  elsif tg_op = 'INSERT' then
    insert into windlass.label (org, key, value, run_id)
    select distinct on (left(key, 200)) new.org, left(key, 200), left(value, 200), new.id from jsonb_each_text(new.labels)
    on conflict do nothing;
  else
    delete from windlass.label l using jsonb_each_text(old.labels) as o
     where l.org = old.org and l.key = left(o.key, 200) and l.run_id = old.id;
  end if;
  return null;
end $$;
create or replace trigger run_labelled after insert on windlass.run for each row
  when (new.labels is not null) execute function windlass.label_run();
create or replace trigger run_unlabelled after delete on windlass.run for each row
  when (old.labels is not null) execute function windlass.label_run();
