-- May run before the new code: yes (new tables, and an index that plain rows are not in).
-- Checkpoints and progress of jobs, event subscriptions, and schemas of job arguments.

-- Checkpoints of a job. A row without a name is a state that a worker saved as a whole; a row with a name is the result of a
-- durable step. `input` and `xid` show whether a row is still valid when the job runs again.
create table windlass.checkpoint (
  job_id   uuid not null,
  name     text not null default '',
  state    jsonb not null,
  sequence int not null default 1,              -- number of saves
  input    text,                                -- md5 of the payload for which the step ran
  saved_at timestamptz not null default windlass.now(),
  xid      xid8 not null default pg_current_xact_id(),
  primary key (job_id, name)
);

-- The latest progress of a job.
create table windlass.progress (
  job_id     uuid primary key,
  fraction   double precision not null constraint progress_fraction_check check (fraction between 0 and 1),
  message    text,
  data       jsonb,
  updated_at timestamptz not null default windlass.now()
) with (fillfactor = 50);

-- Event subscriptions. Without a secret of its own, a subscription has one that is derived from the key of the installation,
-- its id and `rotation`, and is not stored.
create table windlass.subscription (
  id           uuid primary key,
  org          text not null,
  url          text not null,
  events       text[] not null,                 -- names, or prefixes with a star: job.*
  queues       text[] not null default '{}',    -- empty: all
  types        text[] not null default '{}',
  metadata     jsonb,
  active       boolean not null default true,
  secret       text,
  old_secret   text,
  rotation     int not null default 0,
  rotated_at   timestamptz,                     -- for a while deliveries are signed with the previous secret too
  failures     int not null default 0,          -- consecutive failed deliveries
  delivered_at timestamptz,                     -- the last successful delivery
  off_reason   text,                            -- why it was deactivated
  since        timestamptz not null default windlass.now(),  -- earlier events are not delivered
  created_at   timestamptz not null default windlass.now(),
  updated_at   timestamptz not null default windlass.now()
);
create index subscription_org on windlass.subscription (org, id);

-- The position of a reader of the events.
create table windlass.bookmark (
  reader text primary key,
  place  text not null
);

-- Schemas of the arguments of job types, by version.
create table windlass.job_schema (
  org        text not null,
  type       text not null,
  version    text not null,
  uri        text,                              -- an alternative to type@version
  document   jsonb not null,
  mode       text not null constraint job_schema_mode_check check (mode in ('strict', 'warn', 'off')),
  created_at timestamptz not null default windlass.now(),
  primary key (org, type, version)
);

-- Jobs by tenant; jobs without one are not in the index.
create index idx_workflow_run_tenant on workflow.workflow_run ((meta ->> 'tenant_id')) where meta ->> 'tenant_id' is not null;
