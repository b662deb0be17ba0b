-- May run before the new code: yes (a new table, a defaulted column).
-- Compositions: chains, groups and batches of jobs, each a run of a workflow that nobody published by name.

alter table windlass.workflow add column hidden boolean not null default false;  -- the shape of compositions
create index workflow_shown on windlass.workflow (org, name) where deleted_at is null and not hidden;

-- One row for each composition from the moment it is asked for, also for those inside others: they have their ids before
-- their runs begin.
create table windlass.composition (
  run_id      uuid primary key,
  root_id     uuid not null,        -- the outermost
  parent_id   uuid,
  parent_step int,
  org         text not null,
  kind        text not null constraint composition_kind_check check (kind in ('chain', 'group', 'batch', 'dag')),
  name        text not null,
  alias       text,                 -- the id its client gave it, if that is no id of ours
  version_id  int not null,
  jobs        int not null,         -- callbacks are not counted, jobs of compositions inside are
  labels      jsonb,                -- what its client calls its parts, by number
  steps       text,                 -- the letters its run begins with, if some of it was done before
  retry_of    uuid,
  created_at  timestamptz not null default windlass.now(),
  started_at  timestamptz           -- the first of its jobs was handed out
) with (fillfactor = 70);
create unique index composition_alias on windlass.composition (org, alias) where alias is not null;
create index composition_root on windlass.composition (root_id);
create unique index composition_place on windlass.composition (parent_id, parent_step) where parent_id is not null;

-- Ids that clients gave to jobs of compositions: theirs from the beginning, though the jobs may begin much later.
create table windlass.reserved_id (
  id     uuid primary key,
  run_id uuid not null
);
create index reserved_id_run on windlass.reserved_id (run_id);
