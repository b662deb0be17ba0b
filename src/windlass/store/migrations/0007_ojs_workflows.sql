-- May run before the new code: yes (a new table, a defaulted column).
-- Compositions: chains, groups and batches of jobs, each a run of a hidden workflow.

alter table windlass.workflow add column hidden boolean not null default false;  -- the shape of compositions
create index workflow_shown on windlass.workflow (org, name) where deleted_at is null and not hidden;

-- One row for each composition, inserted when it is requested, nested ones included: they have their ids before their runs
-- start.
create table windlass.composition (
  run_id      uuid primary key,
  root_id     uuid not null,        -- the outermost
  parent_id   uuid,
  parent_step int,
  org         text not null,
  kind        text not null constraint composition_kind_check check (kind in ('chain', 'group', 'batch', 'dag')),
  name        text not null,
  alias       text,                 -- the id given by the client, if it is not a UUID
  version_id  int not null,
  jobs        int not null,         -- without callbacks, with the jobs of nested compositions
  labels      jsonb,                -- the client's names of its parts, by number
  steps       text,                 -- the initial step states of its run, if parts were copied from an earlier one
  retry_of    uuid,
  created_at  timestamptz not null default windlass.now(),
  started_at  timestamptz           -- when the first of its jobs was fetched
) with (fillfactor = 70);
create unique index composition_alias on windlass.composition (org, alias) where alias is not null;
create index composition_root on windlass.composition (root_id);
create unique index composition_place on windlass.composition (parent_id, parent_step) where parent_id is not null;

-- Ids that clients gave to jobs of compositions: reserved at the start, although the jobs may be inserted much later.
create table windlass.reserved_id (
  id     uuid primary key,
  run_id uuid not null
);
create index reserved_id_run on windlass.reserved_id (run_id);
