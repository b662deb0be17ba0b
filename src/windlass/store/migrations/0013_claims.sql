-- May run before the new code: yes (new tables, functions, nullable columns, and triggers that do not affect older code).
-- Prevents one row, one limit or one tree of runs from blocking all others.

-- Reject values that overflow in time arithmetic, or that no client can decode, on insert. This is a trigger and not a CHECK: a
-- CHECK, NOT VALID or not, also applies to every later update of a row, so that an existing bad row would make its claim fail.
-- Statements that read such rows clamp the values. `run_at = 'infinity'` is legal: the job waits for activation.
create function windlass.inbox_bounds() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  wrong text := case
    when new.timeout < interval '0' or new.timeout > interval '36525 days'
      then format('timeout is %s: it must lie between 0 and 36525 days', new.timeout)
    when new.visibility < interval '0' or new.visibility > interval '36525 days'
      then format('visibility is %s: it must lie between 0 and 36525 days', new.visibility)
    when new.max_attempts > 1000000 then format('max_attempts is %s: the most is 1000000', new.max_attempts)
    when new.priority not between -2000000000 and 2000000000
      then format('priority is %s: it must lie between -2000000000 and 2000000000', new.priority)
    when new.attempt not between 0 and 1000000 then format('attempt is %s: it must lie between 0 and 1000000', new.attempt)
    when new.retry ? 'dead_letter' and jsonb_typeof(new.retry -> 'dead_letter') <> 'boolean'
      then format('retry.dead_letter is %s: it must be true or false', new.retry -> 'dead_letter')
    when isfinite(new.run_at) and new.run_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('run_at is %s: it must lie in the years 1 to 9999, or be infinity', new.run_at)
    when new.created_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('created_at is %s: it must lie in the years 1 to 9999', new.created_at)
    when new.updated_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('updated_at is %s: it must lie in the years 1 to 9999', new.updated_at)
    when new.expires_at not between timestamptz '0001-01-02' and timestamptz '9999-12-30'
      then format('expires_at is %s: it must lie in the years 1 to 9999', new.expires_at)
    end;
begin
  if wrong is not null then
    raise exception '%', wrong using errcode = 'check_violation';
  end if;
  return new;
end $$;

-- Jobs whose rate limit was exhausted when a claim met them. They are not due (`due` is false) and become due in the order of
-- `place` when there is room, so that a blocked key costs nothing and hides no other jobs. A separate table, because the inbox is
-- large and such jobs are few.
create table windlass.rate_line (
  job_id    uuid primary key,
  key       text not null,
  place     bigint not null,     -- its `seq` when the limit first blocked it
  called_at timestamptz          -- when it was made due again; null: it waits
);
create index rate_line_next on windlass.rate_line (key, place) where called_at is null;
create index rate_line_called on windlass.rate_line (key, called_at) where called_at is not null;

-- The statement that claimed `taken`: jobs of earlier statements of the same transaction already count as leased.
alter table windlass.rate add column taken_at timestamptz;

-- Return the available tokens of a limit; null: the rate is not limited. A millionth is added, because sums of fractions are
-- not exact.
create function windlass.rate_tokens(limits windlass.rate) returns double precision language sql stable
  return case when limits.per_period is not null then 0.000001 + least(greatest(limits.per_period, 1),
    limits.tokens + limits.per_period * greatest(extract(epoch from windlass.now() - limits.at), 0) / extract(epoch from limits.period)) end;

-- Return how many more jobs of this key may be claimed now, at most 100; `under_way` are about to be leased.
create function windlass.rate_room(limits windlass.rate, under_way int) returns int language sql stable
  return least(100, floor(windlass.rate_tokens(limits)),
    limits.concurrency - under_way - case when limits.concurrency is not null then (
      select count(*) from workflow.workflow_run where rate_key = limits.key and status = 'leased') end)::int;

-- Make up to `most` jobs that wait for this key due again, first in first out; return their queues. Locked rows are skipped,
-- because claims and reports must not wait here.
create function windlass.rate_call(wanted text, most int) returns setof text language plpgsql as $$
declare
  next record;
begin
  for next in
    select j.id, j.queue from windlass.rate_line r join workflow.workflow_run j on j.id = r.job_id
     where r.key = wanted and r.called_at is null and j.status = 'pending' and not j.due and j.deleted_at is null
     order by r.place limit most for update of j skip locked
  loop
    update windlass.rate_line set called_at = windlass.now() where job_id = next.id;
    update workflow.workflow_run set run_at = windlass.now() where id = next.id;  -- its trigger gives it a place in line
    return next next.queue;
  end loop;
end $$;

-- Return whether this statement has taken half a second already. If so, it leaves further jobs without room to the next claim.
create function windlass.rate_enough() returns boolean language sql volatile
  return clock_timestamp() > statement_timestamp() + interval '500 milliseconds';

-- Return whether the limit of its key allows to claim this job. Called by claims, row by row, only for jobs that have a limit.
-- With `take`, a token is used if it does. If it does not, the job becomes not due until there is room again, unless another
-- claim has locked the key: claims must not wait for each other.
create function windlass.rate_admit(wanted text, job uuid, place bigint, take boolean) returns boolean language plpgsql as $$
declare
  limits windlass.rate;
  under_way int := 0;
  room int;
begin
  select * into limits from windlass.rate where key = wanted;
  if not found then
    return true;
  end if;
  -- New jobs queue up behind those that wait already, or that were made due a moment ago. A job that was made due keeps its turn for
  -- some seconds only: there may be no worker for its queue.
  if not exists (select from windlass.rate_line r where r.key = wanted and r.called_at is null)
     and not exists (select from windlass.rate_line r where r.key = wanted and r.called_at > windlass.now() - interval '5 seconds')
     or exists (select from windlass.rate_line r where r.job_id = job) then
    if not take then
      room := windlass.rate_room(limits, 0);
    elsif windlass.rate_tokens(limits) >= 1 is not false then  -- else the usual answer, without a lock
      select * into limits from windlass.rate where key = wanted for update skip locked;
      if not found then
        return false;
      end if;
      if limits.taken_by = pg_current_xact_id() and limits.taken_at = statement_timestamp() then
        under_way := limits.taken;  -- rows of this very statement, which cannot be counted yet
      end if;
      room := windlass.rate_room(limits, under_way);
    end if;
  end if;
  if room >= 1 is not true then
    perform windlass.rate_leave(wanted, job, place);
    return false;
  end if;
  if take then
    update windlass.rate set tokens = coalesce(windlass.rate_tokens(limits) - 1, tokens), at = windlass.now(),
           taken = under_way + 1, taken_by = pg_current_xact_id(), taken_at = statement_timestamp()
     where key = wanted;
    delete from windlass.rate_line where job_id = job;
    if room > 1 then
      perform windlass.rate_call(wanted, room - 1);
    else
      perform windlass.rate_wait(wanted);
    end if;
  end if;
  return true;
end $$;

-- Make a job that its limit blocked not due. Only the first one that waits for a key becomes due at a set time; the others are
-- made due in order, at the latest after a day, in case a wake-up was missed.
create function windlass.rate_leave(wanted text, job uuid, at_place bigint) returns void language plpgsql as $$
begin
  perform from workflow.workflow_run where id = job and status = 'pending' and due for update skip locked;
  if not found then
    return;
  end if;
  insert into windlass.rate_line (job_id, key, place) values (job, wanted, at_place)
  on conflict (job_id) do update set called_at = null;
  update workflow.workflow_run set run_at = windlass.now() + interval '1 day' where id = job;
  if not exists (select from windlass.rate_line r where r.key = wanted and r.called_at is null and r.place < at_place) then
    perform windlass.rate_wait(wanted);
  end if;
end $$;

-- Make the first job that waits for this key due when the next token is available.
create function windlass.rate_wait(wanted text) returns void language plpgsql as $$
declare
  first record;
  back  timestamptz;
begin
  select windlass.now() + make_interval(secs => least(3600, greatest(0.001,
           (1 - windlass.rate_tokens(r)) * extract(epoch from r.period) / r.per_period)))
    into back from windlass.rate r where r.key = wanted and r.per_period is not null;
  if back is null then
    return;  -- only the concurrency is limited: the end of a job makes the next one due
  end if;
  select j.id, j.run_at into first from windlass.rate_line r join workflow.workflow_run j on j.id = r.job_id
   where r.key = wanted and r.called_at is null and j.status = 'pending' and not j.due and j.deleted_at is null
   order by r.place limit 1 for update of j skip locked;
  if first.run_at > back then
    update workflow.workflow_run set run_at = back where id = first.id;
    if back < windlass.now() + interval '1 second' then
      perform pg_notify('windlass', 'timer');  -- otherwise the timer loop may notice it a second later
    end if;
  end if;
end $$;

-- The end of a job makes room for the next one of its key, whichever client recorded it. An AFTER trigger, because the next job
-- may be a row of the same statement. `security definer`: roles of SQL workers have no privileges on the internal schema.
create function windlass.rate_ended() returns trigger language plpgsql security definer set search_path = '' as $$
declare
  queue text;
begin
  for queue in select windlass.rate_call(new.rate_key, 1) from windlass.rate r where r.key = new.rate_key and r.concurrency is not null loop
    perform pg_notify('windlass', case when length(queue) <= 255 then queue else '' end);
  end loop;
  return null;
end $$;
create trigger workflow_run_40_rate after update on workflow.workflow_run for each row
  when (new.rate_key is not null and old.status = 'leased' and new.status <> 'leased')
  execute function windlass.rate_ended();

-- The root of a tree of runs; null for runs without a parent. Used to count the runs of a tree when child runs are started.
alter table windlass.run add column root_id uuid;
create index run_root on windlass.run (root_id) where root_id is not null and state in ('pending', 'running');

-- Return the results of the jobs at these steps, the last steps of a run first: up to `each` bytes per run, and `most` in total.
-- Further rows are `omitted`, and their results are not read: a loop, because a window function would read all of them.
create function windlass.part_results(runs uuid[], steps int[], each bigint, most bigint)
  returns table (run_id uuid, step int, item int, items int, status text, result jsonb, error jsonb, last_error text, attempts int,
                 omitted boolean)
  language plpgsql stable as $$
#variable_conflict use_column
declare
  j     record;
  run   uuid;
  mine  bigint := 0;
  total bigint := 0;
begin
  for j in
    select r.run_id, r.step, r.item, r.items, r.status, r.result, r.errors -> -1 as error, r.last_error, r.attempt + r.lost as attempts
      from unnest(runs, steps) as w(run_id, step) join workflow.workflow_run r on r.run_id = w.run_id and r.step = w.step
     order by r.run_id, r.step desc, r.item desc
  loop
    if run is distinct from j.run_id then
      run := j.run_id;
      mine := 0;
    end if;
    run_id := j.run_id; step := j.step; item := j.item; items := j.items; status := j.status; error := j.error;
    last_error := j.last_error; attempts := j.attempts;
    omitted := mine >= each or total >= most;
    result := null;
    if not omitted then
      result := j.result;
      mine := mine + coalesce(octet_length(result::text), 0);
      total := total + coalesce(octet_length(result::text), 0);
    end if;
    return next;
  end loop;
end $$;
