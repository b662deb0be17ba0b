-- May run before the new code: yes (a trigger adds the prefix to what older code writes; its workers serve `default` only).
-- Queues, workers, schedules and quarantined items belong to an org.

-- For every org but `default` the stored name of a queue begins with the org. Claims, pauses, depths and wake-ups are then separate
-- for each org, with the indexes that there are.
create function windlass.stored_queue(org text, queue text) returns text language sql immutable parallel safe
  return case when org = 'default' then queue else org || '/' || queue end;
create function windlass.shown_name(org text, name text) returns text language sql immutable parallel safe
  return case when org <> 'default' and starts_with(name, org || '/') then substr(name, length(org) + 2) else name end;
create function windlass.queue_org(queue text) returns text language sql immutable parallel safe
  return case when position('/' in queue) > 0 then split_part(queue, '/', 1) else 'default' end;

-- Triggers would refuse changes to finished rows. A database with one org is not locked for a scan of all jobs.
do $$
begin
  if exists (select from windlass.org where name <> 'default') then
    alter table workflow.workflow_run disable trigger user;
    update workflow.workflow_run set queue = windlass.stored_queue(org, queue) where org <> 'default';
    alter table workflow.workflow_run enable trigger user;
  end if;
end $$;
-- Plain SQL names the queue as the org does.
create function windlass.inbox_org() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  new.queue := windlass.stored_queue(new.org, new.queue);
  return new;
end $$;
create trigger workflow_run_03_org before insert on workflow.workflow_run
  for each row when (new.org <> 'default' and not starts_with(new.queue, new.org || '/')) execute function windlass.inbox_org();
-- Not valid: names of queues of `default` are not checked, and those of other orgs have just been written.
alter table workflow.workflow_run
  add constraint workflow_run_queue_org check (org = 'default' or starts_with(queue, org || '/')) not valid;

-- Workers of the operator serve all orgs and belong to `default`; those that use HTTP belong to the org of their key.
alter table windlass.worker add column org text not null default 'default';
-- Maintenance tasks belong to `default`.
alter table windlass.quarantine add column org text not null default 'default';
create function windlass.org_of(kind text, key text) returns text language plpgsql stable as $$
begin
  case kind
    when 'run' then return (select org from windlass.run where id = key::uuid);
    when 'workflow' then return (select org from windlass.workflow where id = key::uuid);
    when 'trigger' then return (select org from windlass.schedule where id = key::uuid);
    when 'cron' then return (select org from windlass.cron where id = key::uuid);
    when 'schedule' then return (select org from workflow.workflow_schedule where id = key::uuid);
    when 'job' then return (select org from workflow.workflow_run where id = key::uuid);
    else return null;  -- an event or a maintenance task
  end case;
exception when invalid_text_representation then return null;
end $$;
alter table workflow.workflow_schedule add column org text not null default 'default';
alter table windlass.queue add column org text generated always as (windlass.queue_org(name)) stored;

-- List the queues of an org that have due jobs, or jobs that become due later: one probe for each name.
create function windlass.pending_queues(wanted text, is_due boolean) returns setof text language plpgsql stable as $$
declare
  name text := '';
begin
  loop
    if wanted <> 'default' then
      select j.queue into name from workflow.workflow_run j
       where j.status = 'pending' and j.deleted_at is null and j.org <> 'default' and j.due = is_due and j.org = wanted and j.queue > name
       order by j.queue limit 1;
    elsif is_due then
      select j.queue into name from workflow.workflow_run j
       where j.status = 'pending' and j.due and j.deleted_at is null and j.queue > name order by j.queue limit 1;
    else
      select j.queue into name from workflow.workflow_run j
       where j.status = 'pending' and not j.due and j.queue > name order by j.queue limit 1;
    end if;
    exit when name is null;
    if wanted <> 'default' or position('/' in name) = 0 then
      return next name;
    end if;
  end loop;
end $$;

-- List the lanes of these queues by a loose scan of the claim index.
create function windlass.lanes(queues text[]) returns table (queue text, type text, priority int, alone boolean, seq bigint)
language sql stable as $$
  with recursive lane as (
    (select head.* from unnest(queues) as q(name) cross join lateral (
       select j.queue, j.type, j.priority, j.alone, j.seq from workflow.workflow_run j
        where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = q.name
        order by j.queue, j.type, j.priority, j.alone, j.seq limit 1) as head)
    union all
    select next.* from lane cross join lateral (
      select j.queue, j.type, j.priority, j.alone, j.seq from workflow.workflow_run j
       where j.status = 'pending' and j.due and j.deleted_at is null and j.queue = lane.queue
         and (j.type, j.priority, j.alone) > (lane.type, lane.priority, lane.alone)
       order by j.queue, j.type, j.priority, j.alone, j.seq limit 1) as next)
  select * from lane
$$;
