-- May run before the new code: yes (new tables, and an index that plain rows are not in).
-- What jobs leave behind while they are worked on, who is told about them, and what their arguments must look like.

-- How far a job had got. A row without a name is what a worker of any language saved as a whole; a row with one is the
-- result of a finished step of a handler. `input` and `xid` tell whether a row still counts when the job is done again.
create table windlass.checkpoint (
  job_id   uuid not null,
  name     text not null default '',
  state    jsonb not null,
  sequence int not null default 1,              -- how often it was saved
  input    text,                                -- md5 of the payload that the step worked on
  saved_at timestamptz not null default windlass.now(),
  xid      xid8 not null default pg_current_xact_id(),
  primary key (job_id, name)
);

-- What a job says of itself while it runs: one row a job, written over and over.
create table windlass.progress (
  job_id     uuid primary key,
  fraction   double precision not null constraint progress_fraction_check check (fraction between 0 and 1),
  message    text,
  data       jsonb,
  updated_at timestamptz not null default windlass.now()
) with (fillfactor = 50);

-- Somebody wants to be told of events. Without a secret of its own it has one that is made from the installation's key,
-- its id and `rotation`: nothing that could be read here.
create table windlass.subscription (
  id           uuid primary key,
  org          text not null,
  url          text not null,
  events       text[] not null,                 -- names, or beginnings of names with a star: job.*
  queues       text[] not null default '{}',    -- only of these; empty: of all
  types        text[] not null default '{}',
  metadata     jsonb,
  active       boolean not null default true,
  secret       text,
  old_secret   text,
  rotation     int not null default 0,
  rotated_at   timestamptz,                     -- for a while the secret before signs too
  failures     int not null default 0,          -- deliveries given up in a row
  delivered_at timestamptz,                     -- a recent success
  off_reason   text,                            -- why we switched it off
  since        timestamptz not null default windlass.now(),  -- what happened before is not told
  created_at   timestamptz not null default windlass.now(),
  updated_at   timestamptz not null default windlass.now()
);
create index subscription_org on windlass.subscription (org, id);

-- Up to which line of the trails a reader in the database has come.
create table windlass.bookmark (
  reader text primary key,
  place  text not null
);

-- What the arguments of a job type must look like, by version.
create table windlass.job_schema (
  org        text not null,
  type       text not null,
  version    text not null,
  uri        text,                              -- how jobs name it, beside type@version
  document   jsonb not null,
  mode       text not null constraint job_schema_mode_check check (mode in ('strict', 'warn', 'off')),
  created_at timestamptz not null default windlass.now(),
  primary key (org, type, version)
);

-- Jobs by the label of their tenant. Rows without one are not in it.
create index idx_workflow_run_tenant on workflow.workflow_run ((meta ->> 'tenant_id')) where meta ->> 'tenant_id' is not null;
