-- May run before the new code: yes (nullable columns at the end of the inbox, partial indexes, new tables).
-- Columns for the Open Job Spec. They are null in other jobs, which are in none of the indexes.

alter table workflow.workflow_run
  add column envelope    jsonb,        -- data that only the OJS API needs: unknown fields, schema, original options
  add column expires_at  timestamptz,  -- a job that has not started by then fails
  add column unique_key  text,         -- fingerprint for unique jobs
  add column visibility  interval,     -- the lease requested by the producer
  add column lease       interval,     -- the current lease, if heartbeats do not specify it
  add column stop_at     timestamptz,  -- when the running attempt times out, if the worker does not enforce it
  add column rate_key    text,         -- the rate limit that applies
  add column dead_letter boolean;      -- it failed and is listed as a dead letter

create index idx_workflow_run_expiry on workflow.workflow_run (expires_at) where status = 'pending' and expires_at is not null;
create index idx_workflow_run_unique on workflow.workflow_run (unique_key, seq) where unique_key is not null;
create index idx_workflow_run_stop on workflow.workflow_run (stop_at) where status = 'leased' and stop_at is not null;
create index idx_workflow_run_rate on workflow.workflow_run (rate_key) where status = 'leased' and rate_key is not null;
create index idx_workflow_run_dead on workflow.workflow_run (org, seq)
  where status = 'failed' and dead_letter and deleted_at is null;

-- Rate and concurrency limits of keys. The latest definition applies.
create table windlass.rate (
  key         text primary key,            -- prefixed with the org
  per_period  double precision,            -- jobs per period; null: unlimited
  period      interval not null default interval '1 second',
  concurrency int,                         -- concurrently leased jobs; null: unlimited
  tokens      double precision not null,   -- available tokens at the time below
  at          timestamptz not null default windlass.now(),
  taken       int not null default 0,      -- claimed by the transaction below, not visible to others yet
  taken_by    xid8,
  constraint rate_check check (per_period > 0 and period > interval '0' and concurrency > 0)
);

-- Take a token of this key; return whether there was one. Called by claims, row by row, only for jobs that have a limit. Does
-- not wait for a key that another claim has locked, because claims must not wait for each other.
create function windlass.admit(wanted text) returns boolean language plpgsql as $$
declare
  limits windlass.rate;
  moment timestamptz := windlass.now();
  have   double precision;
  under_way int := 0;
begin
  select * into limits from windlass.rate where key = wanted;
  if not found then
    return true;
  end if;
  if limits.per_period is not null and limits.tokens < 1 and limits.tokens + limits.per_period
       * extract(epoch from moment - limits.at) / extract(epoch from limits.period) < 1 then
    return false;  -- the usual answer, without a lock
  end if;
  select * into limits from windlass.rate where key = wanted for update skip locked;
  if not found then
    return false;
  end if;
  if limits.per_period is not null then
    have := least(greatest(limits.per_period, 1), limits.tokens + limits.per_period
              * greatest(extract(epoch from moment - limits.at), 0) / extract(epoch from limits.period));
    if have < 1 then
      return false;
    end if;
  end if;
  if limits.taken_by = pg_current_xact_id() then
    under_way := limits.taken;
  end if;
  if limits.concurrency is not null and under_way
       + (select count(*) from workflow.workflow_run where rate_key = wanted and status = 'leased') >= limits.concurrency then
    return false;
  end if;
  update windlass.rate set tokens = coalesce(have - 1, tokens), at = moment, taken = under_way + 1, taken_by = pg_current_xact_id()
   where key = wanted;
  return true;
end $$;

-- Schedules that enqueue jobs of the Open Job Spec. A tick is one job, inserted under the lock of the schedule's row.
create table windlass.cron (
  id             uuid primary key,
  org            text not null,
  name           text not null,
  expression     text not null,
  timezone       text not null,
  overlap        text not null constraint cron_overlap_check check (overlap in ('allow', 'skip', 'replace', 'buffer')),
  asked          jsonb not null,           -- the job as requested
  template       jsonb not null,           -- the job as enqueued
  enabled        boolean not null default true,
  next_run_at    timestamptz,
  buffered_at    timestamptz,              -- a tick that waits for the previous job to end
  last_run_at    timestamptz,
  last_job_id    uuid,
  run_count      bigint not null default 0,
  created_at     timestamptz not null default windlass.now(),
  updated_at     timestamptz not null default windlass.now(),
  unique (org, name)
);
create index cron_due on windlass.cron (next_run_at) where enabled;
create index cron_buffered on windlass.cron (id) where buffered_at is not null;

-- Ticks that enqueued no job.
create table windlass.cron_event (
  id         bigint generated always as identity,
  org        text not null,
  name       text not null,
  tick       timestamptz not null,
  reason     text not null,
  created_at timestamptz not null default windlass.now(),
  xid        xid8 not null default pg_current_xact_id(),
  primary key (xid, id)
);

-- The directive that an HTTP worker gets with its next heartbeat.
alter table windlass.worker add column directive text constraint worker_directive_check check (directive in ('quiet', 'terminate'));
