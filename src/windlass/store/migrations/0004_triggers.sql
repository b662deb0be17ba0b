-- May run before the new code: yes (a new table, an index, a nullable column).
-- Triggers of runs: schedules, and requests to the address of a workflow.

-- One schedule for each live workflow with a cron trigger, updated by publishing. A tick is a time that the cron expression
-- matches; its run has the unique key `schedule/<id>/<tick>`, so that one tick starts one run, however many processes fire it.
create table windlass.schedule (
  id             uuid primary key,
  org            text not null,
  workflow_id    uuid not null references windlass.workflow (id),
  cron           text not null,
  timezone       text not null,
  input          jsonb not null,
  overlap        text not null constraint schedule_overlap_check check (overlap in ('allow', 'skip', 'replace', 'buffer')),
  catch_up       text not null constraint schedule_catch_up_check check (catch_up in ('none', 'one', 'all')),
  next_run_at    timestamptz,                    -- the first tick that was not handled yet; null: none (paused, disabled, never)
  buffered_at    timestamptz,                    -- a tick that waits for the previous run to end
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

-- The live runs that schedules started. Runs of a backfill do not count.
create index run_scheduled on windlass.run (workflow_id, id)
  where state in ('pending', 'running') and idempotency_key like 'schedule/%' and not coalesce(labels ? 'backfill', false);

-- The address of a workflow with a webhook trigger: the token is shown once, and only its hash is stored.
alter table windlass.workflow add column token_hash bytea;
create unique index workflow_token on windlass.workflow (token_hash) where token_hash is not null;
