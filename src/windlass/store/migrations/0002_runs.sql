-- May run before the new code: yes (new tables, and defaulted columns at the end of the inbox).
-- Workflows, their versions and their runs. A step that needs a worker is a row of the inbox.

create table windlass.workflow (
  id         uuid primary key,
  org        text not null,
  name       text not null,
  live       int not null,                       -- the number of the version that new runs start on
  enabled    boolean not null default true,
  created_at timestamptz not null default windlass.now(),
  updated_at timestamptz not null default windlass.now(),
  deleted_at timestamptz                         -- soft delete: frees the name, live runs finish
);
create unique index workflow_name on windlass.workflow (org, name) where deleted_at is null;

-- Published versions never change. The id is small, because it is stored in every run and every step job.
create table windlass.version (
  id          int generated always as identity primary key,
  workflow_id uuid not null references windlass.workflow (id),
  number      int not null,
  document    jsonb not null,
  fingerprint text not null,
  created_at  timestamptz not null default windlass.now(),
  unique (workflow_id, number)
);

create function windlass.forbid() returns trigger language plpgsql as $$
begin
  raise exception 'a published version never changes: publish another' using errcode = 'check_violation';
end $$;
create trigger version_forbid before update on windlass.version for each row execute function windlass.forbid();

-- The whole state of a run is in its row: one letter per step, in definition order. No column that changes is indexed, and
-- pages have free space, so updates are HOT.
create table windlass.run (
  id              uuid primary key,
  org             text not null,
  workflow_id     uuid not null,
  version_id      int not null,
  state           text not null constraint run_state_check
                  check (state in ('pending', 'running', 'completed', 'failed', 'cancelled', 'timeout')),
  steps           text not null constraint run_steps_check check (translate(steps, '.asftkc', '') = ''),
  fans            jsonb,                          -- counters of fanned-out steps
  input           jsonb not null,
  labels          jsonb,
  idempotency_key text,
  round           int not null default 0,         -- grows with each retry and rerun
  depth           int not null default 0,         -- number of ancestors
  parent_id       uuid,
  parent_step     int,
  parent_item     int,
  parent_round    int,
  created_at      timestamptz not null default windlass.now(),
  started_at      timestamptz,
  finished_at     timestamptz,
  expires_at      timestamptz not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.05);
create unique index run_key on windlass.run (org, idempotency_key) where idempotency_key is not null;
create unique index run_child on windlass.run (parent_id, parent_step, parent_item, parent_round) where parent_id is not null;
create index run_of_workflow on windlass.run (workflow_id, id);
create index run_live on windlass.run (workflow_id, created_at) where state in ('pending', 'running');
create index run_held on windlass.run (workflow_id, id) where state = 'pending';
create index run_expiry on windlass.run (expires_at) where state in ('pending', 'running');
create index run_bad on windlass.run (org, state, id) where state in ('failed', 'cancelled', 'timeout');
create index run_finished on windlass.run (finished_at) where finished_at is not null;

-- The items of a fanned-out step; stored once, so that instances can be created as slots become free.
create table windlass.item (
  run_id uuid not null,
  step   int not null,
  item   int not null,
  value  jsonb not null,
  primary key (run_id, step, item)
);

-- A sleeping step.
create table windlass.timer (
  run_id uuid not null,
  step   int not null,
  due_at timestamptz not null,
  primary key (run_id, step)
);
create index timer_due on windlass.timer (due_at);

-- Messages between runs: the end of a child, the cancellation by a parent. A notice is consumed under the lock of the run it
-- is addressed to, so that two runs are never locked together.
create table windlass.notice (
  id     bigint generated always as identity primary key,
  run_id uuid not null,
  word   text not null constraint notice_word_check check (word in ('ended', 'cancel')),
  step   int,
  item   int,
  round  int,
  letter text,
  reason text
);
create index notice_run on windlass.notice (run_id);

-- Events of runs: states, steps, reasons. Readers page by (xid, id), as for the events of jobs.
create table windlass.event (
  id         bigint generated always as identity,
  run_id     uuid not null,
  step       int,                                -- null: the run itself
  word       text not null,                      -- a state of the run or of the step
  code       text,                               -- the reason, for programs
  reason     text,                               -- the reason as text
  actor      text,
  created_at timestamptz not null default windlass.now(),
  xid        xid8 not null default pg_current_xact_id(),
  primary key (xid, id)
);
create index event_run on windlass.event (run_id, id);

alter table workflow.workflow_run
  add column run_id uuid,
  add column version_id int,
  add column step int,                            -- the step's number in its definition
  add column item int,                            -- the instance, from 0
  add column items int,                           -- the number of instances; null: the step is not fanned out
  add column settled boolean not null default true, -- false: a step job whose end is not applied to its run yet
  add column cancel_requested boolean not null default false;
create unique index idx_workflow_run_step on workflow.workflow_run (run_id, step, item) where run_id is not null;
create index idx_workflow_run_unsettled on workflow.workflow_run (run_id)
  where not settled and (status in ('succeeded', 'failed', 'cancelled') or deleted_at is not null);

-- Restarting a job resets its attempt count; `epoch` keeps the log lines of both apart.
alter table windlass.job_log add column epoch int not null default 0;
alter table windlass.job_log drop constraint job_log_pkey, add primary key (job_id, epoch, attempt, line);

-- An id that sorts by time, for rows that a statement inserts in bulk.
create function windlass.new_id() returns uuid language sql volatile parallel safe
  return encode(set_byte(set_byte(overlay(uuid_send(gen_random_uuid())
      placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112), 8, (get_byte(uuid_send(gen_random_uuid()), 8) & 63) | 128), 'hex')::uuid;

-- The steps of a run with their states in words, for inspection.
create view windlass.step as
select r.id as run_id, t.number - 1 as step, t.document ->> 'name' as name, substr(r.steps, t.number::int, 1) as letter,
       case substr(r.steps, t.number::int, 1) when '.' then 'waiting' when 'a' then 'active' when 's' then 'succeeded'
         when 'f' then 'failed' when 't' then 'timed out' when 'k' then 'skipped' when 'c' then 'cancelled' end as state
  from windlass.run r
  join windlass.version v on v.id = r.version_id
 cross join lateral jsonb_array_elements(v.document -> 'tasks') with ordinality as t(document, number);
