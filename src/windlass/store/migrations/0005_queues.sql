-- May run before the new code: yes
-- Queues. A queue exists as soon as a job names it; it has a row only if it has settings.
create table windlass.queue (
  name        text primary key,
  paused      boolean not null default false,
  paused_at   timestamptz,
  resumed_at  timestamptz,
  max_depth   integer check (max_depth > 0),  -- pending jobs; above it, APIs with backpressure reject new ones
  config      jsonb,                          -- further settings that an API stores for the queue
  created_at  timestamptz not null default windlass.now(),
  updated_at  timestamptz not null default windlass.now()
);
