-- May run before the new code: yes
-- Queues. A queue exists as soon as a job names it; a row is made when somebody says something about it.
create table windlass.queue (
  name        text primary key,
  paused      boolean not null default false,
  paused_at   timestamptz,
  resumed_at  timestamptz,
  max_depth   integer check (max_depth > 0),  -- waiting jobs; beyond it faces that know backpressure refuse new ones
  config      jsonb,                          -- what a face was told about the queue and keeps for itself
  created_at  timestamptz not null default windlass.now(),
  updated_at  timestamptz not null default windlass.now()
);
