-- May run before the new code: yes (a new table, an index, a nullable column).
-- What starts runs: the clock, and requests to a workflow's own address.

-- One schedule for each live workflow with a cron trigger, kept true by publishing. A tick is the moment a cron names; its run
-- has the key `schedule/<id>/<tick>`, which is unique: one tick is one run, whoever looks.
create table windlass.schedule (
  id             uuid primary key,
  org            text not null,
  workflow_id    uuid not null references windlass.workflow (id),
  cron           text not null,
  timezone       text not null,
  input          jsonb not null,
  overlap        text not null constraint schedule_overlap_check check (overlap in ('allow', 'skip', 'replace', 'buffer')),
  catch_up       text not null constraint schedule_catch_up_check check (catch_up in ('none', 'one', 'all')),
  next_run_at    timestamptz,                    -- the first tick nobody has seen to; null: none (paused, disabled, never)
  buffered_at    timestamptz,                    -- a tick that waits until the run before it ends
  last_run_at    timestamptz,
  last_run_id    uuid,
  skipped_at     timestamptz,                    -- the last tick that started no run, and why
  skipped_reason text,
  paused         boolean not null default false,
  paused_reason  text,
  created_at     timestamptz not null default windlass.now(),
  updated_at     timestamptz not null default windlass.now()
);
create unique index schedule_workflow on windlass.schedule (workflow_id);
create index schedule_due on windlass.schedule (next_run_at) where not paused;
create index schedule_buffered on windlass.schedule (id) where buffered_at is not null;

-- The live runs of schedules, whatever else their workflows are doing. Runs of a backfill are a person's, not the clock's.
create index run_scheduled on windlass.run (workflow_id, id)
  where state in ('pending', 'running') and idempotency_key like 'schedule/%' and not coalesce(labels ? 'backfill', false);

-- The address of a workflow with a webhook trigger: the token is shown once, only its hash stays.
alter table windlass.workflow add column token_hash bytea;
create unique index workflow_token on windlass.workflow (token_hash) where token_hash is not null;
