-- May run before the new code: yes (functions, and triggers that find nothing before the new code archives something).
-- The archive: jobs and runs that ended some time ago move out of the tables that claims, reports and vacuum work on, to tables for
-- the week of their end. These inherit from the live tables, so that
--  * a query of `workflow.workflow_run` or `windlass.run` reads the archive too: API, CLI, dashboard and plain SQL,
--  * policies and rights are those of the parent, and a column that is added there is added here,
--  * constraint exclusion leaves them out of every statement about pending or leased jobs and live runs.
-- Statements that change rows, and those of the hot path, use `only`. Jobs and runs that run again are moved back first
-- (`restore_runs`, `restore_jobs`). A week is dropped as a whole.

-- The kinds of ended jobs, from the last to the first: the latest entry of each kind in the index is found first. In ascending order it
-- would be the oldest one, and the oldest entries are those of rows that were archived and not vacuumed yet.
create or replace view windlass.finished with (security_invoker = true) as
with recursive kind as (
  (select type, status from workflow.workflow_run
    where status in ('succeeded', 'failed', 'cancelled') order by type desc, status desc limit 1)
  union all
  select next.type, next.status from kind cross join lateral (
    select j.type, j.status from workflow.workflow_run j
     where j.status in ('succeeded', 'failed', 'cancelled') and (j.type, j.status) < (kind.type, kind.status)
     order by j.type desc, j.status desc limit 1) as next)
select type, status from kind;

-- The archive of the jobs and runs that ended at this time: the Monday of the week.
create function windlass.archive_week(at timestamptz) returns text language sql stable set search_path = ''
  return to_char(date_trunc('week', at at time zone 'UTC'), 'YYYYMMDD');

-- Create the archive of a week. Returns its name, or null if it exists.
create function windlass.make_archive(week text) returns text language plpgsql set search_path = '' as $$
declare
  jobs text := 'job_archive_' || week;
  runs text := 'run_archive_' || week;
begin
  if to_regclass('windlass.' || runs) is not null then
    return null;
  end if;
  execute format('create table windlass.%I (
    primary key (id), check (status in (''succeeded'', ''failed'', ''cancelled'')), check (not needs_created_event))
    inherits (workflow.workflow_run)', jobs);
  execute format('create index on windlass.%I (run_id, step, item) where run_id is not null', jobs);
  execute format('create index on windlass.%I (type, status, seq) where status in (''succeeded'', ''failed'', ''cancelled'')', jobs);
  execute format('create index on windlass.%I (org, type, queue, windlass.error_kind(last_error, errors), (run_id is not null), seq)
                   where status = ''failed'' and deleted_at is null', jobs);
  execute format('create index on windlass.%I (org, seq) where status = ''failed'' and dead_letter and deleted_at is null', jobs);
  execute format('create index on windlass.%I (org, seq) where org <> ''default''', jobs);
  execute format('create index on windlass.%I ((meta ->> ''tenant_id'')) where meta ->> ''tenant_id'' is not null', jobs);
  execute format('create index on windlass.%I (unique_key, seq) where unique_key is not null', jobs);
  execute format('create index on windlass.%I (idempotency_key) where idempotency_key is not null', jobs);
  -- Ended jobs do not change, as in the inbox. An update that would reopen a job violates a check.
  execute format('create trigger job_archive_guard before update on windlass.%I for each row when (new.epoch = old.epoch)
                  execute function windlass.inbox_guard()', jobs);
  execute format('create table windlass.%I (
    primary key (id), check (state in (''completed'', ''failed'', ''cancelled'', ''timeout'')), check (finished_at is not null))
    inherits (windlass.run)', runs);
  execute format('create index on windlass.%I (workflow_id, id)', runs);
  execute format('create index on windlass.%I (org, state, id) where state <> ''completed''', runs);
  execute format('create index on windlass.%I (finished_at, state, org) where finished_at is not null', runs);
  execute format('create index on windlass.%I (parent_id, parent_step, parent_item, parent_round) where parent_id is not null', runs);
  execute format('create index on windlass.%I (org, idempotency_key) where idempotency_key is not null', runs);
  -- These tables are read through their parents. They have no policies: only their owner may read them directly.
  execute format('alter table windlass.%I enable row level security', jobs);
  execute format('alter table windlass.%I enable row level security', runs);
  return week;
end $$;

-- Archiving has two steps. The first finds jobs or runs and takes no locks. The second moves those that it is given, in one transaction,
-- unless they were reopened meanwhile. If a row makes that fail, the caller moves the others and sets this one aside: as
-- duty `archive/ID` in the quarantine, which the first step leaves out for a while.
-- Conditions on the state are written as `status || ''`: with statistics of a moment when few jobs had ended, the planner would
-- otherwise scan the partial indexes of all ended rows instead of looking up the given keys.

-- The ids that could not be archived lately.
create view windlass.not_archived with (security_invoker = true) as
select substr(key, 9)::uuid as id from windlass.quarantine where kind = 'duty' and key like 'archive/%' and retry_at > windlass.now();

-- The lowest id that `windlass.new_id` can make at this time.
create function windlass.first_id(at timestamptz) returns uuid language sql immutable set search_path = ''
  return (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid;

-- Find jobs that belong to no run and ended longer than `age` ago. A call scans the next `most` jobs in the order of their ids, from
-- where the last call stopped (a bookmark), so that a round scans each job of the inbox once. It skips ids that are too recent: those
-- jobs cannot have ended early enough. The random ids of plain SQL come after them. `more` is false at the end of a
-- round.
create function windlass.find_old_jobs(age interval, most int, out ids uuid[], out more boolean) language plpgsql set search_path = '' as $$
declare
  young   constant uuid := windlass.first_id(windlass.now() - age);
  sql_ids constant uuid := windlass.first_id(windlass.now() + interval '1 day');
  last    uuid := coalesce((select place::uuid from windlass.bookmark where reader = 'archive/inbox'),
                           '00000000-0000-0000-0000-000000000000');
  bound   uuid;
  met     int;
begin
  if last >= young and last < sql_ids then
    last := sql_ids;
  end if;
  bound := case when last < young then young else 'ffffffff-ffff-ffff-ffff-ffffffffffff' end;
  with next as materialized (
    select id, status in ('succeeded', 'failed', 'cancelled') and run_id is null and not needs_created_event
               and updated_at < windlass.now() - age as old
      from only workflow.workflow_run where id > last and id < bound order by id limit most)
  select count(*), coalesce((select id from next order by id desc limit 1), last),
         array_agg(id) filter (where old and id <> all(array(select id from windlass.not_archived)))
    into met, last, ids from next;
  more := met = most or bound < sql_ids;
  if more then
    insert into windlass.bookmark (reader, place) values ('archive/inbox', case when met < most then sql_ids else last end)
    on conflict (reader) do update set place = excluded.place;
  else
    delete from windlass.bookmark where reader = 'archive/inbox';
  end if;
end $$;

create function windlass.archive_jobs(wanted uuid[]) returns void language plpgsql set search_path = '' as $$
declare
  part record;
begin
  for part in
    select windlass.archive_week(updated_at) as week, array_agg(id) as ids from only workflow.workflow_run where id = any(wanted) group by 1
  loop
    perform windlass.make_archive(part.week);
    execute format('with gone as (delete from only workflow.workflow_run
                                   where id = any($1) and status || '''' not in (''pending'', ''leased'') returning *)
                    insert into windlass.%I select * from gone', 'job_archive_' || part.week) using part.ids;
  end loop;
end $$;

-- Find up to `most` topmost runs that ended longer than `age` ago, and all runs below them with them. A run that was cancelled may have
-- ended before what it started: it stays while a step is active or a notice waits for it. Together the trees have at most `most_jobs` jobs,
-- unless the oldest one alone has more. `more`: there may be others.
create function windlass.find_old_runs(age interval, most int, most_jobs int, out ids uuid[], out more boolean)
language sql stable set search_path = ''
begin atomic
  with recursive old as materialized (
    select r.id, r.finished_at from only windlass.run r
     where r.finished_at < windlass.now() - age and not exists (select from only windlass.run above where above.id = r.parent_id)
       and r.id <> all(array(select id from windlass.not_archived))
     order by r.finished_at limit most),
  tree as (
    select id as root, id, finished_at as ended_at from old
     union all
    select tree.root, c.id, tree.ended_at from tree join only windlass.run c on c.parent_id = tree.id),
  sized as (
    select tree.root, tree.ended_at, sum(own.jobs) as jobs,
           bool_and(r.finished_at is not null and own.ended and strpos(r.steps, 'a') = 0
                    and not exists (select from windlass.notice n where n.run_id = r.id)) as ended
      from tree join only windlass.run r on r.id = tree.id cross join lateral (
        select count(*) as jobs, coalesce(bool_and(j.settled and j.status not in ('pending', 'leased')), true) as ended
          from only workflow.workflow_run j where j.run_id = tree.id) as own
     group by tree.root, tree.ended_at),
  placed as (
    select root, row_number() over place = 1 or sum(jobs) over place <= most_jobs as fits
      from sized where ended window place as (order by ended_at, root))
  select array_agg(root) filter (where fits), coalesce(count(*) filter (where fits) = most or not bool_and(fits), false) from placed;
end;

-- Archive runs with everything below them, in the week in which the topmost one ended: the output of a child is part of that of its
-- parent, so it is kept as long. A child that is retried at this moment is live again and stays.
create function windlass.archive_runs(wanted uuid[]) returns void language plpgsql set search_path = '' as $$
declare
  part  record;
  moved uuid[];
begin
  perform set_config('windlass.moves_rows', 'on', true);  -- labels stay: see `run_labelled`
  for part in
    with recursive root as materialized (
      select id, finished_at from only windlass.run where id = any(wanted) and state || '' not in ('pending', 'running')
       order by id for update),
    tree as (
      select id, windlass.archive_week(finished_at) as week from root
       union all
      select c.id, tree.week from tree join only windlass.run c on c.parent_id = tree.id)
    select week, array_agg(id) as ids from tree group by week
  loop
    perform windlass.make_archive(part.week);
    execute format('with gone as (delete from only windlass.run
                                   where id = any($1) and state || '''' not in (''pending'', ''running'') returning *),
                    kept as (insert into windlass.%I select * from gone returning id)
                    select array_agg(id) from kept', 'run_archive_' || part.week) into moved using part.ids;
    execute format('with gone as (delete from only workflow.workflow_run
                                   where run_id = any($1) and status || '''' not in (''pending'', ''leased'') returning *)
                    insert into windlass.%I select * from gone', 'job_archive_' || part.week) using moved;
  end loop;
  perform set_config('windlass.moves_rows', '', true);
end $$;

-- Move archived runs back, with all runs below them and their jobs. Returns how many runs were moved.
create function windlass.restore_runs(wanted uuid[]) returns int language plpgsql security definer set search_path = '' as $$
declare
  home  record;
  trees uuid[];
  found int := 0;
begin
  select array_agg(id) into trees from windlass.run
   where id = any(wanted) and tableoid <> 'windlass.run'::regclass;
  if trees is null then
    return 0;
  end if;
  with recursive tree as (
    select unnest(trees) as id
     union
    select c.id from tree join windlass.run c on c.parent_id = tree.id)
  select array_agg(id) into trees from tree;
  perform set_config('windlass.moves_rows', 'on', true);
  for home in
    select r.tableoid::regclass::text as name, array_agg(r.id) as ids from windlass.run r
     where r.id = any(trees) and r.tableoid <> 'windlass.run'::regclass group by 1
  loop
    execute format('with gone as (delete from %s where id = any($1) returning *)
                    insert into windlass.run select * from gone', home.name) using home.ids;
    found := found + cardinality(home.ids);
  end loop;
  for home in
    select distinct j.tableoid::regclass::text as name from workflow.workflow_run j
     where j.run_id = any(trees) and j.tableoid <> 'workflow.workflow_run'::regclass
  loop
    execute format('with gone as (delete from %s where run_id = any($1) returning *)
                    insert into workflow.workflow_run select * from gone', home.name) using trees;
  end loop;
  perform set_config('windlass.moves_rows', '', true);
  return found;
end $$;

-- Move archived jobs back: those of runs with their runs. Returns how many of the given ones were archived.
create function windlass.restore_jobs(wanted uuid[]) returns int language plpgsql security definer set search_path = '' as $$
declare
  home  record;
  found int := 0;
begin
  for home in
    select j.tableoid::regclass::text as name, array_agg(j.id) filter (where j.run_id is null) as ids,
           array_agg(j.run_id) filter (where j.run_id is not null) as runs, count(*) as jobs
      from workflow.workflow_run j
     where j.id = any(wanted) and j.tableoid <> 'workflow.workflow_run'::regclass group by 1
  loop
    found := found + home.jobs;
    perform windlass.restore_runs(home.runs);
    perform set_config('windlass.moves_rows', 'on', true);
    execute format('with gone as (delete from %s where id = any($1) returning *)
                    insert into workflow.workflow_run select * from gone', home.name) using home.ids;
    perform set_config('windlass.moves_rows', '', true);
  end loop;
  return found;
end $$;

-- An insert with the key (or, by plain SQL and clients that choose ids, the id) of an archived job or run must conflict with it, as it
-- would have before: the archived row is moved back first, and the unique index does the rest.
-- A session may keep a plan that was made when the tables were small. Without `enable_seqscan = off` each insert would read all of them.
create function windlass.inbox_archived() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off as $$
declare
  archived uuid[];
begin
  if coalesce(current_setting('windlass.moves_rows', true), '') = ''
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
  return new;
end $$;
alter function windlass.inbox_created() set enable_seqscan = off;  -- for the same reason
create trigger workflow_run_08_archived before insert on workflow.workflow_run for each row
  when (new.idempotency_key is not null or new.needs_created_event or new.envelope is not null)
  execute function windlass.inbox_archived();

create function windlass.run_archived() returns trigger
language plpgsql security definer set search_path = '' set enable_seqscan = off as $$
declare
  archived uuid[];
begin
  if exists (select from pg_catalog.pg_inherits where inhparent = 'windlass.run'::regclass) then
    archived := array(
      select id from windlass.run
       where org = new.org and idempotency_key = new.idempotency_key and tableoid <> 'windlass.run'::regclass);
    if archived <> '{}' then
      perform windlass.restore_runs(archived);
    end if;
  end if;
  return new;
end $$;
create trigger run_archived before insert on windlass.run for each row
  when (new.idempotency_key is not null and coalesce(current_setting('windlass.moves_rows', true), '') = '')
  execute function windlass.run_archived();

-- Labels belong to a run, archived or not.
create or replace trigger run_labelled after insert on windlass.run for each row
  when (new.labels is not null and new.labels <> '{}' and coalesce(current_setting('windlass.moves_rows', true), '') = '')
  execute function windlass.label_run();
create or replace trigger run_unlabelled after delete on windlass.run for each row
  when (old.labels is not null and old.labels <> '{}' and coalesce(current_setting('windlass.moves_rows', true), '') = '')
  execute function windlass.label_run();

-- Before an archive is dropped, the rows of other tables that belong to its jobs and runs are deleted: those of `most` jobs and `most`
-- runs per call, in the order of their ids. Bookmarks record the progress. Returns false when nothing is left.
create function windlass.clear_archive(week text, most int) returns boolean language plpgsql set search_path = '' as $$
declare
  start constant uuid := '00000000-0000-0000-0000-000000000000';
  jobs  uuid[];
  runs  uuid[];
  parts uuid[];
begin
  execute format('select array(select id from windlass.%I where id > $1 order by id limit $2)', 'job_archive_' || week)
    into jobs using coalesce((select place::uuid from windlass.bookmark where reader = 'archive/jobs/' || week), start), most;
  delete from windlass.job_log where job_id = any(jobs);
  delete from windlass.stream_chunk where job_id = any(jobs);
  delete from windlass.checkpoint where job_id = any(jobs);
  delete from windlass.waiter where job_id = any(jobs);
  delete from windlass.progress where job_id = any(jobs);
  update windlass.artifact set remove_at = windlass.now() where job_id = any(jobs) and remove_at is null;
  execute format('select array(select id from windlass.%I where id > $1 order by id limit $2)', 'run_archive_' || week)
    into runs using coalesce((select place::uuid from windlass.bookmark where reader = 'archive/runs/' || week), start), most;
  with gone as (delete from windlass.composition where root_id = any(runs) returning run_id)
  select array_agg(run_id) into parts from gone;
  delete from windlass.reserved_id where run_id = any(parts);
  delete from windlass.reserved_key where run_id = any(parts);
  delete from windlass.item where run_id = any(runs);
  delete from windlass.notice where run_id = any(runs);
  delete from windlass.hook where run_id = any(runs);
  delete from windlass.approval where run_id = any(runs);
  delete from windlass.waiter where run_id = any(runs);
  delete from windlass.label l using windlass.run r cross join lateral jsonb_each_text(r.labels) as own
   where r.id = any(runs) and r.labels <> '{}' and l.org = r.org and l.key = left(own.key, 200) and l.run_id = r.id;
  delete from windlass.event where run_id = any(runs);
  insert into windlass.bookmark (reader, place)
  select reader, place from (values ('archive/jobs/' || week, jobs[cardinality(jobs)]::text),
                                    ('archive/runs/' || week, runs[cardinality(runs)]::text)) as last(reader, place)
   where place is not null
  on conflict (reader) do update set place = excluded.place;
  return cardinality(jobs) + cardinality(runs) > 0;
end $$;

-- Drop the archive of a week.
create function windlass.drop_archive(week text) returns void language plpgsql set search_path = '' as $$
begin
  execute format('drop table windlass.%I, windlass.%I', 'job_archive_' || week, 'run_archive_' || week);
  delete from windlass.bookmark where reader in ('archive/jobs/' || week, 'archive/runs/' || week);
end $$;

-- A server that acts in the role of a caller restores what is retried. SQL clients cannot move rows.
revoke execute on function windlass.archive_week, windlass.first_id, windlass.make_archive, windlass.find_old_jobs, windlass.archive_jobs,
  windlass.find_old_runs, windlass.archive_runs, windlass.restore_runs, windlass.restore_jobs, windlass.clear_archive, windlass.drop_archive
  from public;
create or replace function windlass.create_api_role() returns void language plpgsql set search_path = '' as $$
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
  if not pg_catalog.has_function_privilege('windlass_api', 'windlass.restore_jobs(uuid[])', 'EXECUTE') then
    grant execute on function windlass.restore_runs, windlass.restore_jobs to windlass_api;
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
do $$ begin
  if exists (select from pg_roles where rolname = 'windlass_api') then
    grant execute on function windlass.restore_runs, windlass.restore_jobs to windlass_api;
  end if;
end $$;
