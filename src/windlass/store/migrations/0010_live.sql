-- May run before the new code: yes (a defaulted column, a table kept by triggers, indexes).
-- Indexes for streams and for the list of runs.

-- Readers of log lines compare this with their last snapshot, as for events.
alter table windlass.job_log add column xid xid8 not null default pg_current_xact_id();

-- Labels of runs, one row each: for lists by label, newest first, and for prefix searches. A GIN index on the column of the run
-- is not ordered, so a page of a frequent label would read all its runs. Long values are truncated; the run has the full value.
create table windlass.label (
  org    text collate "C" not null,
  key    text collate "C" not null,
  value  text collate "C" not null,
  run_id uuid not null,
  primary key (org, key, run_id)
);
create index label_value on windlass.label (org, key, value, run_id);

-- Labels never change: they are inserted and deleted with their run.
create function windlass.label_run() returns trigger language plpgsql security definer set search_path = '' as $$
begin
  if tg_op = 'INSERT' then
    insert into windlass.label (org, key, value, run_id)
    select distinct on (left(key, 200)) new.org, left(key, 200), left(value, 200), new.id from jsonb_each_text(new.labels)
    on conflict do nothing;
  else
    delete from windlass.label l using jsonb_each_text(old.labels) as o
     where l.org = old.org and l.key = left(o.key, 200) and l.run_id = old.id;
  end if;
  return null;
end $$;
create trigger run_labelled after insert on windlass.run for each row
  when (new.labels is not null and new.labels <> '{}') execute function windlass.label_run();
create trigger run_unlabelled after delete on windlass.run for each row
  when (old.labels is not null and old.labels <> '{}') execute function windlass.label_run();
insert into windlass.label (org, key, value, run_id)
select r.org, left(l.key, 200), left(l.value, 200), r.id from windlass.run r cross join lateral jsonb_each_text(r.labels) as l
 where r.labels is not null and r.labels <> '{}'
on conflict do nothing;

-- Step jobs that wait for their next attempt: a step job that is not due has failed before.
create index idx_workflow_run_backoff on workflow.workflow_run (run_id) where status = 'pending' and not due and run_id is not null;
