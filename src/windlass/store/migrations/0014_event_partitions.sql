-- May run before the new code: yes (a function that does the same with weaker locks).

-- Create the partition of the week that `at` falls into. Attaching an empty table takes no lock that blocks writers: SHARE
-- UPDATE EXCLUSIVE on the events, and ACCESS EXCLUSIVE on the default partition, which has no writers while weeks are created
-- ahead of time. The CHECK avoids a scan of the rows when the partition is attached.
create or replace function windlass.make_event_partition(at timestamptz) returns text language plpgsql as $$
declare
  first timestamptz := date_trunc('week', at at time zone 'UTC') at time zone 'UTC';
  next  timestamptz := first + interval '7 days';
  name  text := 'workflow_event_' || to_char(first at time zone 'UTC', 'YYYYMMDD');
  late  boolean;
begin
  if to_regclass('workflow.' || name) is not null then
    return null;
  end if;
  execute format('create table workflow.%I (like workflow.workflow_event including defaults including constraints,
                  constraint week check (created_at >= %L and created_at < %L))', name, first, next);
  select exists (select from workflow.workflow_event_default where created_at >= first and created_at < next) into late;
  if late then
    -- The week was not created in time, and its events went to the default partition. Writers wait for the move: an insert that was
    -- routed to the default partition a moment ago would be rejected there once the new partition is attached.
    lock table workflow.workflow_event in share row exclusive mode;
    execute format('with moved as (delete from workflow.workflow_event_default where created_at >= %L and created_at < %L returning *)
                    insert into workflow.%I select * from moved', first, next, name);
  end if;
  execute format('alter table workflow.workflow_event attach partition workflow.%I for values from (%L) to (%L)', name, first, next);
  execute format('alter table workflow.%I drop constraint week', name);
  return name;
end $$;
